//! What a model may ask of a tensor.

use std::ffi::c_void;

use super::abi::{Out, c_functions};
use super::constants::{LAYOUT_STRIDED, code_of_placement};
use super::registry::{maybe_tensor, tensor};
use crate::Result;
use crate::error::err;
use crate::tensor::RawHandle;

c_functions! {
    /// CPU address of the tensor's first element. What may be done with it is said in
    /// [`crate::device`]. Valid while the tensor's storage lives.
    fn aoti_torch_get_data_ptr(handle: RawHandle, ret_data_ptr: Out<*mut c_void>) {
        ret_data_ptr.set("ret_data_ptr", tensor(handle)?.as_ptr().cast())
    }

    /// As `aoti_torch_get_data_ptr`.
    fn torch_get_mutable_data_ptr(handle: RawHandle, ret_data_ptr: Out<*mut c_void>) {
        ret_data_ptr.set("ret_data_ptr", tensor(handle)?.as_ptr().cast())
    }

    /// As `aoti_torch_get_data_ptr`.
    fn torch_get_const_data_ptr(handle: RawHandle, ret_data_ptr: Out<*const c_void>) {
        ret_data_ptr.set("ret_data_ptr", tensor(handle)?.as_ptr().cast_const().cast())
    }

    /// Bytes of the tensor's storage.
    fn aoti_torch_get_storage_size(handle: RawHandle, ret_size: Out<i64>) {
        ret_size.set("ret_size", tensor(handle)?.storage().len() as i64)
    }

    /// Elements of the tensor's dtype that fill its storage.
    fn aoti_torch_get_storage_numel(handle: RawHandle, ret_numel: Out<i64>) {
        let tensor = tensor(handle)?;
        ret_numel.set("ret_numel", (tensor.storage().len() / tensor.dtype().size()) as i64)
    }

    /// Number of dimensions.
    fn aoti_torch_get_dim(handle: RawHandle, ret_dim: Out<i64>) {
        ret_dim.set("ret_dim", tensor(handle)?.sizes().len() as i64)
    }

    /// Number of elements.
    fn aoti_torch_get_numel(handle: RawHandle, ret_numel: Out<i64>) {
        ret_numel.set("ret_numel", tensor(handle)?.numel() as i64)
    }

    /// The sizes, `dim` of them. Valid while the handle lives.
    fn aoti_torch_get_sizes(handle: RawHandle, ret_sizes: Out<*const i64>) {
        // The table keeps the tensor, and with it the array, where it is.
        ret_sizes.set("ret_sizes", tensor(handle)?.sizes().as_ptr())
    }

    /// The strides in elements, `dim` of them. Valid while the handle lives.
    fn aoti_torch_get_strides(handle: RawHandle, ret_strides: Out<*const i64>) {
        ret_strides.set("ret_strides", tensor(handle)?.strides().as_ptr())
    }

    /// The size along dimension `d`, counted from the end if negative.
    fn aoti_torch_get_size(handle: RawHandle, d: i64, ret_size: Out<i64>) {
        ret_size.set("ret_size", along(tensor(handle)?.sizes(), d)?)
    }

    /// The stride along dimension `d`, counted from the end if negative.
    fn aoti_torch_get_stride(handle: RawHandle, d: i64, ret_stride: Out<i64>) {
        ret_stride.set("ret_stride", along(tensor(handle)?.strides(), d)?)
    }

    /// The dtype's code.
    fn aoti_torch_get_dtype(handle: RawHandle, ret_dtype: Out<i32>) {
        ret_dtype.set("ret_dtype", tensor(handle)?.dtype().code())
    }

    /// The device type's code.
    fn aoti_torch_get_device_type(handle: RawHandle, ret_device_type: Out<i32>) {
        ret_device_type.set("ret_device_type", code_of_placement(tensor(handle)?.placement()))
    }

    /// The device's index: there is one of each type, 0.
    fn aoti_torch_get_device_index(handle: RawHandle, ret_device_index: Out<i32>) {
        tensor(handle)?;
        ret_device_index.set("ret_device_index", 0)
    }

    /// The layout's code: all tensors are strided.
    fn aoti_torch_get_layout(handle: RawHandle, ret_layout: Out<i32>) {
        tensor(handle)?;
        ret_layout.set("ret_layout", LAYOUT_STRIDED)
    }

    /// Elements from the storage's start to the tensor's first.
    fn aoti_torch_get_storage_offset(handle: RawHandle, ret_storage_offset: Out<i64>) {
        let tensor = tensor(handle)?;
        let elements = tensor.offset() / tensor.dtype().size();
        ret_storage_offset.set("ret_storage_offset", elements as i64)
    }

    /// Whether elements lie in row-major order without gaps.
    fn aoti_torch_is_contiguous(handle: RawHandle, ret_is_contiguous: Out<bool>) {
        ret_is_contiguous.set("ret_is_contiguous", tensor(handle)?.layout().is_contiguous())
    }

    /// Whether the tensor was set since it was created uninitialised.
    fn aoti_torch_is_defined(handle: RawHandle, ret_is_defined: Out<bool>) {
        ret_is_defined.set("ret_is_defined", maybe_tensor(handle)?.is_some())
    }

    /// Whether the tensor has a storage: every defined one has.
    fn torch_has_storage(handle: RawHandle, ret_has_storage: Out<bool>) {
        ret_has_storage.set("ret_has_storage", maybe_tensor(handle)?.is_some())
    }

    /// The index of the thread's current device.
    fn aoti_torch_get_current_device_index(ret_device_index: Out<i32>) {
        ret_device_index.set("ret_device_index", 0)
    }
}

