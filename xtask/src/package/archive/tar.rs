//! Tar archives in POSIX's form, compressed member by member.

use std::io::{Read as _, Write as _};

use anyhow::{Context as _, Result, bail, ensure};
use flate2::write::GzEncoder;
use tar::{EntryType, Header};

use super::{Packed, Part};
use crate::package::epoch::Epoch;
use crate::package::tree::{Member, Tree};

/// Tar archives are made of blocks.
const BLOCK: usize = 512;

/// What ends one: two empty blocks.
const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Of zstd. From 13 on it chooses its matches by no feature of the processor.
const ZSTD_LEVEL: i32 = 19;

/// Packs `tree`, each member by one call of `compress`.
pub fn pack(tree: &Tree, epoch: Epoch, compress: fn(&[u8]) -> Result<Vec<u8>>) -> Result<Packed> {
    let (mut bytes, mut parts) = (Vec::new(), Vec::new());
    let mut append = |name: &str, plain: &[u8]| -> Result<()> {
        let start = bytes.len();
        bytes.extend(compress(plain)?);
        parts.push(Part::of(name, &bytes, start..bytes.len()));
        Ok(())
    };
    for (path, member) in tree.iter() {
        let blocks = blocks(path, member, epoch).with_context(|| format!("cannot pack {path}"))?;
        append(path, &blocks)?;
    }
    append("(end of the archive)", &END)?;
    Ok(Packed { bytes, parts })
}

/// One frame, with a checksum of its content.
pub fn zstd(plain: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(plain.len() as u64))?;
    encoder.write_all(plain)?;
    Ok(encoder.finish()?)
}

/// One stream without time or name.
pub fn gzip(plain: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain)?;
    Ok(encoder.finish()?)
}

/// A member's header and content, filled up to whole blocks.
fn blocks(path: &str, member: &Member, epoch: Epoch) -> Result<Vec<u8>> {
    let mut header = Header::new_ustar();
    header.set_path(path)?;
    header.set_mode(member.mode());
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(epoch.seconds());
    let content = match member {
        Member::File(bytes, _) => {
            header.set_entry_type(EntryType::Regular);
            bytes.as_slice()
        }
        Member::Link(to) => {
            header.set_entry_type(EntryType::Symlink);
            header.set_link_name(to)?;
            &[]
        }
    };
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut blocks = header.as_bytes().to_vec();
    blocks.extend(content);
    blocks.resize(blocks.len().next_multiple_of(BLOCK), 0);
    Ok(blocks)
}

/// Reads an archive back, after decompression.
pub fn unpack(plain: &[u8], epoch: Epoch) -> Result<Tree> {
    let mut tree = Tree::default();
    let mut archive = tar::Archive::new(plain);
    let mut written = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_str().context("a member's name is no UTF-8")?.to_owned();
        let executable = entry.header().mode()? & 0o100 != 0;
        let member = match entry.header().entry_type() {
            EntryType::Regular => {
                let mut content = Vec::new();
                entry.read_to_end(&mut content)?;
                Member::File(content, executable)
            }
            EntryType::Symlink => {
                let to = entry.link_name()?.context("a link names nothing")?;
                Member::Link(to.to_str().context("a link's name is no UTF-8")?.to_owned())
            }
            other => bail!("member {path}: {other:?} is neither a file nor a link"),
        };
        written.extend(blocks(&path, &member, epoch)?);
        tree.add(path, member);
    }
    written.extend(END);
    // Whatever is not what `pack` writes, be it the order, an owner or a byte of the padding.
    ensure!(
        written == plain,
        "owners, modes, times, order or padding of the members are not those of a release"
    );
    Ok(tree)
}
