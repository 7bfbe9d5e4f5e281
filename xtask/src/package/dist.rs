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
    let place = Place::open(to)?;
    let (to, new) = (place.to.as_path(), &place.new);
    let context = || format!("cannot write {}", to.display());
    let folder = new.path().join("dist");
    std::fs::create_dir(&folder).with_context(context)?;
    for (name, bytes) in files {
        write(&folder.join(name), bytes)?;
    }
    std::fs::File::open(&folder).and_then(|folder| folder.sync_all()).with_context(context)?;
    exchange(&folder, to, &new.path().join("old")).with_context(context)
}

/// Checks that a release can be put into the folder `to`, before it is made, which takes its time.
///
/// # Errors
/// As [`publish`], as far as that can be told without the files.
pub fn check(to: &Path) -> Result<()> {
    Place::open(to).map(drop)
}

/// Where a release is put, while nobody else puts one there.
#[derive(Debug)]
struct Place {
    /// The folder itself, where links lead to it.
    to: PathBuf,
    /// A folder beside it, which is removed in the end.
    new: tempfile::TempDir,
    /// Locks the folder of both.
    _lock: std::fs::File,
}

impl Place {
    fn open(to: &Path) -> Result<Self> {
        let to = match to.canonicalize() {
            Ok(real) => real,
            Err(_) if to.is_symlink() => {
                bail!("{} is a link that leads nowhere: remove it", to.display())
            }
            Err(_) => to.to_owned(),
        };
        let context = || format!("cannot write {}", to.display());
        let parent = to.parent().with_context(context)?;
        std::fs::create_dir_all(parent).with_context(context)?;
        let lock = std::fs::File::open(parent).with_context(context)?;
        // Some file systems cannot; then what a second process leaves unfinished may be removed.
        let _ = lock.lock();
        refuse_what_is_not_ours(&to)?;
        remove_unfinished(parent)?;
        let new = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent);
        let new = new.with_context(context)?;
        Ok(Self { to, new, _lock: lock })
    }
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
        Err(_) if folder.is_file() => bail!(
            "{} is a file, where a release would be a folder: move it away, or choose another \
             folder with --out",
            folder.display()
        ),
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
    fn a_place_that_cannot_be_taken_is_told_before_anything_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let told = |path: &Path| check(path).map_err(|error| format!("{error:#}"));
        check(&folder.path().join("not/yet/dist")).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        let error = told(&file).unwrap_err();
        assert!(error.contains("file is a file, where a release would be a folder"), "{error}");
        let error = told(&file.join("dist")).unwrap_err();
        assert!(error.contains("cannot write "), "{error}");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let error = told(&link).unwrap_err();
        assert!(error.ends_with("link is a link that leads nowhere: remove it"), "{error}");
        assert!(publish(&file, &release(&[])).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        assert_eq!(names(folder.path()).unwrap().unwrap(), ["file", "link", "not"]);
        assert_eq!(names(&folder.path().join("not/yet")).unwrap().unwrap(), [""; 0]);
    }

    #[test]
    fn a_link_to_the_folder_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("large disk"), folder.path().join("dist"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for text in ["1", "2"] {
            publish(&link, &release(&[("a", text)])).unwrap();
            assert_eq!(std::fs::read_to_string(real.join("a")).unwrap(), text);
        }
        assert_eq!(std::fs::read_link(&link).unwrap(), real);
        assert_eq!(names(folder.path()).unwrap().unwrap(), ["dist", "large disk"]);
    }

    #[test]
    fn two_at_the_same_time_come_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let dist = folder.path().join("dist");
        std::thread::scope(|scope| {
            for text in ["1", "2", "3"] {
                let dist = &dist;
                scope.spawn(move || {
                    for _ in 0..20 {
                        publish(dist, &release(&[("a", text), ("b", text)])).unwrap();
                    }
                });
            }
        });
        let read = |name: &str| std::fs::read_to_string(dist.join(name)).unwrap();
        assert_eq!(read("a"), read("b"));
        assert_eq!(names(folder.path()).unwrap().unwrap(), ["dist"]);
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
