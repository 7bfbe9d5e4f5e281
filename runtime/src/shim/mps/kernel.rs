//! Encoding kernel calls. The state of a call belongs to the thread's stream, so several threads
//! may use one kernel's handle at once.

use std::ffi::c_void;

use crate::Result;
use crate::device::Grid;
use crate::kernel::{Arguments, Kernel};
use crate::shim::abi::{In, c_functions};
use crate::shim::registry::{look_at_tensor, with_kernel};
use crate::stream::Stream;
use crate::tensor::RawHandle;

c_functions! {
    /// Begins a call: arguments are set next.
    fn aoti_torch_mps_start_encoding(func: RawHandle) {
        let stream = Stream::current()?;
        with_kernel(func, |kernel| {
            stream.start_encoding_lent(kernel, func);
            Ok(())
        })
    }

    /// Binds a tensor: its buffer, from its first element on.
    fn aoti_torch_mps_set_arg_tensor(func: RawHandle, idx: u32, handle: RawHandle) {
        encode(func, |arguments| {
            // Who owned the buffer before may have a say when it goes: not while the table of
            // tensors is looked at.
            arguments.unset(idx as usize);
            look_at_tensor(handle, |tensor| arguments.tensor(idx as usize, tensor))
        })
    }

    /// Binds an integer, eight bytes wide.
    fn aoti_torch_mps_set_arg_int(func: RawHandle, idx: u32, val: i64) {
        encode(func, |arguments| arguments.i64(idx as usize, val))
    }

    /// Binds bytes that travel with the command.
    fn torch_mps_set_arg_bytes(func: RawHandle, idx: u32, ptr: *const c_void, size: u64) {
        let bytes = In::from_address(ptr.cast::<u8>()).slice("ptr", size)?;
        encode(func, |arguments| arguments.bytes(idx as usize, bytes))
    }

    /// Runs the call over `length` threads, in groups as large as the kernel allows.
    fn aoti_torch_mps_dispatch_single(func: RawHandle, length: u64) {
        dispatch(func, |kernel| kernel.grid_1d(length, None))
    }

    /// Runs the call over `length` threads, in groups of `group_size`.
    fn aoti_torch_mps_dispatch_single_with_group_size(
        func: RawHandle,
        length: u64,
        group_size: u64,
    ) {
        dispatch(func, |kernel| kernel.grid_1d(length, Some(group_size)))
    }

    /// Runs the call over a grid of one to three dimensions, in groups as large as the kernel
    /// allows along the first.
    fn aoti_torch_mps_dispatch_array(func: RawHandle, length: In<u64>, length_size: usize) {
        let length = length.slice("length", length_size)?;
        dispatch(func, |kernel| kernel.grid(length, None))
    }

    /// Runs the call over a grid of one to three dimensions, in groups of that size.
    fn aoti_torch_mps_dispatch_array_with_group_size(
        func: RawHandle,
        length: In<u64>,
        length_size: usize,
        group_size: In<u64>,
        group_size_size: usize,
    ) {
        let length = length.slice("length", length_size)?;
        let group = group_size.slice("group_size", group_size_size)?;
        dispatch(func, |kernel| kernel.grid(length, Some(group)))
    }
}

/// Changes the arguments of the kernel's call. The kernel is looked up only if its call is not the
/// one that is being encoded: to say so.
fn encode(func: RawHandle, change: impl FnOnce(&mut Arguments) -> Result<()>) -> Result<()> {
    let stream = Stream::current()?;
    if stream.is_encoding(func) {
        return stream.encode_current(change);
    }
    with_kernel(func, |kernel| stream.encode_arguments(kernel, change))
}

