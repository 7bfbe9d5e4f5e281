//! Fat files: several thin ones behind a table.

use anyhow::{Context as _, Result, ensure};
use object::read::macho::{FatArch, MachOFatFile32, MachOFatFile64};
use object::{FileKind, macho};

/// One part of a fat file.
struct Part<'a> {
    kind: u32,
    variant: u32,
    align: u32,
    bytes: &'a [u8],
}

/// The file with `change` applied to it, or to each of its parts if it is fat.
pub(super) fn map_parts(
    bytes: &[u8],
    mut change: impl FnMut(&[u8]) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let (parts, wide) = match FileKind::parse(bytes) {
        Ok(FileKind::MachOFat32) => (parts(bytes, MachOFatFile32::parse(bytes)?.arches())?, false),
        Ok(FileKind::MachOFat64) => (parts(bytes, MachOFatFile64::parse(bytes)?.arches())?, true),
        _ => return change(bytes),
    };
    let changed: Vec<_> = parts.iter().map(|part| change(part.bytes)).collect::<Result<_>>()?;
    write(&parts, &changed, wide)
}

fn parts<'a, A: FatArch>(bytes: &'a [u8], arches: &[A]) -> Result<Vec<Part<'a>>> {
    let part = |arch: &A| {
        ensure!(arch.align() < 32, "a part of the fat file has an impossible alignment");
        Ok(Part {
            kind: arch.cputype().0,
            variant: arch.cpusubtype().0,
            align: arch.align(),
            bytes: arch.data(bytes)?,
        })
    };
    arches.iter().map(part).collect()
}

/// The table is big-endian whatever the processors are.
fn write(parts: &[Part<'_>], changed: &[Vec<u8>], wide: bool) -> Result<Vec<u8>> {
    let (magic, entry) = if wide { (macho::FAT_MAGIC_64, 32) } else { (macho::FAT_MAGIC, 20) };
    let mut table = [magic.to_be_bytes(), (parts.len() as u32).to_be_bytes()].concat();
    let mut body = vec![0; 8 + entry * parts.len()];
    for (part, bytes) in parts.iter().zip(changed) {
        body.resize(body.len().next_multiple_of(1 << part.align), 0);
        let (offset, size) = (body.len() as u64, bytes.len() as u64);
        table.extend([part.kind.to_be_bytes(), part.variant.to_be_bytes()].concat());
        if wide {
            table.extend([offset.to_be_bytes(), size.to_be_bytes()].concat());
            table.extend([part.align.to_be_bytes(), [0; 4]].concat());
        } else {
            let narrow = |n: u64| u32::try_from(n).context("the fat file is too large");
            table.extend(
                [narrow(offset)?, narrow(size)?, part.align].map(u32::to_be_bytes).concat(),
            );
        }
        body.extend(bytes);
    }
    body[..table.len()].copy_from_slice(&table);
    Ok(body)
}