/// The value along a dimension.
fn along(values: &[i64], d: i64) -> Result<i64> {
    let dim = values.len() as i64;
    let at = if d < 0 { d + dim } else { d };
    usize::try_from(at).ok().and_then(|at| values.get(at)).copied().ok_or_else(|| {
        err!(InvalidArgument, "dimension {d} is out of range for a tensor of {dim} dimensions")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::abi::{In, Out};
    use crate::shim::constants::{DEVICE_CPU, DEVICE_MPS};
    use crate::shim::create::{aoti_torch__reinterpret_tensor, aoti_torch_delete_tensor_object};
    use crate::shim::testing::{call, empty, get, model};
    use crate::tensor::DType;

    #[test]
    fn a_view_knows_its_place() {
        let (_model, _guard) = model();
        let base = empty(&[4, 6], &[6, 1], DType::F16.code(), DEVICE_MPS);
        let view =
            get!(aoti_torch__reinterpret_tensor, base, 2, In::of(&[3, 2]), In::of(&[6, 2]), 7)
                .unwrap();
        assert_eq!(get!(aoti_torch_get_dim, view).unwrap(), 2);
        assert_eq!(get!(aoti_torch_get_numel, view).unwrap(), 6);
        assert_eq!(get!(aoti_torch_get_storage_offset, view).unwrap(), 7);
        assert_eq!(get!(aoti_torch_get_storage_size, view).unwrap(), 48);
        assert_eq!(get!(aoti_torch_get_storage_numel, view).unwrap(), 24);
        assert_eq!(get!(aoti_torch_get_dtype, view).unwrap(), 5);
        assert_eq!(get!(aoti_torch_get_device_type, view).unwrap(), DEVICE_MPS);
        assert_eq!(get!(aoti_torch_get_device_index, view).unwrap(), 0);
        assert_eq!(get!(aoti_torch_get_layout, view).unwrap(), LAYOUT_STRIDED);
        assert_eq!(get!(aoti_torch_get_size, view, 1).unwrap(), 2);
        assert_eq!(get!(aoti_torch_get_size, view, -2).unwrap(), 3);
        assert_eq!(get!(aoti_torch_get_stride, view, -1).unwrap(), 2);
        assert!(!get!(aoti_torch_is_contiguous, view).unwrap());
        assert!(get!(aoti_torch_is_contiguous, base).unwrap());
        let sizes = get!(aoti_torch_get_sizes, view).unwrap();
        let strides = get!(aoti_torch_get_strides, view).unwrap();
        // SAFETY: the handle lives, and it has two dimensions.
        let (sizes, strides) = unsafe {
            (std::slice::from_raw_parts(sizes, 2), std::slice::from_raw_parts(strides, 2))
        };
        assert_eq!((sizes, strides), (&[3, 2][..], &[6, 2][..]));
        let start = get!(aoti_torch_get_data_ptr, base).unwrap();
        let inner = get!(aoti_torch_get_data_ptr, view).unwrap();
        assert_eq!(inner as usize - start as usize, 14);
        assert_eq!(get!(torch_get_mutable_data_ptr, view).unwrap(), inner);
        assert_eq!(get!(torch_get_const_data_ptr, view).unwrap(), inner.cast_const());
        for handle in [view, base] {
            call!(aoti_torch_delete_tensor_object, handle).unwrap();
        }
    }

    #[test]
    fn tensors_without_elements_or_dimensions_are_ordinary() {
        let (model, _guard) = model();
        let scalar = empty(&[], &[], DType::F32.code(), DEVICE_CPU);
        assert_eq!(get!(aoti_torch_get_numel, scalar).unwrap(), 1);
        assert_eq!(get!(aoti_torch_get_device_type, scalar).unwrap(), DEVICE_CPU);
        assert!(!get!(aoti_torch_get_sizes, scalar).unwrap().is_null());
        let nothing = empty(&[3, 0], &[1, 1], DType::I64.code(), DEVICE_MPS);
        assert_eq!(get!(aoti_torch_get_numel, nothing).unwrap(), 0);
        assert!(!get!(aoti_torch_get_data_ptr, nothing).unwrap().is_null());
        assert!(get!(aoti_torch_is_contiguous, nothing).unwrap());
        assert!(get!(torch_has_storage, nothing).unwrap());
        assert_eq!(model.release(), 2);
    }

    #[test]
    fn misuse_is_an_error_with_the_functions_name() {
        let (model, guard) = model();
        let tensor = empty(&[2], &[1], DType::F32.code(), DEVICE_MPS);
        let text = get!(aoti_torch_get_size, tensor, 1).unwrap_err();
        assert!(
            text.starts_with("aoti_torch_get_size: ") && text.contains("dimension 1"),
            "{text}"
        );
        assert!(get!(aoti_torch_get_stride, tensor, -2).is_err());
        let text = call!(aoti_torch_get_dim, tensor, Out::NULL).unwrap_err();
        assert!(text.contains("ret_dim") && text.contains("null"), "{text}");
        let text = get!(aoti_torch_get_dim, RawHandle::NULL).unwrap_err();
        assert!(text.contains("null"), "{text}");
        call!(aoti_torch_delete_tensor_object, tensor).unwrap();
        let text = get!(aoti_torch_get_dim, tensor).unwrap_err();
        assert!(text.contains("deleted before"), "{text}");
        assert!(call!(aoti_torch_delete_tensor_object, tensor).is_err());
        call!(aoti_torch_delete_tensor_object, RawHandle::NULL).unwrap();
        let first = guard.take_error().unwrap().to_string();
        assert!(first.contains("dimension 1"), "the first error is kept: {first}");
        assert!(guard.take_error().is_none());
        assert_eq!(model.release(), 0);
    }
}
