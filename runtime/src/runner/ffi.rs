//! The C API of libetmetal (`cpp/etmetal_runner.h`), looked up in the loaded library.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use libloading::Library;

use crate::error::err;
use crate::{Error, Result};

/// `EtmetalModule`.
#[repr(C)]
pub(super) struct RawModule {
    _opaque: [u8; 0],
}

/// `EtmetalValue::kind`.
pub(super) mod kind {
    pub const NONE: i32 = 0;
    pub const TENSOR: i32 = 1;
    pub const INT: i32 = 2;
    pub const DOUBLE: i32 = 3;
    pub const BOOL: i32 = 4;
}

/// `EtmetalValue`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawValue {
    pub kind: i32,
    pub dtype: i32,
    pub dim: usize,
    pub sizes: *const i32,
    pub dim_order: *const u8,
    pub data: *const c_void,
    pub nbytes: usize,
    pub integer: i64,
    pub number: f64,
}

impl RawValue {
    pub fn none() -> Self {
        Self {
            kind: kind::NONE,
            dtype: 0,
            dim: 0,
            sizes: std::ptr::null(),
            dim_order: std::ptr::null(),
            data: std::ptr::null(),
            nbytes: 0,
            integer: 0,
            number: 0.0,
        }
    }
}

/// `EtmetalValueInfo`.
#[repr(C)]
pub(super) struct RawValueInfo {
    pub kind: i32,
    pub dtype: i32,
    pub dim: usize,
    pub sizes: *const i32,
    pub dim_order: *const u8,
    pub nbytes: usize,
    pub shape_dynamism: i32,
}

/// `EtmetalMethodInfo`.
#[repr(C)]
pub(super) struct RawMethodInfo {
    pub num_inputs: usize,
    pub inputs: *const RawValueInfo,
    pub num_outputs: usize,
    pub outputs: *const RawValueInfo,
    pub num_backends: usize,
    pub backends: *const *const c_char,
}

// runner.cpp checks the same numbers.
const _: () = assert!(size_of::<RawValue>() == 64);
const _: () = assert!(size_of::<RawValueInfo>() == 48);
const _: () = assert!(size_of::<RawMethodInfo>() == 48);

/// `EtmetalSink`.
pub(super) type Sink = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// Declares [`Api`]: one field for each function, found by its name.
macro_rules! api {
    ($($name:ident: $symbol:literal, fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// The functions of one loaded libetmetal.
        pub(super) struct Api {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            // The functions stay valid as long as the library is loaded.
            _library: Library,
        }

        impl Api {
            fn bind(library: Library, path: &Path) -> Result<Self> {
                $(
                    // SAFETY: the signature is that of `cpp/etmetal_runner.h` or
                    // `cpp/etmetal_delegate.h`, which the library was compiled from.
                    let $name = *unsafe {
                        library.get::<unsafe extern "C" fn($($arg),*) $(-> $ret)?>(
                            $symbol.as_bytes(),
                        )
                    }
                    .map_err(|_| missing(path, $symbol))?;
                )*
                Ok(Self { $($name,)* _library: library })
            }
        }
    };
}

api! {
    module_load: "etmetal_module_load",
        fn(*const c_char, *const *const c_char, usize, i32, *mut *mut RawModule) -> u32;
    module_destroy: "etmetal_module_destroy", fn(*mut RawModule);
    module_num_methods: "etmetal_module_num_methods", fn(*const RawModule) -> usize;
    module_method_name: "etmetal_module_method_name", fn(*const RawModule, usize) -> *const c_char;
    module_method_info: "etmetal_module_method_info",
        fn(*mut RawModule, *const c_char, *mut *const RawMethodInfo) -> u32;
    module_load_method: "etmetal_module_load_method", fn(*mut RawModule, *const c_char) -> u32;
    module_execute: "etmetal_module_execute",
        fn(*mut RawModule, *const c_char, *const RawValue, usize) -> u32;
    module_num_outputs: "etmetal_module_num_outputs", fn(*const RawModule) -> usize;
    module_output: "etmetal_module_output", fn(*const RawModule, usize, *mut RawValue) -> u32;
    module_last_error: "etmetal_module_last_error", fn() -> *const c_char;
    executorch_version: "etmetal_executorch_version", fn() -> *const c_char;
    registered_backend: "etmetal_registered_backend", fn(usize) -> *const c_char;
    registration_error: "etmetal_registration_error", fn() -> *const c_char;
    stats_json: "etmetal_stats_json", fn(*mut c_char, usize) -> usize;
    stats_enable: "etmetal_stats_enable", fn(bool);
    tracked_json: "etmetal_tracked_json", fn(*mut c_char, usize) -> usize;
    tracking_enable: "etmetal_tracking_enable", fn(bool);
    profile_json: "etmetal_profile_json", fn(*mut c_char, usize) -> usize;
    profile_enable: "etmetal_profile_enable", fn(bool);
    profile_now: "etmetal_profile_now", fn() -> u64;
    device_use: "etmetal_device_use", fn(*const c_char, *mut c_char, usize) -> usize;
    comparison_json: "etmetal_comparison_json", fn(*mut c_char, usize) -> usize;
    selftest: "etmetal_selftest", fn(*const c_char, *const c_char, Sink, *mut c_void);
}

fn missing(path: &Path, symbol: &str) -> Error {
    err!(
        NotFound,
        "{} has no function {symbol}: it is not the libetmetal of version {}",
        path.display(),
        env!("CARGO_PKG_VERSION")
    )
}

/// The innermost cause, which is the system's own text.
fn reason(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), reason)
}