/// Dispatches the kernel's call.
fn dispatch(func: RawHandle, grid: impl FnOnce(&Kernel) -> Result<Grid>) -> Result<()> {
    let stream = Stream::current()?;
    if stream.is_encoding(func) {
        return stream.dispatch_current(grid);
    }
    with_kernel(func, |kernel| stream.dispatch_encoded(kernel, grid(kernel)?))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::sync::Arc;

    use super::*;
    use crate::library::testing::adders;
    use crate::shim::abi::Text;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::context::ModelContext;
    use crate::shim::mps::library::*;
    use crate::shim::testing::{call, empty, get, model, read, write};
    use crate::tensor::DType;

    /// A lent library of the test kernels, and one of its kernels.
    fn lend_kernel(model: &Arc<ModelContext>, name: &CStr) -> (RawHandle, RawHandle) {
        model.offer_library("source", adders("mps_lib_0"));
        let library = get!(aoti_torch_mps_create_shader_library, Text::of(c"source")).unwrap();
        let kernel = get!(aoti_torch_mps_get_kernel_function, library, Text::of(name)).unwrap();
        (library, kernel)
    }

    fn numbers(values: &[u32]) -> RawHandle {
        let handle = empty(&[values.len() as i64], &[1], DType::U32.code(), DEVICE_MPS);
        write(handle, values);
        handle
    }

    #[test]
    fn all_dispatches_run_their_threads() {
        let (model, _guard) = model();
        let (library, kernel) = lend_kernel(&model, c"add_groups");
        let out = numbers(&[0; 24]);
        call!(aoti_torch_mps_start_encoding, kernel).unwrap();
        call!(aoti_torch_mps_set_arg_tensor, kernel, 0, out).unwrap();
        call!(aoti_torch_mps_set_arg_int, kernel, 1, 1).unwrap();
        call!(aoti_torch_mps_dispatch_single, kernel, 24).unwrap();
        assert_eq!(read::<u32>(out, 24), [1; 24]);
        call!(aoti_torch_mps_dispatch_single_with_group_size, kernel, 24, 7).unwrap();
        assert_eq!(read::<u32>(out, 24), [2; 24]);
        call!(aoti_torch_mps_dispatch_array, kernel, In::of(&[4, 6]), 2).unwrap();
        assert_eq!(read::<u32>(out, 24), [3; 24]);
        let (grid, group) = (In::of(&[4, 3, 2]), In::of(&[3, 2, 1]));
        call!(aoti_torch_mps_dispatch_array_with_group_size, kernel, grid, 3, group, 3).unwrap();
        assert_eq!(read::<u32>(out, 24), [4; 24]);
        let three = 3u32.to_ne_bytes();
        call!(torch_mps_set_arg_bytes, kernel, 1, three.as_ptr().cast(), 4).unwrap();
        call!(aoti_torch_mps_dispatch_single, kernel, 1).unwrap();
        assert_eq!(read::<u32>(out, 2), [7, 4]);
        call!(aoti_torch_mps_delete_shader_library, library).unwrap();
        assert_eq!(model.release(), 1);
    }

    #[test]
    fn ignored_failures_are_kept_with_the_kernels_name() {
        let (model, guard) = model();
        let (_, kernel) = lend_kernel(&model, c"add_plain");
        call!(aoti_torch_mps_start_encoding, kernel).unwrap();
        let _ = call!(aoti_torch_mps_set_arg_tensor, kernel, 0, RawHandle::NULL);
        let _ = call!(aoti_torch_mps_dispatch_single, kernel, 4);
        let text = guard.take_error().unwrap().to_string();
        for part in ["aoti_torch_mps_set_arg_tensor", "add_plain", "mps_lib_0", "null"] {
            assert!(text.contains(part), "{text}");
        }
        let text = call!(aoti_torch_mps_dispatch_single_with_group_size, kernel, 4, 2000);
        assert!(text.unwrap_err().contains("1024"));
        assert!(call!(aoti_torch_mps_dispatch_array, kernel, In::of(&[1; 4]), 4).is_err());
        assert!(call!(aoti_torch_mps_dispatch_array, kernel, In::NULL, 2).is_err());
        assert!(call!(aoti_torch_mps_set_arg_int, kernel, 99, 1).is_err());
        assert!(call!(torch_mps_set_arg_bytes, kernel, 1, std::ptr::null(), 4).is_err());
        let bytes = [0u8; 5000];
        assert!(call!(torch_mps_set_arg_bytes, kernel, 1, bytes.as_ptr().cast(), 5000).is_err());
        assert!(guard.stream().is_idle());
        assert_eq!(model.release(), 1);
    }

    #[test]
    fn a_kernels_handle_lives_as_long_as_its_library() {
        let (model, guard) = model();
        let (library, kernel) = lend_kernel(&model, c"add_plain");
        let again =
            get!(aoti_torch_mps_get_kernel_function, library, Text::of(c"add_plain")).unwrap();
        assert_eq!(kernel, again, "asking again gives the same handle");
        let out = numbers(&[1]);
        call!(aoti_torch_mps_start_encoding, kernel).unwrap();
        call!(aoti_torch_mps_set_arg_tensor, kernel, 0, out).unwrap();
        call!(aoti_torch_mps_set_arg_int, kernel, 1, 1).unwrap();
        call!(aoti_torch_mps_dispatch_single, kernel, 1).unwrap();
        // Static destructors delete libraries: from any thread, with no model.
        drop(guard);
        std::thread::spawn(move || {
            call!(aoti_torch_mps_delete_shader_library, library).unwrap();
            assert!(call!(aoti_torch_mps_delete_shader_library, library).is_err());
        })
        .join()
        .unwrap();
        let _guard = model.enter().unwrap();
        let text = call!(aoti_torch_mps_start_encoding, kernel).unwrap_err();
        assert!(text.contains("kernel function") && text.contains("deleted before"), "{text}");
        assert_eq!(read::<u32>(out, 1), [2], "work that was encoded has run nevertheless");
        call!(aoti_torch_mps_delete_shader_library, RawHandle::NULL).unwrap();
        assert_eq!(model.release(), 1);
    }

    #[test]
    fn a_library_that_fails_leaves_null_and_says_why() {
        let (model, guard) = model();
        let mut library = std::mem::MaybeUninit::uninit();
        let out = crate::shim::abi::Out::of(&mut library);
        assert!(call!(aoti_torch_mps_create_shader_library, Text::NULL, out).is_err());
        // SAFETY: set even by a call that fails.
        assert!(unsafe { library.assume_init() }.is_null());
        let (library, _) = lend_kernel(&model, c"add_plain");
        let missing = get!(aoti_torch_mps_get_kernel_function, library, Text::of(c"nope"));
        assert!(missing.unwrap_err().contains("nope"));
        assert!(get!(aoti_torch_mps_get_kernel_function, RawHandle::NULL, Text::of(c"a")).is_err());
        assert!(guard.take_error().is_some());
        assert_eq!(model.release(), 1);
    }

    #[test]
    fn threads_may_use_one_kernel_at_once() {
        let (model, _guard) = model();
        let (_, kernel) = lend_kernel(&model, c"add_plain");
        std::thread::scope(|scope| {
            for thread in 1..=4u32 {
                let model = &model;
                scope.spawn(move || {
                    let guard = model.enter().unwrap();
                    let out = numbers(&[0; 100]);
                    for _ in 0..50 {
                        call!(aoti_torch_mps_start_encoding, kernel).unwrap();
                        call!(aoti_torch_mps_set_arg_tensor, kernel, 0, out).unwrap();
                        std::thread::yield_now();
                        call!(aoti_torch_mps_set_arg_int, kernel, 1, thread.into()).unwrap();
                        call!(aoti_torch_mps_dispatch_single, kernel, 100).unwrap();
                    }
                    assert_eq!(read::<u32>(out, 100), [50 * thread; 100]);
                    assert!(guard.take_error().is_none());
                });
            }
        });
        assert_eq!(model.release(), 5);
    }
}
