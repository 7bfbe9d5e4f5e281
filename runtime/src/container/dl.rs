//! The dynamic loader: libraries, symbols, and who defines them.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::NonNull;

use crate::Result;
use crate::error::err;

/// One loaded library. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Handle(NonNull<c_void>);

// SAFETY: the loader's functions may be called with a handle from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// Loads a library, all its symbols bound, and visible to nobody but who asks the handle.
    ///
    /// # Errors
    /// The loader's message.
    pub(crate) fn open(path: &CStr, extra_flags: c_int) -> Result<Self, String> {
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | extra_flags;
        // SAFETY: the path is a C string. Initialisers of the library run; that is what loading
        // a model is for, and libraries that a model needs are ordinary system libraries.
        NonNull::new(unsafe { libc::dlopen(path.as_ptr(), flags) })
            .map(Handle)
            .ok_or_else(last_error)
    }

    /// Whether the library of this path is loaded.
    pub(crate) fn is_loaded(path: &CStr) -> bool {
        Handle::open(path, libc::RTLD_NOLOAD).is_ok()
    }

    /// The address of a symbol of the library or of those it needs.
    pub(crate) fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        find(self.0.as_ptr(), name, None)
    }

    /// The same in a given version.
    pub(crate) fn has(&self, name: &str, version: Option<&str>) -> bool {
        find(self.0.as_ptr(), name, version).is_some()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: opened by `open` and closed once.
        unsafe { libc::dlclose(self.0.as_ptr()) };
    }
}

/// The address that a symbol has for a library that sees what this one sees.
pub(crate) fn visible_symbol(name: &str) -> Option<NonNull<c_void>> {
    find(libc::RTLD_DEFAULT, name, None)
}

fn find(scope: *mut c_void, name: &str, version: Option<&str>) -> Option<NonNull<c_void>> {
    let name = CString::new(name).ok()?;
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if let Some(version) = version {
        let version = CString::new(version).ok()?;
        // SAFETY: a handle or RTLD_DEFAULT, and two C strings.
        return NonNull::new(unsafe { dlvsym(scope, name.as_ptr(), version.as_ptr()) });
    }
    let _ = version;
    // SAFETY: a handle or RTLD_DEFAULT, and a C string.
    NonNull::new(unsafe { libc::dlsym(scope, name.as_ptr()) })
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    fn dlvsym(
        scope: *mut c_void,
        name: *const std::ffi::c_char,
        version: *const std::ffi::c_char,
    ) -> *mut c_void;
}

fn last_error() -> String {
    // SAFETY: gives null or a C string that stays valid until the thread's next call.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return "the loader gives no reason".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

/// A loaded object: where it begins and what the loader calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    /// Address of its first byte.
    pub base: usize,
    /// Its path, as the loader knows it.
    pub path: String,
}

/// The object that holds an address.
///
/// # Errors
/// None does, or its path is not UTF-8.
pub(crate) fn object_at(address: *const c_void) -> Result<Object> {
    // SAFETY: plain data, filled by dladdr.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about; `info` is ours.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return Err(err!(System, "no library holds address {address:p}"));
    }
    // SAFETY: the loader's own C string, which lives as long as the object is loaded.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = path.to_str().map_err(|_| {
        err!(System, "the path {path:?} of a loaded library is not UTF-8: move it elsewhere")
    })?;
    Ok(Object { base: info.dli_fbase as usize, path: path.to_owned() })
}

/// Where the program's own executable is loaded, if the loader tells.
#[cfg(target_os = "linux")]
pub(crate) fn executable_base() -> Option<usize> {
    // SAFETY: always answers for AT_PHDR: an address inside the executable's first page.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as *const c_void;
    object_at(headers).ok().map(|object| object.base)
}

/// Where the program's own executable is loaded, if the loader tells.
#[cfg(target_vendor = "apple")]
pub(crate) fn executable_base() -> Option<usize> {
    unsafe extern "C" {
        fn _dyld_get_image_header(index: u32) -> *const c_void;
    }
    // SAFETY: image 0 is the executable and is always there.
    let header = unsafe { _dyld_get_image_header(0) };
    (!header.is_null()).then_some(header as usize)
}

/// Makes the symbols of a loaded library visible to all that look them up by name only.
///
/// # Errors
/// The loader does not know the library.
#[cfg(target_vendor = "apple")]
pub(crate) fn make_visible(path: &str) -> Result<()> {
    let c_path = CString::new(path).map_err(|e| err!(System, "{path:?}: {e}"))?;
    // SAFETY: a C string; the library is loaded already, so nothing of it runs. It stays loaded
    // for as long as this code does, so the handle need not be closed.
    let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        return Err(err!(System, "the loader does not know {path}: {}", last_error()));
    }
    Ok(())
}
