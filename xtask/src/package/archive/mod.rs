//! Packing a tree so that the same members always give the same bytes, on any machine.
//!
//! Each member is compressed by itself, in the order of paths, with owner 0, one of two modes and
//! one time for all. So each lies in bytes of its own: what is damaged has a name.

mod tar;
mod zip;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::digest::sha256;
use super::epoch::Epoch;
use super::tree::Tree;

/// The form of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A tar archive, compressed by zstd: a frame a member.
    TarZst,
    /// A tar archive, compressed by gzip: a stream a member.
    TarGz,
    /// A zip archive, or a wheel, which is one.
    Zip,
}

impl Form {
    /// The form that a file's name tells.
    ///
    /// # Errors
    /// It tells none of them.
    pub fn of(name: &str) -> Result<Self> {
        match name {
            _ if name.ends_with(".tar.zst") => Ok(Form::TarZst),
            _ if name.ends_with(".tar.gz") => Ok(Form::TarGz),
            _ if name.ends_with(".zip") || name.ends_with(".whl") => Ok(Form::Zip),
            _ => bail!("{name} is no .tar.zst, .tar.gz, .zip or .whl"),
        }
    }
}

/// A range of an archive's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The path of the member that lies there, or what else does, in parentheses.
    pub name: String,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub length: u64,
    /// The SHA-256 of these bytes.
    pub sha256: String,
}

impl Part {
    fn of(name: impl Into<String>, archive: &[u8], range: std::ops::Range<usize>) -> Self {
        Self {
            name: name.into(),
            offset: range.start as u64,
            length: range.len() as u64,
            sha256: sha256(&archive[range]),
        }
    }
}

/// A finished archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What lies where: all of the bytes, in order.
    pub parts: Vec<Part>,
}

/// Packs `tree`.
///
/// # Errors
/// A path does not fit into the form.
pub fn pack(form: Form, tree: &Tree, epoch: Epoch) -> Result<Packed> {
    match form {
        Form::TarZst => tar::pack(tree, epoch, tar::zstd),
        Form::TarGz => tar::pack(tree, epoch, tar::gzip),
        Form::Zip => zip::pack(tree, epoch),
    }
}

/// Reads an archive back.
///
/// # Errors
/// It is damaged, or not as [`pack`] writes it: unsorted, with other owners, modes or times, or
/// with something beside files and links.
pub fn unpack(form: Form, bytes: &[u8], epoch: Epoch) -> Result<Tree> {
    match form {
        Form::TarZst => tar::unpack(&zstd::decode_all(bytes)?, epoch),
        Form::TarGz => {
            let mut all = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(bytes), &mut all)?;
            tar::unpack(&all, epoch)
        }
        Form::Zip => zip::unpack(bytes, epoch),
    }
}

#[cfg(test)]
mod tests;
