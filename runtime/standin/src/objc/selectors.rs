//! Selectors: names, each stored once.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::Mutex;

/// A selector: the address of its name.
pub type Sel = *const c_char;

/// The address of each name. Names live for ever, as selectors do.
pub(crate) static SELS: Mutex<Option<HashMap<CString, usize>>> = Mutex::new(None);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sel_registerName(name: *const c_char) -> Sel {
    let n = unsafe { CStr::from_ptr(name) };
    let mut g = SELS.lock().unwrap();
    let m = g.get_or_insert_default();
    if let Some(s) = m.get(n) {
        return *s as Sel;
    }
    let p = n.to_owned().into_raw();
    m.insert(n.to_owned(), p as usize);
    p
}

#[unsafe(no_mangle)]
pub extern "C" fn sel_getName(s: Sel) -> *const c_char {
    s
}

/// The selector of a name.
pub(crate) fn sel(n: &CStr) -> Sel {
    unsafe { sel_registerName(n.as_ptr()) }
}

/// A C string as text.
pub(crate) fn s(p: *const c_char) -> String {
    unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
}
