//! Hashes, and the names of what does not have its own.

use super::Release;
use crate::package::catalogue::Archive;
use crate::package::digest::sha256;
use crate::package::{catalogue, sums};

/// Whether a file has the hash that SHA256SUMS has for it.
pub fn whole(release: &Release, name: &str, bytes: &[u8]) -> Vec<String> {
    let (found, wanted) = (sha256(bytes), release.sums.0.get(name));
    match wanted {
        Some(wanted) if *wanted == found => Vec::new(),
        Some(wanted) => {
            vec![format!("{name} is damaged: its SHA-256 is {found}, {} has {wanted}", sums::NAME)]
        }
        None => vec![format!("{} does not name {name}", sums::NAME)],
    }
}

/// The same for an archive, of which the catalogue knows what lies where.
pub fn parts(release: &Release, name: &str, bytes: &[u8], archive: &Archive) -> Vec<String> {
    let mut faults = Vec::new();
    let mut end = 0;
    for part in &archive.parts {
        end = part.offset + part.length;
        let range = usize::try_from(part.offset).ok().zip(usize::try_from(end).ok());
        let found = range.and_then(|(start, end)| bytes.get(start..end));
        if found.is_none_or(|found| sha256(found) != part.sha256) {
            let place = format!("(bytes {} to {} of the file)", part.offset, end);
            faults.push(format!("{name}: the member {} is damaged {place}", part.name));
        }
    }
    if bytes.len() as u64 != end {
        let size = bytes.len();
        faults.push(format!("{name}: the file has {size} bytes, the release's has {end}"));
    }
    if !faults.is_empty() {
        return faults;
    }
    // All bytes are right, so that a hash that differs is itself the damage.
    let Some(fault) = whole(release, name, bytes).pop() else { return faults };
    vec![format!(
        "{fault}; yet the file is as {} says: the line in {} is damaged",
        catalogue::name(),
        sums::NAME
    )]
}
