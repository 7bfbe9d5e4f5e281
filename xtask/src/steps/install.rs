//! Installing a folder into another one that holds other things too.
//!
//! Every file is put in place whole: copied beside its place, then renamed. A list of them stays
//! in the prefix, so that a later installation removes what it no longer brings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// The list, in the prefix.
pub const LIST: &str = "lib/etmetal/installed-files.txt";

/// Puts everything that lies in `from` into `to`.
///
/// # Errors
/// A file cannot be read or written: which. What was put in place before stays.
pub fn install(from: &Path, to: &Path) -> Result<()> {
    let mut files = BTreeSet::new();
    list(from, Path::new(""), &mut files)?;
    ensure!(!files.is_empty(), "{} holds nothing to install", from.display());
    let installed = read_list(to);
    for file in &files {
        put(&from.join(file), &to.join(file))
            .with_context(|| format!("cannot install {}", to.join(file).display()))?;
    }
    for gone in installed.difference(&files) {
        let path = to.join(gone);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    write_list(to, &files)
}

/// The files below `root/inner`, relative to `root`.
fn list(root: &Path, inner: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    let folder = root.join(inner);
    let context = || format!("cannot read {}", folder.display());
    for entry in std::fs::read_dir(&folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        let path = inner.join(entry.file_name());
        if entry.file_type().with_context(context)?.is_dir() {
            list(root, &path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}

fn put(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a file lies in a folder")?;
    std::fs::create_dir_all(folder)?;
    let new = tempfile::Builder::new().prefix(".etmetal-").tempdir_in(folder)?;
    let new = new.path().join("file");
    let link = std::fs::symlink_metadata(from)?.is_symlink();
    if link {
        std::os::unix::fs::symlink(std::fs::read_link(from)?, &new)?;
    } else {
        std::fs::copy(from, &new)?;
    }
    std::fs::rename(&new, to)?;
    Ok(())
}

fn read_list(prefix: &Path) -> BTreeSet<PathBuf> {
    let text = std::fs::read_to_string(prefix.join(LIST)).unwrap_or_default();
    // Whoever edits the list gains nothing by it outside of the prefix.
    let is_inside = |path: &PathBuf| {
        path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
    };
    text.lines().map(PathBuf::from).filter(is_inside).collect()
}

fn write_list(prefix: &Path, files: &BTreeSet<PathBuf>) -> Result<()> {
    let path = prefix.join(LIST);
    let context = || format!("cannot write {}", path.display());
    let folder = path.parent().context("the list lies in a folder")?;
    std::fs::create_dir_all(folder).with_context(context)?;
    let text: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    let file = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
    std::fs::write(file.path(), text).with_context(context)?;
    file.persist(&path).with_context(context)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn tree(root: &Path) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::new();
        list(root, Path::new(""), &mut files).unwrap();
        files.remove(Path::new(LIST));
        files
    }

    #[test]
    fn files_and_links_arrive_and_what_is_no_longer_brought_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("stage"), folder.path().join("usr"));
        for inner in ["bin", "lib"] {
            std::fs::create_dir_all(from.join(inner)).unwrap();
        }
        std::fs::create_dir_all(to.join("bin")).unwrap();
        std::fs::write(to.join("bin/other"), "of someone else").unwrap();
        std::fs::write(from.join("bin/etmetal"), "1").unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(from.join("bin/etmetal"), executable).unwrap();
        std::fs::write(from.join("lib/libx.so.1"), "x").unwrap();
        std::os::unix::fs::symlink("libx.so.1", from.join("lib/libx.so")).unwrap();
        install(&from, &to).unwrap();
        let mode = std::fs::metadata(to.join("bin/etmetal")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert_eq!(std::fs::read_link(to.join("lib/libx.so")).unwrap(), Path::new("libx.so.1"));
        std::fs::remove_file(from.join("lib/libx.so.1")).unwrap();
        std::fs::remove_file(from.join("lib/libx.so")).unwrap();
        std::fs::write(from.join("bin/etmetal"), "2").unwrap();
        install(&from, &to).unwrap();
        assert_eq!(tree(&to), ["bin/etmetal", "bin/other"].map(PathBuf::from).into());
        assert_eq!(std::fs::read_to_string(to.join("bin/etmetal")).unwrap(), "2");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named_and_lists_reach_nothing_outside() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("stage"), folder.path().join("usr"));
        std::fs::create_dir_all(&from).unwrap();
        let error = install(&from, &to).unwrap_err().to_string();
        assert!(error.ends_with("stage holds nothing to install"), "{error}");
        std::fs::write(from.join("a"), "").unwrap();
        std::fs::write(&to, "a file").unwrap();
        let error = install(&from, &to).unwrap_err().to_string();
        assert!(error.contains("cannot install ") && error.ends_with("usr/a"), "{error}");
        std::fs::remove_file(&to).unwrap();
        std::fs::create_dir_all(to.join("lib/etmetal")).unwrap();
        std::fs::write(folder.path().join("precious"), "").unwrap();
        std::fs::write(to.join(LIST), "../precious\n/etc/hostname\n").unwrap();
        install(&from, &to).unwrap();
        assert!(folder.path().join("precious").exists());
    }
}
