//! Checks, warnings and printing.

use std::ffi::c_char;
use std::fmt::Write as _;

use super::abi::{Text, c_functions};
use super::context::wait_for_device;
use super::last_error::etmetal_last_error;
use super::registry::tensor;
use super::scalars::{Value, float, read_element};
use crate::error::err;
use crate::log;
use crate::tensor::{RawHandle, Scalar, Tensor};

/// Elements that are printed of a tensor, at most.
const PRINTED_ELEMENTS: usize = 64;

c_functions! {
    /// Prints a warning of the model.
    fn aoti_torch_warn(func: Text, file: Text, line: u32, msg: Text) -> () = (); {
        let (file, func, msg) = (file.lossy(), func.lossy(), msg.lossy());
        log::warning(format_args!("{file}:{line} in {func}: {msg}"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::testing::{call, empty, get, last_error, model, write};
    use crate::tensor::DType;

    #[test]
    fn infinities_and_nans_are_found_where_they_are() {
        let (model, _guard) = model();
        let tensor = empty(&[2, 2], &[1, 2], DType::F32.code(), DEVICE_MPS);
        let check = || call!(aoti_torch_check_inf_and_nan, Text::of(c"buf7"), tensor);
        write(tensor, &[1f32, 2.0, 3.0, 4.0]);
        check().unwrap();
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            write(tensor, &[1f32, 2.0, bad, 4.0]);
            let text = check().unwrap_err();
            assert!(text.contains("buf7") && text.contains("element 1"), "{text}");
        }
        let whole = empty(&[2], &[1], DType::I32.code(), DEVICE_MPS);
        call!(aoti_torch_check_inf_and_nan, Text::NULL, whole).unwrap();
        assert_eq!(model.release(), 2);
    }

    #[test]
    fn a_description_shows_values_in_their_order() {
        let (model, _guard) = model();
        let handle = empty(&[2, 2], &[1, 2], DType::F32.code(), DEVICE_MPS);
        write(handle, &[1f32, 2.0, 3.5, 4.0]);
        let text = describe(&tensor(handle).unwrap(), "after add");
        assert!(text.contains("after add") && text.ends_with("1 3.5 2 4"), "{text}");
        aoti_torch_print_tensor_handle(handle, Text::of(c"note"));
        aoti_torch_warn(Text::of(c"f"), Text::of(c"g.cpp"), 3, Text::of(c"careful"));
        assert_eq!(model.release(), 1);
    }

    #[test]
    fn the_last_error_stays_until_the_next() {
        assert!(get!(crate::shim::attributes::aoti_torch_get_dim, RawHandle::NULL).is_err());
        let text = last_error();
        assert!(text.contains("null"), "{text}");
        // SAFETY: a text of this library.
        let what = unsafe { std::ffi::CStr::from_ptr(torch_exception_get_what()) };
        assert_eq!(what.to_str().unwrap(), text);
        assert_eq!(torch_exception_get_what(), torch_exception_get_what_without_backtrace());
        std::thread::spawn(|| assert_eq!(last_error(), "", "errors belong to their thread"))
            .join()
            .unwrap();
    }
}
