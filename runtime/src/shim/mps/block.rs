//! Command blocks: a callback of the model that encodes kernel calls.

use std::ffi::{c_char, c_void};

use crate::Result;
use crate::error::err;
use crate::shim::abi::c_functions;
use crate::shim::registry::kernel;
use crate::stream::Stream;
use crate::tensor::RawHandle;

/// What a command block calls: the kernel's handle, and what the caller gave along.
pub type Callback = Option<unsafe extern "C" fn(RawHandle, *mut c_void)>;

/// Bytes for the text of an exception.
const TEXT_CAPACITY: usize = 1024;

unsafe extern "C" {
    /// Calls `callback`; if it throws, gives 1 and the exception's text. In `cpp/callback.cpp`.
    fn etmetal_call_block(
        callback: Callback,
        func: RawHandle,
        user_data: *mut c_void,
        text: *mut c_char,
        capacity: usize,
    ) -> i32;

    /// Calls the `std::function<void(handle)>` at `user_data`; as `etmetal_call_block`.
    fn etmetal_call_function(
        func: RawHandle,
        user_data: *mut c_void,
        text: *mut c_char,
        capacity: usize,
    ) -> i32;
}

c_functions! {
    /// Calls back to encode calls of a kernel. A C++ exception that leaves the callback is this
    /// call's error.
    fn aoti_torch_mps_run_command_block(
        func: RawHandle,
        callback: Callback,
        user_data: *mut c_void,
    ) {
        let kernel = kernel(func)?;
        if callback.is_none() {
            return Err(err!(InvalidArgument, "{}: the callback is null", kernel.describe()));
        }
        Stream::current()?;
        with_text(|text, capacity| {
            // SAFETY: the callback and its data are the caller's and fit together; `text` has
            // `capacity` bytes.
            unsafe { etmetal_call_block(callback, func, user_data, text, capacity) }
        })
    }

    /// The callback whose data is a C++ `std::function`.
    fn aoti_torch_mps_shared_callback(func: RawHandle, user_data: *mut c_void) -> () = (); {
        if user_data.is_null() {
            return Err(err!(InvalidArgument, "the function to call back is null"));
        }
        with_text(|text, capacity| {
            // SAFETY: the caller promises a `std::function` of this signature; `text` has
            // `capacity` bytes.
            unsafe { etmetal_call_function(func, user_data, text, capacity) }
        })
    }
}

/// Runs a call into C++ and makes an error of the exception that it reports.
fn with_text(call: impl FnOnce(*mut c_char, usize) -> i32) -> Result<()> {
    let mut text = [0 as c_char; TEXT_CAPACITY];
    if call(text.as_mut_ptr(), text.len()) == 0 {
        return Ok(());
    }
    let bytes: Vec<u8> = text.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    Err(err!(
        Execution,
        "the model threw while it encoded a command block: {}",
        String::from_utf8_lossy(&bytes)
    ))
}
