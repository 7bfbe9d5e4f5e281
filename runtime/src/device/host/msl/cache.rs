//! The cache of compiled kernels on disk, one directory per user.
//!
//! Every entry is written to a temporary name and renamed, so that processes can share the
//! directory; every entry carries a digest, so that a damaged one is seen and made again. If
//! the directory cannot be had, work goes on without a cache.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::Result;
use crate::error::err;

/// The directory of the cache: `ETMETAL_CACHE`, else `etmetal` below the user's cache directory
/// (`XDG_CACHE_HOME` or `~/.cache`; `~/Library/Caches` on macOS).
///
/// Relative values and empty variables are ignored, except for `ETMETAL_CACHE`, which is taken
/// as it is.
pub fn cache_dir() -> PathBuf {
    directory_from(|name| std::env::var_os(name))
}

fn directory_from(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(own) = set("ETMETAL_CACHE") {
        return own;
    }
    let home = set("HOME").filter(|p| p.is_absolute());
    let base = if cfg!(target_os = "macos") {
        home.map(|h| h.join("Library/Caches"))
    } else {
        let xdg = set("XDG_CACHE_HOME").filter(|p| p.is_absolute());
        xdg.or_else(|| home.map(|h| h.join(".cache")))
    };
    base.unwrap_or_else(std::env::temp_dir).join("etmetal")
}

/// The folder, made if there is none; `None` if it cannot be had or others can write to it.
pub fn private_folder(folder: &Path) -> Option<PathBuf> {
    Cache::open(folder).dir
}

/// A cache directory that is ours, or none.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: Option<PathBuf>,
    /// Whether the leftovers of other processes were looked for.
    swept: Once,
}

/// What a process leaves in the cache for longer than this, it left because it was killed.
const LEFTOVER_AFTER: Duration = Duration::from_secs(3600);

impl Cache {
    /// Opens the cache in `dir`, making the directory if there is none. A directory that others
    /// can write to, or that cannot be made, is not used: libraries are loaded from it.
    pub(crate) fn open(dir: &Path) -> Cache {
        let usable = create_private(dir).is_ok() && is_private(dir);
        Cache { dir: usable.then(|| dir.to_path_buf()), swept: Once::new() }
    }

    /// The directory, if there is a usable one.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// The text stored under `name`; `None` if there is none or it is damaged.
    pub(crate) fn read_text(&self, name: &str) -> Option<String> {
        let stored = fs::read_to_string(self.dir.as_ref()?.join(name)).ok()?;
        let (digest, text) = stored.split_once('\n')?;
        (digest == hex(&Sha256::digest(text))).then(|| text.to_string())
    }

    /// Stores a text. Failure only costs the next run time, so it is not reported.
    pub(crate) fn write_text(&self, name: &str, text: &str) {
        if let Some(dir) = &self.dir {
            let stored = format!("{}\n{text}", hex(&Sha256::digest(text)));
            _ = write_atomically(&dir.join(name), stored.as_bytes());
        }
    }

    /// A private directory for the files of one compilation.
    ///
    /// # Errors
    /// Neither the cache nor the system's temporary directory can be written to.
    pub(crate) fn scratch(&self) -> Result<Scratch> {
        self.swept.call_once(|| self.dir.iter().for_each(|dir| sweep(dir)));
        let places = self.dir.iter().cloned().chain([std::env::temp_dir()]);
        let mut last = None;
        for place in places {
            match Scratch::create(&place) {
                Ok(scratch) => return Ok(scratch),
                Err(e) => last = Some((place, e)),
            }
        }
        let (place, e) = last.unwrap_or_else(|| (PathBuf::new(), io::ErrorKind::NotFound.into()));
        Err(err!(
            System,
            "cannot make a directory for compiled kernels in {}: {e}; set ETMETAL_CACHE to a \
             directory that can be written to",
            place.display()
        ))
    }

    /// Moves a finished library into the cache under a name made of `key` and its digest; gives
    /// its new path and the digest. `None` if there is no cache or it cannot be written to.
    pub(crate) fn keep_library(&self, key: &str, path: &Path) -> Option<(PathBuf, String)> {
        let digest = hex(&Sha256::digest(fs::read(path).ok()?));
        let target = self.library_path(key, &digest)?;
        fs::rename(path, &target).ok()?;
        Some((target, digest))
    }

    /// The library of that key and digest, if it is there and whole.
    pub(crate) fn library(&self, key: &str, digest: &str) -> Option<PathBuf> {
        let path = self.library_path(key, digest)?;
        let bytes = fs::read(&path).ok()?;
        (hex(&Sha256::digest(bytes)) == digest).then_some(path)
    }

    fn library_path(&self, key: &str, digest: &str) -> Option<PathBuf> {
        let short = digest.get(..16)?;
        Some(self.dir.as_ref()?.join(format!("{key}-{short}.so")))
    }
}

