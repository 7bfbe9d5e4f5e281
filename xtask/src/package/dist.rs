//! Putting a release in place: all of it, or nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::sums::{self, Sums};

/// How the folders that are being filled are called, beside the one that they become.
const UNFINISHED: &str = ".etmetal-dist-";

/// Puts `files` into the folder `to`, in place of an earlier release there.
///
/// The folder is filled beside its place and then takes it at once: whoever looks, at whatever
/// moment, finds the earlier release or this one, whole.
///
/// # Errors
/// `to` holds something that no release brought, or the file system refuses.
pub fn publish(to: &Path, files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let context = || format!("cannot write {}", to.display());
    let parent = to.parent().with_context(context)?;
    std::fs::create_dir_all(parent).with_context(context)?;
    refuse_what_is_not_ours(to)?;
    remove_unfinished(parent)?;
    let new =
        tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent).with_context(context)?;
    let folder = new.path().join("dist");
    std::fs::create_dir(&folder).with_context(context)?;
    for (name, bytes) in files {
        write(&folder.join(name), bytes)?;
    }
    std::fs::File::open(&folder).and_then(|folder| folder.sync_all()).with_context(context)?;
    exchange(&folder, to, &new.path().join("old")).with_context(context)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write as _;
    let context = || format!("cannot write {}", path.display());
    let mut file = std::fs::File::create(path).with_context(context)?;
    file.write_all(bytes).with_context(context)?;
    // A release must not be half there after the machine has lost its power either.
    file.sync_all().with_context(context)
}

/// Puts `new` in the place of `to`; what was there is then in `new` or `parked`.
fn exchange(new: &Path, to: &Path, parked: &Path) -> std::io::Result<()> {
    if !to.exists() {
        return std::fs::rename(new, to);
    }
    match renameat_with(CWD, new, CWD, to, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        // Some file systems cannot: then there is no folder for an instant.
        Err(_) => {
            std::fs::rename(to, parked)?;
            std::fs::rename(new, to).inspect_err(|_| {
                // Put the old one back; the first error is the one to tell.
                let _ = std::fs::rename(parked, to);
            })
        }
    }
}

/// Nothing that somebody else has put there is removed.
fn refuse_what_is_not_ours(to: &Path) -> Result<()> {
    let Some(found) = names(to)? else { return Ok(()) };
    let text = std::fs::read(to.join(sums::NAME)).unwrap_or_default();
    let known = Sums::parse(&text).unwrap_or_default();
    let is_ours = |name: &str| {
        known.0.contains_key(name)
            || name == sums::NAME
            || super::sign::ENDINGS.iter().any(|end| name == format!("{}{end}", sums::NAME))
    };
    match found.iter().find(|name| !is_ours(name)) {
        None => Ok(()),
        Some(other) => bail!(
            "{} holds {other}, which its SHA256SUMS does not name: move it away, or choose another \
             folder with --out",
            to.display()
        ),
    }
}

/// The names in the folder; nothing where it is not there.
fn names(folder: &Path) -> Result<Option<Vec<String>>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", folder.display()));
        }
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(Some(names))
}

/// Removes what a process that was killed has left.
fn remove_unfinished(parent: &Path) -> Result<()> {
    for name in names(parent)?.unwrap_or_default() {
        if name.starts_with(UNFINISHED) {
            let path: PathBuf = parent.join(name);
            std::fs::remove_dir_all(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::digest::sha256;

    fn release(members: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        let mut files: BTreeMap<_, _> = members
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
            .collect();
        let sums = files.iter().map(|(name, bytes)| (name.clone(), sha256(bytes)));
        let sums = Sums(sums.collect());
        files.insert(sums::NAME.into(), sums.text().into_bytes());
        files
    }

    #[test]
    fn a_release_takes_the_place_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let dist = folder.path().join("inner/dist");
        publish(&dist, &release(&[("a", "1"), ("b", "1")])).unwrap();
        std::fs::create_dir(folder.path().join("inner").join(format!("{UNFINISHED}x"))).unwrap();
        publish(&dist, &release(&[("a", "2")])).unwrap();
        assert_eq!(names(&dist).unwrap().unwrap(), [sums::NAME, "a"]);
        assert_eq!(std::fs::read_to_string(dist.join("a")).unwrap(), "2");
        assert_eq!(names(dist.parent().unwrap()).unwrap().unwrap(), ["dist"]);
    }

    #[test]
    fn what_no_release_brought_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let dist = folder.path().join("dist");
        publish(&dist, &release(&[("a", "1")])).unwrap();
        std::fs::write(dist.join("mine.txt"), "precious").unwrap();
        let error = publish(&dist, &release(&[("a", "2")])).unwrap_err().to_string();
        assert!(error.contains("dist holds mine.txt, which its SHA256SUMS"), "{error}");
        assert_eq!(std::fs::read_to_string(dist.join("a")).unwrap(), "1");
    }

    #[test]
    fn a_failure_leaves_the_release_before() {
        let folder = tempfile::tempdir().unwrap();
        let dist = folder.path().join("dist");
        publish(&dist, &release(&[("a", "1")])).unwrap();
        let mut broken = release(&[("a", "2")]);
        broken.insert("no/such/folder".into(), Vec::new());
        assert!(publish(&dist, &broken).is_err());
        assert_eq!(std::fs::read_to_string(dist.join("a")).unwrap(), "1");
        assert_eq!(names(folder.path()).unwrap().unwrap(), ["dist"]);
    }
}
