//! Opening the files that people name.

use std::fs::File;
use std::path::Path;

use crate::Result;
use crate::error::err;

/// Opens a file for reading. Only regular files: a pipe would keep its reader waiting, a device
/// may never end, and neither can be mapped.
///
/// # Errors
/// The file cannot be read, or is something else.
pub fn open(path: &Path) -> Result<File> {
    let failed = |e| err!(System, "cannot read {}: {e}", path.display());
    // Looked at before it is opened: opening a pipe waits for its writer.
    let kind = std::fs::metadata(path).map_err(failed)?.file_type();
    if kind.is_dir() {
        return Err(err!(System, "cannot read {}: it is a folder", path.display()));
    }
    if !kind.is_file() {
        return Err(err!(
            System,
            "cannot read {}: it is no regular file; copy it into one",
            path.display()
        ));
    }
    File::open(path).map_err(failed)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| open(path).unwrap_err().to_string();
        let pipe = folder.path().join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(message(&pipe).contains("no regular file"), "{}", message(&pipe));
        assert!(message(Path::new("/dev/zero")).contains("no regular file"));
        assert!(message(folder.path()).contains("folder"));
        assert!(message(&folder.path().join("none")).contains("none"));
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        open(&file).unwrap();
    }
}