/// Removes what processes that were killed have left: they cannot do it themselves.
fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let temporary = PURPOSES.iter().any(|purpose| {
            name.as_bytes().strip_prefix(b".").is_some_and(|n| n.starts_with(purpose.as_bytes()))
        });
        let changed = entry.metadata().and_then(|m| m.modified());
        let old = |time: SystemTime| time.elapsed().is_ok_and(|age| age > LEFTOVER_AFTER);
        if temporary && changed.is_ok_and(old) {
            let path = entry.path();
            _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }
}

/// A directory that is removed with its contents when it is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn create(parent: &Path) -> io::Result<Scratch> {
        for _ in 0..100 {
            let path = parent.join(unique_name(BUILD));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch { path }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.path);
    }
}

/// Writes a file so that readers see the old contents or the new, never a part.
fn write_atomically(path: &Path, contents: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let temporary = parent.join(unique_name(WRITE));
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(contents))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        _ = fs::remove_file(&temporary);
    }
    written
}

/// Makes a directory and what is missing above it, for this user only.
pub(crate) fn create_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Whether the directory belongs to this user and nobody else can write to it.
fn is_private(dir: &Path) -> bool {
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    fs::metadata(dir).is_ok_and(|m| m.uid() == user && m.permissions().mode() & 0o022 == 0)
}

/// What temporary names are for, and start with behind a dot.
const BUILD: &str = "build-";
const WRITE: &str = "write-";
const PURPOSES: [&str; 2] = [BUILD, WRITE];

/// A file name that no other thread or process uses at this moment.
fn unique_name(purpose: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = now.map_or(0, |d| d.subsec_nanos());
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!(".{purpose}{}-{count}-{nanos:08x}", std::process::id())
}

/// A key made of several parts; none can run into the next.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())[..40].to_string()
}

/// What identifies a file without reading it: path, size, time of its last change.
pub(crate) fn file_identity(path: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::metadata(path)?;
    let mut identity = path.as_os_str().as_bytes().to_vec();
    for number in [meta.size() as i64, meta.mtime(), meta.mtime_nsec(), meta.ino() as i64] {
        identity.extend_from_slice(&number.to_le_bytes());
    }
    Ok(identity)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_follows_the_environment() {
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            directory_from(|name| {
                pairs.iter().find(|(k, _)| *k == name).map(|(_, v)| OsString::from(v))
            })
        };
        assert_eq!(with(&[("ETMETAL_CACHE", "/c"), ("HOME", "/h")]), Path::new("/c"));
        if cfg!(target_os = "macos") {
            assert_eq!(with(&[("HOME", "/h")]), Path::new("/h/Library/Caches/etmetal"));
        } else {
            assert_eq!(with(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), Path::new("/x/etmetal"));
            assert_eq!(
                with(&[("XDG_CACHE_HOME", "x"), ("HOME", "/h")]),
                Path::new("/h/.cache/etmetal")
            );
        }
        assert_eq!(with(&[("ETMETAL_CACHE", "")]), std::env::temp_dir().join("etmetal"));
    }

    #[test]
    fn texts_come_back_and_damage_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("a/b"));
        let mode = fs::metadata(cache.dir().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(cache.read_text("x"), None);
        cache.write_text("x", "one\ntwo\n");
        assert_eq!(cache.read_text("x").as_deref(), Some("one\ntwo\n"));
        let path = cache.dir().unwrap().join("x");
        let mut stored = fs::read(&path).unwrap();
        *stored.last_mut().unwrap() ^= 1;
        fs::write(&path, stored).unwrap();
        assert_eq!(cache.read_text("x"), None);
        assert_eq!(fs::read_dir(cache.dir().unwrap()).unwrap().count(), 1, "no temporary file");
    }

    #[test]
    fn a_damaged_library_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path());
        let scratch = cache.scratch().unwrap();
        let made = scratch.path().join("k.so");
        fs::write(&made, b"library").unwrap();
        let (path, digest) = cache.keep_library("k", &made).unwrap();
        assert_eq!(cache.library("k", &digest), Some(path.clone()));
        fs::write(&path, b"librarz").unwrap();
        assert_eq!(cache.library("k", &digest), None);
        let left = scratch.path().to_path_buf();
        drop(scratch);
        assert!(!left.exists());
    }

    #[test]
    fn what_killed_processes_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * LEFTOVER_AFTER;
        let age = |path: &Path| fs::File::open(path).unwrap().set_modified(old).unwrap();
        for (name, is_old) in [(".build-1-0-0", true), (".build-2-0-0", false)] {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("kernel.so"), b"half").unwrap();
            if is_old {
                age(&path);
            }
        }
        for name in [".write-1-0-0", ".other", "a.kernel"] {
            fs::write(dir.path().join(name), b"").unwrap();
            age(&dir.path().join(name));
        }
        let cache = Cache::open(dir.path());
        drop(cache.scratch().unwrap());
        let mut left: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [".build-2-0-0", ".other", "a.kernel"]);
    }

    #[test]
    fn a_directory_of_others_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let cache = Cache::open(&open);
        assert_eq!(cache.dir(), None);
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        assert_eq!(Cache::open(&file.join("below")).dir(), None);
        // Work can go on without it.
        assert!(cache.scratch().unwrap().path().is_dir());
    }
}
