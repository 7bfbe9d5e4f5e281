//! What the bindings ask the system: its version.

use std::ffi::{c_char, c_int, c_void};

use super::selectors::s;

/// Tells the version of macOS that `ETMETAL_STANDIN_MACOS` names, and nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysctlbyname(
    name: *const c_char,
    out: *mut c_void,
    len: *mut usize,
    _n: *mut c_void,
    _l: usize,
) -> c_int {
    if s(name) != "kern.osproductversion" {
        return -1;
    }
    let v = std::env::var("ETMETAL_STANDIN_MACOS").unwrap_or("15.0".into());
    unsafe {
        std::ptr::copy_nonoverlapping(v.as_ptr(), out.cast(), v.len());
        *out.cast::<u8>().add(v.len()) = 0;
        *len = v.len() + 1
    }
    0
}
