//! The text of each thread's last error, for callers that see only a status code.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use crate::Error;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps the text of `error` as the calling thread's last one; not while the thread ends.
pub fn set_last_error(error: &Error) {
    // A NUL inside the text would end it early; messages hold none, file names might.
    let text = error.to_string().replace('\0', "\u{fffd}");
    let text = CString::new(text).unwrap_or_default();
    let _ = LAST.try_with(|last| last.replace(text));
}

/// The text of the calling thread's last error, "" if there was none. Valid until the next call
/// into this library from this thread.
#[unsafe(no_mangle)]
pub extern "C" fn etmetal_last_error() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}
