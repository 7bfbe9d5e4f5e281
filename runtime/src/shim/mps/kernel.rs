//! Encoding kernel calls. The state of a call belongs to the thread's stream, so several threads
//! may use one kernel's handle at once.

use std::ffi::c_void;

use crate::shim::abi::{In, c_functions};
use crate::shim::registry::{kernel, tensor};
use crate::stream::Stream;
use crate::tensor::RawHandle;

c_functions! {
    /// Begins a call: arguments are set next.
    fn aoti_torch_mps_start_encoding(func: RawHandle) {
        Stream::current()?.start_encoding(&kernel(func)?);
        Ok(())
    }

    /// Binds a tensor: its buffer, from its first element on.
    fn aoti_torch_mps_set_arg_tensor(func: RawHandle, idx: u32, handle: RawHandle) {
        let (kernel, tensor) = (kernel(func)?, tensor(handle));
        Stream::current()?
            .encode_arguments(&kernel, |arguments| arguments.tensor(idx as usize, &*tensor?))
    }

    /// Binds an integer, eight bytes wide.
    fn aoti_torch_mps_set_arg_int(func: RawHandle, idx: u32, val: i64) {
        Stream::current()?
            .encode_arguments(&kernel(func)?, |arguments| arguments.i64(idx as usize, val))
    }

    /// Binds bytes that travel with the command.
    fn torch_mps_set_arg_bytes(func: RawHandle, idx: u32, ptr: *const c_void, size: u64) {
        let bytes = In::from_address(ptr.cast::<u8>()).slice("ptr", size)?;
        Stream::current()?
            .encode_arguments(&kernel(func)?, |arguments| arguments.bytes(idx as usize, bytes))
    }

    /// Runs the call over `length` threads, in groups as large as the kernel allows.
    fn aoti_torch_mps_dispatch_single(func: RawHandle, length: u64) {
        let kernel = kernel(func)?;
        Stream::current()?.dispatch_encoded(&kernel, kernel.grid_1d(length, None)?)
    }

    /// Runs the call over `length` threads, in groups of `group_size`.
    fn aoti_torch_mps_dispatch_single_with_group_size(
        func: RawHandle,
        length: u64,
        group_size: u64,
    ) {
        let kernel = kernel(func)?;
        Stream::current()?.dispatch_encoded(&kernel, kernel.grid_1d(length, Some(group_size))?)
    }

    /// Runs the call over a grid of one to three dimensions, in groups as large as the kernel
    /// allows along the first.
    fn aoti_torch_mps_dispatch_array(func: RawHandle, length: In<u64>, length_size: usize) {
        let kernel = kernel(func)?;
        let length = length.slice("length", length_size)?;
        Stream::current()?.dispatch_encoded(&kernel, kernel.grid(length, None)?)
    }

    /// Runs the call over a grid of one to three dimensions, in groups of that size.
    fn aoti_torch_mps_dispatch_array_with_group_size(
        func: RawHandle,
        length: In<u64>,
        length_size: usize,
        group_size: In<u64>,
        group_size_size: usize,
    ) {
        let kernel = kernel(func)?;
        let length = length.slice("length", length_size)?;
        let group = group_size.slice("group_size", group_size_size)?;
        Stream::current()?.dispatch_encoded(&kernel, kernel.grid(length, Some(group))?)
    }
}
