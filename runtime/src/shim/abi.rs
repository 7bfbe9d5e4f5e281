//! The C boundary: argument types, the guard around every call, the macro that declares one.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::context;
use super::last_error::set_last_error;
use super::tracking;
use crate::error::err;
use crate::{Error, Result};

/// `AOTITorchError`: 0 for success, 1 for failure.
pub type Status = i32;

const SUCCESS: Status = 0;
const FAILURE: Status = 1;

/// `T*`: where C wants a result, or an object of its own that is read and written.
///
/// Only C makes these. The contract of the C ABI is that such a pointer is null or may be
/// written for the length of the call, so its methods are safe to call.
#[derive(Debug)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

#[cfg(test)]
impl<T> Out<T> {
    /// A place for a result, as a caller has it.
    pub(super) fn of(result: &mut std::mem::MaybeUninit<T>) -> Self {
        Out(result.as_mut_ptr())
    }

    /// Null.
    pub(super) const NULL: Self = Out(std::ptr::null_mut());
}

impl<T> Out<T> {
    /// Stores `value`.
    ///
    /// # Errors
    /// The pointer is null; `what` names it.
    pub fn set(self, what: &str, value: T) -> Result<()> {
        self.check(what)?;
        // SAFETY: not null, and C promises that it may be written (see the type).
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Checks before work whose result would be lost.
    ///
    /// # Errors
    /// The pointer is null; `what` names it.
    pub fn check(self, what: &str) -> Result<()> {
        if self.0.is_null() {
            return Err(err!(InvalidArgument, "{what}: the pointer for the result is null"));
        }
        Ok(())
    }
}

/// `const T*`: an array that C lends for the length of the call.
#[derive(Debug)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

#[cfg(test)]
impl<T> In<T> {
    /// An array, as a caller has it.
    pub(super) fn of(array: &[T]) -> Self {
        In(array.as_ptr())
    }

    /// Null.
    pub(super) const NULL: Self = In(std::ptr::null());
}

impl<T> In<T> {
    /// Its `len` elements; `what` names it in messages.
    ///
    /// # Errors
    /// The pointer is null although there are elements, or `len` is not a size.
    pub fn slice<'call>(self, what: &str, len: impl TryInto<usize>) -> Result<&'call [T]> {
        let len = len
            .try_into()
            .ok()
            .filter(|&len: &usize| len <= isize::MAX as usize / size_of::<T>().max(1))
            .ok_or_else(|| err!(InvalidArgument, "{what}: its length is not a size"))?;
        if len == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(err!(InvalidArgument, "{what} is null but has {len} elements"));
        }
        // SAFETY: C promises `len` readable elements for the length of the call, which the
        // bodies of the shims do not outlive.
        Ok(unsafe { std::slice::from_raw_parts(self.0, len) })
    }

    /// What it points to; `None` if it is null, which is how C leaves out an optional value.
    /// The only element of an argument that may be left out: nothing if it is null.
    pub fn optional(self) -> Option<T>
    where
        T: Copy,
    {
        // SAFETY: not null, so C promises one readable element for the length of the call.
        // SAFETY: C promises that what is not null can be read.
        (!self.0.is_null()).then(|| unsafe { self.0.read() })
    }

    /// The array at `address`, which C gave as an untyped pointer.
    pub(super) fn from_address(address: *const T) -> Self {
        In(address)
    }
}

/// `const char*`: a NUL-terminated text that C lends for the length of the call.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Text(*const c_char);

#[cfg(test)]
impl Text {
    /// A text, as a caller has it.
    pub(super) fn of(text: &CStr) -> Self {
        Text(text.as_ptr())
    }

    /// Null.
    pub(super) const NULL: Self = Text(std::ptr::null());
}

