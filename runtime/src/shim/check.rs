//! `aoti_torch_check`: the one function of the C ABI that throws.

use std::ffi::c_char;

use super::abi::{Symbol, Text};
use super::last_error::set_last_error;
use crate::error::err;

unsafe extern "C-unwind" {
    /// Throws a `std::runtime_error` of this text; in `cpp/callback.cpp`.
    fn etmetal_throw(text: *const c_char) -> !;
}

/// Throws a C++ exception unless `cond` holds, as the model expects; it comes back from the
/// model's entry point as a failure.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn aoti_torch_check(
    cond: bool,
    func: Text,
    file: Text,
    line: u32,
    msg: Text,
) {
    if cond {
        return;
    }
    let (func, file, msg) = (func.lossy(), file.lossy(), msg.lossy());
    let error = err!(Execution, "a check of the model failed at {file}:{line} in {func}: {msg}");
    set_last_error(&error);
    super::context::record_error(error);
    // SAFETY: the text lives in a thread-local that nothing changes meanwhile; the exception
    // copies it. No local of this function is dropped late: they are leaked by the throw at
    // worst, and the texts above are dropped by the unwinding.
    unsafe { etmetal_throw(super::last_error::etmetal_last_error()) }
}

/// The functions of this file.
pub(super) const SYMBOLS: &[Symbol] = &[Symbol {
    name: "aoti_torch_check",
    parameters: &["bool", "Text", "Text", "u32", "Text"],
    returns: "()",
    address: || aoti_torch_check as *const () as usize,
}];
