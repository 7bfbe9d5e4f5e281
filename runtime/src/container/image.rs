//! A model library's bytes as something that the loader can open.
//!
//! No path is predictable or shared: on Linux an anonymous file in memory, elsewhere a file in a
//! directory of its own that nobody else may enter. Nothing is left behind.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;

use crate::Result;
use crate::error::err;

/// The bytes, open for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Image {
    path: CString,
    _storage: Storage,
}

#[derive(Debug)]
enum Storage {
    /// An anonymous file. The loader knows libraries by path, so the descriptor (and with it
    /// the path) must not be used for anything else while the library is loaded.
    #[cfg(target_os = "linux")]
    Memory { _file: File },
    /// A private directory, removed with all it holds.
    Directory { _directory: PrivateDirectory },
}

impl Image {
    /// Writes the bytes where the loader can open them.
    ///
    /// # Errors
    /// The system has no room or refuses it.
    pub(crate) fn new(bytes: &[u8]) -> Result<Self> {
        #[cfg(target_os = "linux")]
        if let Ok(image) = Image::in_memory(bytes) {
            return Ok(image);
        }
        Image::in_directory(bytes)
    }

    /// The path to open.
    pub(crate) fn path(&self) -> &CString {
        &self.path
    }

    /// Removes what can be removed once the library is loaded.
    pub(crate) fn loaded(self) -> Self {
        #[cfg(not(target_os = "linux"))]
        if let Ok(path) = self.path.to_str() {
            // What fails now is tried again on drop.
            let _ = std::fs::remove_file(path);
        }
        self
    }

    #[cfg(target_os = "linux")]
    fn in_memory(bytes: &[u8]) -> std::io::Result<Self> {
        use std::os::fd::{AsRawFd, FromRawFd};

        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a C string and flags.
        let descriptor = unsafe { libc::memfd_create(c"etmetal-model".as_ptr(), flags) };
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made and that nobody else owns.
        let mut file = unsafe { File::from_raw_fd(descriptor) };
        file.write_all(bytes)?;
        let seals =
            libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: an open descriptor and flags. Sealing only adds safety: it may fail.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // Without /proc the loader could not open it.
        std::fs::metadata(&path)?;
        let path = CString::new(path)?;
        Ok(Image { path, _storage: Storage::Memory { _file: file } })
    }

    fn in_directory(bytes: &[u8]) -> Result<Self> {
        let directory = PrivateDirectory::new()?;
        let path = directory.path.join("model.so");
        let failed = |e: std::io::Error| {
            err!(System, "cannot write the model library to {}: {e}", path.display())
        };
        let mut file = File::options().write(true).create_new(true).open(&path).map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        let c_path = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|e| err!(System, "{}: {e}", path.display()))?;
        Ok(Image { path: c_path, _storage: Storage::Directory { _directory: directory } })
    }
}

/// A directory that only this user may enter, removed on drop.
#[derive(Debug)]
struct PrivateDirectory {
    path: std::path::PathBuf,
}

impl PrivateDirectory {
    fn new() -> Result<Self> {
        use std::os::unix::ffi::OsStringExt;

        let mut template = std::env::temp_dir().join("etmetal-XXXXXX").into_os_string().into_vec();
        template.push(0);
        // SAFETY: a C string of ours that ends in XXXXXX. The directory is made with mode 0700,
        // and never one that exists.
        let made = unsafe { libc::mkdtemp(template.as_mut_ptr().cast()) };
        template.pop();
        let path = std::path::PathBuf::from(std::ffi::OsString::from_vec(template));
        if made.is_null() {
            let e = std::io::Error::last_os_error();
            return Err(err!(
                System,
                "cannot make a directory {} for the model library: {e}; set TMPDIR to a \
                 directory that can be written to",
                path.display()
            ));
        }
        Ok(PrivateDirectory { path })
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_private_and_goes() {
        use std::os::unix::fs::PermissionsExt;

        let image = Image::in_directory(b"bytes").unwrap();
        let path = std::path::PathBuf::from(image.path().to_str().unwrap());
        let directory = path.parent().unwrap().to_owned();
        assert_eq!(std::fs::read(&path).unwrap(), b"bytes");
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        drop(image);
        assert!(!directory.exists());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_images_are_sealed_and_distinct() {
        let one = Image::in_memory(b"one").unwrap();
        let two = Image::in_memory(b"two").unwrap();
        assert_ne!(one.path(), two.path());
        let path = one.path().to_str().unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"one");
        assert!(std::fs::write(path, b"other").is_err(), "sealed");
    }
}