impl Api {
    /// Loads the library at `path` and finds its functions.
    pub fn load(path: &Path) -> Result<Self> {
        // SAFETY: libetmetal's initialisers register its backend and do nothing else.
        let library = unsafe { Library::new(path) }
            .map_err(|e| err!(NotFound, "cannot load {}: {}", path.display(), reason(&e)))?;
        Self::bind(library, path)
    }

    /// Finds the functions in the running program, which lies at `path`.
    #[cfg(unix)]
    pub fn of_this_program(path: &Path) -> Result<Self> {
        Self::bind(libloading::os::unix::Library::this().into(), path)
    }

    /// The error of the call that returned `code`; `Ok` for 0.
    pub fn check(&self, code: u32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the text lives until this thread's next call, and is copied here.
        let text = unsafe { text((self.module_last_error)()) };
        Err(from_et_code(code, text))
    }
}

/// A copy of a C string; "" for null.
///
/// # Safety
/// `pointer` is null or a C string that lives during the call.
pub(super) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: a C string, as the caller promises.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// The counterpart of [`Error::et_code`].
fn from_et_code(code: u32, text: String) -> Error {
    match code {
        0x10 | 0x11 => Error::Unsupported(text),
        0x12 | 0x13 => Error::InvalidArgument(text),
        0x14 | 0x20 => Error::NotFound(text),
        0x21 | 0x31 => Error::OutOfMemory(text),
        0x22 => Error::System(text),
        0x23 | 0x24 => Error::InvalidProgram(text),
        0x30 => Error::ShaderCompile(text),
        _ => Error::Execution(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_back_as_the_errors_they_were() {
        for error in [
            err!(InvalidArgument, "x"),
            err!(InvalidProgram, "x"),
            err!(NotFound, "x"),
            err!(Unsupported, "x"),
            err!(OutOfMemory, "x"),
            err!(ShaderCompile, "x"),
            err!(Execution, "x"),
        ] {
            let back = from_et_code(error.et_code(), "x".into());
            assert_eq!(std::mem::discriminant(&back), std::mem::discriminant(&error));
        }
    }

    #[test]
    fn a_missing_library_is_named() {
        let message = Api::load(Path::new("/no/such/libetmetal.so")).err().unwrap().to_string();
        assert!(message.starts_with("cannot load /no/such/libetmetal.so: "), "{message}");
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = Api::load(file.path()).err().unwrap().to_string();
        assert_ne!(message.rsplit(": ").next(), other.rsplit(": ").next(), "the system's reason");
    }
}
