//! Zip archives.

use std::io::{Cursor, Read as _, Write as _};

use anyhow::{Context as _, Result, bail, ensure};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{Packed, Part};
use crate::package::epoch::Epoch;
use crate::package::tree::{Member, Tree};

/// Of deflate.
const LEVEL: i64 = 9;

/// Packs `tree`.
pub fn pack(tree: &Tree, epoch: Epoch) -> Result<Packed> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, member) in tree.iter() {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(LEVEL))
            .last_modified_time(epoch.zip())
            .unix_permissions(member.mode());
        let Member::File(bytes, _) = member else {
            bail!("{path}: a link cannot be packed into a zip archive or a wheel");
        };
        writer.start_file(path, options).with_context(|| format!("cannot pack {path}"))?;
        writer.write_all(bytes)?;
    }
    let bytes = writer.finish()?.into_inner();
    let parts = parts(&bytes)?;
    Ok(Packed { bytes, parts })
}

/// What lies where: members, their records in the directory at the end, and the end itself.
fn parts(bytes: &[u8]) -> Result<Vec<Part>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    let (mut members, mut records) = (Vec::new(), Vec::new());
    for index in 0..archive.len() {
        let file = archive.by_index_raw(index)?;
        let name = file.name()?.into_owned();
        members.push((usize::try_from(file.header_start())?, name.clone()));
        records.push((usize::try_from(file.central_header_start())?, name));
    }
    let end = find_end(bytes).context("the archive has no end")?;
    let starts: Vec<(usize, String)> =
        members.into_iter().chain(records).chain([(end, "(end of the archive)".into())]).collect();
    let next = starts.iter().skip(1).map(|(start, _)| *start).chain([bytes.len()]);
    let parts = starts.iter().zip(next);
    Ok(parts.map(|((start, name), end)| Part::of(name, bytes, *start..end)).collect())
}

/// Where the record that ends an archive without a comment begins.
fn find_end(bytes: &[u8]) -> Option<usize> {
    let start = bytes.len().checked_sub(22)?;
    bytes[start..].starts_with(b"PK\x05\x06").then_some(start)
}

/// Reads an archive back.
pub fn unpack(bytes: &[u8], epoch: Epoch) -> Result<Tree> {
    let mut archive = ZipArchive::new(Cursor::new(bytes))?;
    let mut tree = Tree::default();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index)?;
        let name = file.name()?.into_owned();
        ensure!(file.is_file(), "member {name}: this is no file");
        let executable = file.unix_mode().is_some_and(|mode| mode & 0o100 != 0);
        let mut content = Vec::new();
        file.read_to_end(&mut content).with_context(|| format!("member {name}"))?;
        tree.add(name, Member::File(content, executable));
    }
    ensure!(
        pack(&tree, epoch)?.bytes == bytes,
        "modes, times, order or compression of the members are not those of a release"
    );
    Ok(tree)
}
