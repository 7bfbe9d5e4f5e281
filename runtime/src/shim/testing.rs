//! What the tests of the shims share: a model on the host device, and safe ways to call C.

use std::sync::Arc;

use super::abi::Status;
use super::context::{ContextGuard, ModelContext};
use crate::device::Device;
use crate::device::host::HostDevice;
use crate::tensor::RawHandle;

/// A model on the host device, current on the calling thread while the guard lives.
pub fn model() -> (Arc<ModelContext>, ContextGuard) {
    let device: Arc<dyn Device> = HostDevice::shared();
    let model = ModelContext::new(device);
    let guard = model.enter().unwrap();
    (model, guard)
}

/// The text of the thread's last error.
pub fn last_error() -> String {
    let text = super::last_error::etmetal_last_error();
    // SAFETY: it is a NUL-terminated text that lives until the next call.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

/// Calls a function whose last parameter is a result: `get!(name, arguments…)` gives the result
/// or the error's text.
macro_rules! get {
    ($function:path $(, $argument:expr)*) => {{
        let mut result = std::mem::MaybeUninit::uninit();
        let out = crate::shim::abi::Out::of(&mut result);
        // SAFETY: the arguments are those of a well-behaved caller, or handles.
        let status = unsafe { $function($($argument,)* out) };
        crate::shim::testing::outcome(status).map(|()| {
            // SAFETY: the call succeeded, so it has set the result.
            unsafe { result.assume_init() }
        })
    }};
}
pub(crate) use get;

/// Calls a function without a result.
macro_rules! call {
    ($function:path $(, $argument:expr)*) => {{
        // SAFETY: the arguments are those of a well-behaved caller, or handles.
        let status = unsafe { $function($($argument),*) };
        crate::shim::testing::outcome(status)
    }};
}
pub(crate) use call;

/// A status as a result with the error's text.
pub fn outcome(status: Status) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(last_error()) }
}

/// A new tensor, by the C ABI.
pub fn empty(sizes: &[i64], strides: &[i64], dtype: i32, device_type: i32) -> RawHandle {
    use super::abi::In;
    get!(
        super::create::aoti_torch_empty_strided,
        sizes.len() as i64,
        In::of(sizes),
        In::of(strides),
        dtype,
        device_type,
        0
    )
    .unwrap()
}

/// The bytes of a tensor's elements, lying densely, as numbers.
pub fn read<T: Copy>(handle: RawHandle, count: usize) -> Vec<T> {
    super::context::wait_for_device().unwrap();
    let start = get!(super::attributes::aoti_torch_get_data_ptr, handle).unwrap();
    // SAFETY: the test says how many elements the tensor has.
    unsafe { std::slice::from_raw_parts(start.cast::<T>(), count) }.to_vec()
}

/// Writes numbers into a tensor whose elements lie densely.
pub fn write<T: Copy>(handle: RawHandle, numbers: &[T]) {
    let start = get!(super::attributes::aoti_torch_get_data_ptr, handle).unwrap();
    // SAFETY: the test says how many elements the tensor has.
    unsafe { start.cast::<T>().copy_from_nonoverlapping(numbers.as_ptr(), numbers.len()) };
}
