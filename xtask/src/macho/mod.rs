//! Changing Mach-O files: install names and search paths, then an ad hoc signature, as
//! `install_name_tool` and `codesign` do on a Mac.

mod edit;
mod fat;
mod sign;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

pub use edit::Edits;

/// The bytes of a thin or fat file with `edits` applied and signed anew, or nothing if there was
/// nothing to change. A signature with a certificate becomes an ad hoc one, because it does not
/// hold for other bytes.
///
/// # Errors
/// It is no Mach-O file for 64-bit processors, is damaged, or its header has no room.
pub fn edited(bytes: &[u8], edits: &Edits) -> Result<Option<Vec<u8>>> {
    let mut changed = false;
    let out = fat::map_parts(bytes, |part| {
        let Some(mut new) = edit::apply(part, edits)? else { return Ok(part.to_vec()) };
        changed = true;
        sign::ad_hoc(&mut new, &edits.identifier)?;
        Ok(new)
    })?;
    Ok(changed.then_some(out))
}

/// The bytes of a thin or fat file, signed ad hoc.
///
/// # Errors
/// As [`edited`].
pub fn signed(bytes: &[u8], identifier: &str) -> Result<Vec<u8>> {
    fat::map_parts(bytes, |part| {
        let mut new = part.to_vec();
        sign::ad_hoc(&mut new, identifier)?;
        Ok(new)
    })
}

/// Puts new bytes in a file's place at once, with its permissions.
///
/// # Errors
/// The folder cannot be written to.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write as _;
    let context = || format!("cannot write {}", path.display());
    let folder = path.parent().with_context(context)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
    file.write_all(bytes).with_context(context)?;
    let permissions = std::fs::metadata(path).with_context(context)?.permissions();
    file.as_file().set_permissions(permissions).with_context(context)?;
    file.persist(path).with_context(context)?;
    Ok(())
}

/// The number at `at`, as the file's processor reads it: all that are written here are
/// little-endian.
fn word(bytes: &[u8], at: usize) -> Result<u32> {
    match bytes.get(at..at + 4) {
        Some(word) => Ok(u32::from_le_bytes([word[0], word[1], word[2], word[3]])),
        None => bail!("the file is cut off at {at:#x}"),
    }
}

fn long(bytes: &[u8], at: usize) -> Result<u64> {
    Ok(u64::from(word(bytes, at)?) | u64::from(word(bytes, at + 4)?) << 32)
}

fn set_word(bytes: &mut [u8], at: usize, value: u32) -> Result<()> {
    let place =
        bytes.get_mut(at..at + 4).with_context(|| format!("the file is cut off at {at:#x}"))?;
    place.copy_from_slice(&value.to_le_bytes());
    Ok(())
}

fn set_long(bytes: &mut [u8], at: usize, value: u64) -> Result<()> {
    let place =
        bytes.get_mut(at..at + 8).with_context(|| format!("the file is cut off at {at:#x}"))?;
    place.copy_from_slice(&value.to_le_bytes());
    Ok(())
}