impl Text {
    /// The text; `what` names it in messages.
    ///
    /// # Errors
    /// It is null or no UTF-8.
    pub fn str<'call>(self, what: &str) -> Result<&'call str> {
        if self.0.is_null() {
            return Err(err!(InvalidArgument, "{what} is null"));
        }
        // SAFETY: C promises a NUL-terminated text for the length of the call.
        unsafe { CStr::from_ptr(self.0) }
            .to_str()
            .map_err(|e| err!(InvalidArgument, "{what} is not UTF-8: {e}"))
    }

    /// The text for messages: never fails.
    pub fn lossy(self) -> String {
        if self.0.is_null() {
            return String::new();
        }
        // SAFETY: as in `str`.
        unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned()
    }
}

thread_local! {
    /// Set while a call fails, so that a failure while failing cannot recurse.
    static FAILING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of the C function `name`. An error or a panic becomes a status; its text is the
/// thread's last error, and the first one of a model's run is kept for the model's caller,
/// because generated code does not look at every status.
pub fn call(name: &'static str, body: impl FnOnce() -> Result<()>) -> Status {
    match tracking::during(name, || run(body)) {
        Ok(()) => SUCCESS,
        Err(error) => {
            fail(error.context(name));
            FAILURE
        }
    }
}

/// The same for a function that returns a value and cannot fail in C's eyes.
pub fn value<T>(name: &'static str, fallback: T, body: impl FnOnce() -> Result<T>) -> T {
    tracking::during(name, || run(body)).unwrap_or_else(|error| {
        fail(error.context(name));
        fallback
    })
}

fn run<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // A body that panics leaves at worst a tensor with unspecified contents behind; the tables
    // use locks that do not poison and are never left half-changed.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "panic".to_string());
        Err(Error::Internal(text))
    })
}

fn fail(error: Error) {
    if FAILING.replace(true) {
        return;
    }
    // Thread-locals may be gone when a static destructor calls; then there is nobody to tell.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        set_last_error(&error);
        context::record_error(error);
    }));
    FAILING.set(false);
}

/// One function of the C ABI, as it was declared in Rust.
#[derive(Debug, Clone, Copy)]
pub struct Symbol {
    /// Its name.
    pub name: &'static str,
    /// The Rust types of its parameters.
    pub parameters: &'static [&'static str],
    /// The Rust type of its result, `()` for none.
    pub returns: &'static str,
    /// Its address; also what keeps it in the binary.
    pub address: fn() -> usize,
}

/// Declares C functions: `fn name(parameters) { body }` gives a function that returns a
/// [`Status`] and whose body gives `Result<()>`; with `-> T = fallback` the body gives
/// `Result<T>`. Also makes `SYMBOLS`, the list of them.
macro_rules! c_functions {
    (@returns) => { "Status" };
    (@returns $ret:ty) => { stringify!($ret) };
    (@define [$($meta:tt)*] $name:ident [$($arg:ident : $ty:ty),*] [] [] $body:block) => {
        $($meta)*
        ///
        /// # Safety
        /// As the C ABI has it: pointers are null or valid for the length of the call, arrays as
        /// long as is said.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::shim::abi::Status {
            $crate::shim::abi::call(stringify!($name), || $body)
        }
    };
    (@define [$($meta:tt)*] $name:ident [$($arg:ident : $ty:ty),*] [$ret:ty] [$fallback:expr]
        $body:block) => {
        $($meta)*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> $ret {
            $crate::shim::abi::value(stringify!($name), $fallback, || $body)
        }
    };
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty = $fallback:expr;)? $body:block
    )*) => {
        $(
            $crate::shim::abi::c_functions!(@define [$(#[$meta])*] $name [$($arg : $ty),*]
                [$($ret)?] [$($fallback)?] $body);
        )*
        /// The functions of this file.
        pub(in $crate::shim) const SYMBOLS: &[$crate::shim::abi::Symbol] = &[$(
            $crate::shim::abi::Symbol {
                name: stringify!($name),
                parameters: &[$(stringify!($ty)),*],
                returns: $crate::shim::abi::c_functions!(@returns $($ret)?),
                address: || $name as *const () as usize,
            }
        ),*];
    };
}
pub(super) use c_functions;
