//! Checks, warnings and printing.

use std::ffi::c_char;
use std::fmt::Write as _;

use super::abi::{Text, c_functions};
use super::context::wait_for_device;
use super::last_error::etmetal_last_error;
use super::registry::tensor;
use super::scalars::{Value, float, read_element};
use crate::error::err;
use crate::tensor::{RawHandle, Scalar, Tensor};

/// Elements that are printed of a tensor, at most.
const PRINTED_ELEMENTS: usize = 64;

c_functions! {
    /// Prints a warning of the model.
    fn aoti_torch_warn(func: Text, file: Text, line: u32, msg: Text) -> () = (); {
        eprintln!("etmetal: warning: {}:{line} in {}: {}", file.lossy(), func.lossy(), msg.lossy());
        Ok(())
    }

    /// Fails if the tensor holds an infinity or a NaN. Waits for the stream.
    fn aoti_torch_check_inf_and_nan(tensor_name: Text, handle: RawHandle) {
        let tensor = tensor(handle)?;
        if !tensor.dtype().is_float() {
            return Ok(());
        }
        wait_for_device()?;
        // SAFETY: the stream is idle, so nothing is writing the elements.
        let bad = unsafe { elements(&tensor) }.position(|value| !float(value).is_finite());
        match bad {
            None => Ok(()),
            Some(index) => Err(err!(
                Execution,
                "tensor {} of sizes {:?} holds an infinity or a NaN at element {index}",
                tensor_name.lossy(),
                tensor.sizes()
            )),
        }
    }

    /// Prints a tensor's properties and first elements to standard error. Waits for the stream.
    fn aoti_torch_print_tensor_handle(handle: RawHandle, msg: Text) -> () = (); {
        let tensor = tensor(handle)?;
        wait_for_device()?;
        eprintln!("{}", describe(&tensor, &msg.lossy()));
        Ok(())
    }

    /// The text of the calling thread's last error.
    fn torch_exception_get_what() -> *const c_char = std::ptr::null(); { Ok(etmetal_last_error()) }

    /// The text of the calling thread's last error.
    fn torch_exception_get_what_without_backtrace() -> *const c_char = std::ptr::null(); {
        Ok(etmetal_last_error())
    }
}

/// All elements in row-major order.
///
/// # Safety
/// Nothing is writing the tensor.
unsafe fn elements(tensor: &Tensor) -> impl Iterator<Item = Value> + '_ {
    (0..tensor.numel()).map(|index| {
        let mut rest = index as i64;
        let mut offset = 0;
        for (&size, &stride) in tensor.sizes().iter().zip(tensor.strides()).rev() {
            offset += rest % size * stride;
            rest /= size;
        }
        // SAFETY: the offset is that of an element; the caller promises the rest.
        unsafe { read_element(tensor, offset as usize) }
    })
}

fn describe(tensor: &Tensor, message: &str) -> String {
    let mut text = format!(
        "[{message}] {} {:?}, sizes {:?}, strides {:?}:",
        tensor.dtype(),
        tensor.placement(),
        tensor.sizes(),
        tensor.strides()
    );
    // SAFETY: the caller waited for the stream.
    for value in unsafe { elements(tensor) }.take(PRINTED_ELEMENTS) {
        let _ = match value {
            Value::Scalar(Scalar::Float(v)) => write!(text, " {v}"),
            Value::Scalar(Scalar::Int(v)) => write!(text, " {v}"),
            Value::Scalar(Scalar::Bool(v)) => write!(text, " {v}"),
            Value::Unsigned(v) => write!(text, " {v}"),
        };
    }
    if tensor.numel() > PRINTED_ELEMENTS {
        let _ = write!(text, " … ({} elements)", tensor.numel());
    }
    text
}
