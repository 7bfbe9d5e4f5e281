//! Making tensors, views and handles, and giving them back.

use std::ffi::c_void;
use std::sync::Arc;

use super::abi::{In, Out, c_functions};
use super::constants::{LAYOUT_STRIDED, placement_of_code};
use super::context::{current, current_owner, lend};
use super::registry::{self, tensor};
use crate::Result;
use crate::device::Device;
use crate::error::err;
use crate::tensor::{DType, Layout, RawHandle, Storage, Tensor};

c_functions! {
    /// Gives a tensor's handle back. Null is ignored, as `delete` does.
    fn aoti_torch_delete_tensor_object(handle: RawHandle) {
        if handle.is_null() { Ok(()) } else { registry::delete_tensor(handle) }
    }

    /// Another handle of the same tensor.
    fn aoti_torch_new_tensor_handle(orig_handle: RawHandle, new_handle: Out<RawHandle>) {
        new_handle.check("new_handle")?;
        let tensor = registry::maybe_tensor(orig_handle)?;
        new_handle.set("new_handle", registry::lend_tensor(current_owner(), tensor))
    }

    /// A handle of an undefined tensor, to be assigned later.
    fn aoti_torch_new_uninitialized_tensor(ret: Out<RawHandle>) {
        ret.check("ret")?;
        ret.set("ret", registry::lend_tensor(current_owner(), None))
    }

    /// Puts the tensor of `src` behind the handle `dst`.
    fn aoti_torch_assign_tensors(src: RawHandle, dst: RawHandle) {
        registry::replace_tensor(dst, registry::maybe_tensor(src)?)
    }

    /// Another handle of the tensor of `src`.
    fn aoti_torch_assign_tensors_out(src: RawHandle, ret_dst: Out<RawHandle>) {
        ret_dst.check("ret_dst")?;
        let tensor = registry::maybe_tensor(src)?;
        ret_dst.set("ret_dst", registry::lend_tensor(current_owner(), tensor))
    }

    /// A new tensor; contents unspecified.
    fn aoti_torch_empty_strided(
        ndim: i64,
        sizes_ptr: In<i64>,
        strides_ptr: In<i64>,
        dtype: i32,
        device_type: i32,
        device_index: i32,
        ret_new_tensor: Out<RawHandle>,
    ) {
        empty(ndim, sizes_ptr, strides_ptr, dtype, device_type, device_index, ret_new_tensor)
    }

    /// A new tensor; contents unspecified. All memory is shared with the device, so pinned memory
    /// is like any other.
    fn aoti_torch_empty_strided_pinned(
        ndim: i64,
        sizes_ptr: In<i64>,
        strides_ptr: In<i64>,
        dtype: i32,
        device_type: i32,
        device_index: i32,
        ret_new_tensor: Out<RawHandle>,
    ) {
        empty(ndim, sizes_ptr, strides_ptr, dtype, device_type, device_index, ret_new_tensor)
    }

    /// A view of another dtype into a storage that serves as a memory pool.
    fn aoti_torch__alloc_from_pool(
        pool: RawHandle,
        offset_bytes: i64,
        dtype: i32,
        ndim: i64,
        sizes_ptr: In<i64>,
        strides_ptr: In<i64>,
        ret_new_tensor: Out<RawHandle>,
    ) {
        ret_new_tensor.check("ret_new_tensor")?;
        let pool = tensor(pool)?;
        if pool.offset() != 0 {
            return Err(err!(
                InvalidArgument,
                "a memory pool must begin at its storage's start, it begins at byte {}",
                pool.offset()
            ));
        }
        let layout = layout(ndim, sizes_ptr, strides_ptr)?;
        let offset = size("offset_bytes", offset_bytes)?;
        let view = pool.view(offset, DType::from_code(dtype)?, layout)?;
        ret_new_tensor.set("ret_new_tensor", lend(view))
    }

    /// A view of the same storage; `storage_offset` counts elements from the tensor's first.
    fn aoti_torch__reinterpret_tensor(
        base: RawHandle,
        ndim: i64,
        sizes_ptr: In<i64>,
        strides_ptr: In<i64>,
        storage_offset: i64,
        ret_new_tensor: Out<RawHandle>,
    ) {
        ret_new_tensor.check("ret_new_tensor")?;
        let base = tensor(base)?;
        let layout = layout(ndim, sizes_ptr, strides_ptr)?;
        let offset = element_offset(base.offset(), base.dtype(), storage_offset)?;
        ret_new_tensor.set("ret_new_tensor", lend(base.view(offset, base.dtype(), layout)?))
    }

    /// A view that begins where `base` does, with as many dimensions.
    fn aoti_torch_as_strided(
        base: RawHandle,
        sizes_ptr: In<i64>,
        strides_ptr: In<i64>,
        ret: Out<RawHandle>,
    ) {
        ret.check("ret")?;
        let base = tensor(base)?;
        let layout = layout(base.sizes().len() as i64, sizes_ptr, strides_ptr)?;
        ret.set("ret", lend(base.view(base.offset(), base.dtype(), layout)?))
    }

    /// A tensor over memory of the caller, who keeps it alive, or over a range that
    /// `aoti_torch_mps_malloc` gave, which the tensor keeps alive.
    fn aoti_torch_create_tensor_from_blob(
        data: *mut c_void,
        ndim: i64,
        sizes_ptr: In<i64>,
        strides_ptr: In<i64>,
        storage_offset: i64,
        dtype: i32,
        device_type: i32,
        device_index: i32,
        ret: Out<RawHandle>,
    ) {
        check_device_index(device_index)?;
        let layout = layout(ndim, sizes_ptr, strides_ptr)?;
        from_blob(data, layout, storage_offset, dtype, device_type, ret)
    }

    /// As `aoti_torch_create_tensor_from_blob`, for the strided layout only.
    fn aoti_torch_create_tensor_from_blob_v2(
        data: *mut c_void,
        ndim: i64,
        sizes_ptr: In<i64>,
        strides_ptr: In<i64>,
        storage_offset: i64,
        dtype: i32,
        device_type: i32,
        device_index: i32,
        ret: Out<RawHandle>,
        layout_code: i32,
        opaque_metadata: In<u8>,
        opaque_metadata_size: i64,
    ) {
        // Metadata belongs to layouts that are refused.
        let _ = (opaque_metadata, opaque_metadata_size);
        check_device_index(device_index)?;
        if layout_code != LAYOUT_STRIDED {
            return Err(err!(
                Unsupported,
                "a tensor of layout {layout_code} is not supported, only strided ({LAYOUT_STRIDED})"
            ));
        }
        let layout = layout(ndim, sizes_ptr, strides_ptr)?;
        from_blob(data, layout, storage_offset, dtype, device_type, ret)
    }
}

#[allow(clippy::too_many_arguments)]
fn empty(
    ndim: i64,
    sizes: In<i64>,
    strides: In<i64>,
    dtype: i32,
    device_type: i32,
    device_index: i32,
    ret: Out<RawHandle>,
) -> Result<()> {
    ret.check("ret_new_tensor")?;
    check_device_index(device_index)?;
    let placement = placement_of_code(device_type)?;
    let layout = layout(ndim, sizes, strides)?;
    let model = current()?;
    let tensor = Tensor::empty(model.device(), DType::from_code(dtype)?, layout)?;
    ret.set("ret_new_tensor", lend(tensor.placed(placement)))
}

fn from_blob(
    data: *mut c_void,
    layout: Layout,
    storage_offset: i64,
    dtype: i32,
    device_type: i32,
    ret: Out<RawHandle>,
) -> Result<()> {
    ret.check("ret")?;
    let placement = placement_of_code(device_type)?;
    let dtype = DType::from_code(dtype)?;
    let model = current()?;
    let bytes = layout.extent() * dtype.size();
    if bytes == 0 {
        // No element is read, so `data` may be null and the offset may lie anywhere.
        let empty = Tensor::new(Storage::allocate(model.device(), 0)?, 0, dtype, layout)?;
        return ret.set("ret", lend(empty.placed(placement)));
    }
    if data.is_null() {
        return Err(err!(
            InvalidArgument,
            "the data of a tensor of sizes {:?} is null",
            layout.sizes
        ));
    }
    let offset = element_offset(0, dtype, storage_offset)?;
    let end =
        offset.checked_add(bytes).filter(|&end| end <= isize::MAX as usize).ok_or_else(|| {
            err!(InvalidArgument, "storage offset {storage_offset} is too large to address")
        })?;
    let storage = storage_at(model.device(), data.cast(), end)?;
    ret.set("ret", lend(Tensor::new(storage, offset, dtype, layout)?.placed(placement)))
}

/// The storage of the `len` bytes at `data`: part of a lent range if they begin in one, else
/// borrowed.
fn storage_at(device: &Arc<dyn Device>, data: *mut u8, len: usize) -> Result<Storage> {
    if let Some((range, start)) = registry::find_range(data) {
        return range.storage.slice(start, len);
    }
    // SAFETY: the C ABI's contract: the caller keeps the memory alive, and in place, while the
    // tensor and the work that uses it exist.
    unsafe { Storage::borrow(device, data, len, None) }
}

/// The layout of `ndim` sizes and strides.
fn layout(ndim: i64, sizes: In<i64>, strides: In<i64>) -> Result<Layout> {
    Layout::new(sizes.slice("sizes", ndim)?, strides.slice("strides", ndim)?)
}

/// `base` plus that many elements, in bytes.
fn element_offset(base: usize, dtype: DType, elements: i64) -> Result<usize> {
    let bytes = elements.checked_mul(dtype.size() as i64);
    bytes.and_then(|bytes| base.checked_add_signed(bytes as isize)).ok_or_else(|| {
        err!(InvalidArgument, "a storage offset of {elements} elements leaves the storage")
    })
}

fn size(what: &str, value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| err!(InvalidArgument, "{what} is negative: {value}"))
}

/// There is one device of each type; -1 means the current one.
fn check_device_index(index: i32) -> Result<()> {
    if matches!(index, -1 | 0) {
        return Ok(());
    }
    Err(err!(InvalidArgument, "device index {index}: there is one device, index 0"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::attributes::*;
    use crate::shim::constants::{DEVICE_CPU, DEVICE_MPS};
    use crate::shim::mps::memory::{aoti_torch_mps_free, aoti_torch_mps_malloc};
    use crate::shim::testing::{call, empty, get, model, read, write};

    const F32: i32 = 6;

    /// Memory of a model, by the C ABI.
    fn malloc(bytes: usize) -> *mut c_void {
        let mut address = std::mem::MaybeUninit::uninit();
        call!(aoti_torch_mps_malloc, Out::of(&mut address), bytes).unwrap();
        // SAFETY: set by the call.
        unsafe { address.assume_init() }
    }

    fn from_blob(data: *mut c_void, sizes: &[i64], strides: &[i64], at: i64) -> Result<RawHandle> {
        get!(
            aoti_torch_create_tensor_from_blob,
            data,
            sizes.len() as i64,
            In::of(sizes),
            In::of(strides),
            at,
            F32,
            DEVICE_MPS,
            0
        )
        .map_err(|text| err!(InvalidArgument, "{text}"))
    }

    #[test]
    fn handles_share_a_tensor_and_die_alone() {
        let (model, _guard) = model();
        let a = empty(&[3], &[1], F32, DEVICE_MPS);
        let b = get!(aoti_torch_new_tensor_handle, a).unwrap();
        let c = get!(aoti_torch_assign_tensors_out, a).unwrap();
        write(a, &[1f32, 2.0, 3.0]);
        call!(aoti_torch_delete_tensor_object, a).unwrap();
        assert_eq!(read::<f32>(b, 3), [1.0, 2.0, 3.0]);
        assert_eq!(read::<f32>(c, 3), [1.0, 2.0, 3.0]);
        assert_eq!(model.release(), 2);
        assert!(get!(aoti_torch_get_dim, b).is_err());
    }

    #[test]
    fn an_uninitialised_tensor_is_undefined_until_it_is_assigned() {
        let (model, _guard) = model();
        let a = get!(aoti_torch_new_uninitialized_tensor).unwrap();
        assert!(!get!(aoti_torch_is_defined, a).unwrap());
        assert!(get!(aoti_torch_get_dim, a).unwrap_err().contains("undefined"));
        let b = empty(&[2], &[1], F32, DEVICE_MPS);
        call!(aoti_torch_assign_tensors, b, a).unwrap();
        assert!(get!(aoti_torch_is_defined, a).unwrap());
        assert_eq!(get!(aoti_torch_get_data_ptr, a), get!(aoti_torch_get_data_ptr, b));
        assert_eq!(model.release(), 2);
    }

    #[test]
    fn a_blob_of_the_caller_is_borrowed_where_it_lies() {
        let (model, _guard) = model();
        let mut numbers = [0f32, 1.0, 2.0, 3.0, 4.0, 5.0];
        let data = numbers.as_mut_ptr().cast();
        let t = from_blob(data, &[2, 2], &[2, 1], 1).unwrap();
        assert_eq!(get!(aoti_torch_get_data_ptr, t).unwrap() as usize, data as usize + 4);
        assert_eq!(get!(aoti_torch_get_storage_offset, t).unwrap(), 1);
        assert_eq!(get!(aoti_torch_get_storage_size, t).unwrap(), 20);
        write(t, &[9f32]);
        assert_eq!(model.release(), 1);
        assert_eq!(numbers[1], 9.0);
        assert!(from_blob(std::ptr::null_mut(), &[2], &[1], 0).is_err());
        from_blob(std::ptr::null_mut(), &[2, 0], &[1, 1], 16).unwrap();
        assert_eq!(model.release(), 1);
    }

    #[test]
    fn a_blob_inside_an_allocation_shares_and_keeps_it() {
        let (model, _guard) = model();
        let base = malloc(256);
        let a = from_blob(base, &[4], &[1], 2).unwrap();
        let inside = base.cast::<u8>().wrapping_add(8).cast();
        let b = from_blob(inside, &[4], &[1], 0).unwrap();
        write(a, &[1f32, 2.0, 3.0, 4.0]);
        // Teardown of a model frees the memory before the tensors over it.
        call!(aoti_torch_mps_free, base).unwrap();
        assert_eq!(read::<f32>(b, 4), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(model.release(), 2);
        let base = malloc(256);
        let text = from_blob(base, &[64], &[1], 1).unwrap_err().to_string();
        assert!(text.contains("256 bytes"), "{text}");
        assert_eq!(model.release(), 1);
    }

    #[test]
    fn views_stay_inside_their_storage() {
        let (model, _guard) = model();
        let base = empty(&[8], &[1], F32, DEVICE_MPS);
        write(base, &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let reinterpret = |handle, size: i64, at: i64| {
            get!(aoti_torch__reinterpret_tensor, handle, 1, In::of(&[size]), In::of(&[1]), at)
        };
        let tail = reinterpret(base, 4, 4).unwrap();
        assert_eq!(read::<f32>(tail, 4), [4.0, 5.0, 6.0, 7.0]);
        let back = reinterpret(tail, 2, -3).unwrap();
        assert_eq!(read::<f32>(back, 2), [1.0, 2.0]);
        assert!(reinterpret(tail, 4, 1).unwrap_err().contains("32"));
        assert!(reinterpret(tail, 1, -5).unwrap_err().contains("leaves the storage"));
        assert!(reinterpret(tail, 1, i64::MAX).is_err());

        let strided = get!(aoti_torch_as_strided, tail, In::of(&[2]), In::of(&[2])).unwrap();
        assert_eq!(get!(aoti_torch_get_stride, strided, 0).unwrap(), 2);
        assert!(get!(aoti_torch_as_strided, tail, In::of(&[3]), In::of(&[2])).is_err());

        let pool = |at, dtype| {
            let (sizes, strides) = (In::of(&[2]), In::of(&[1]));
            get!(aoti_torch__alloc_from_pool, base, at, dtype, 1, sizes, strides)
        };
        let halves = pool(8, DType::F16.code()).unwrap();
        assert_eq!(get!(aoti_torch_get_storage_offset, halves).unwrap(), 4);
        assert!(pool(28, DType::F32.code()).is_err());
        assert!(pool(2, DType::F32.code()).unwrap_err().contains("multiple"));
        assert!(pool(-4, DType::F32.code()).unwrap_err().contains("negative"));
        let (sizes, strides) = (In::of(&[1]), In::of(&[1]));
        let from_tail = get!(aoti_torch__alloc_from_pool, tail, 0, F32, 1, sizes, strides);
        assert!(from_tail.unwrap_err().contains("begin"));
        assert_eq!(model.release(), 5);
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let (model, _guard) = model();
        let make = |ndim, sizes, strides, dtype, device, index| {
            get!(aoti_torch_empty_strided, ndim, sizes, strides, dtype, device, index).unwrap_err()
        };
        let one = || In::of(&[1i64]);
        assert!(make(1, one(), one(), 7, DEVICE_MPS, 0).contains("float64"));
        assert!(make(1, one(), one(), F32, 1, 0).contains("device type 1"));
        assert!(make(1, one(), one(), F32, DEVICE_CPU, 1).contains("device index 1"));
        assert!(make(1, In::NULL, one(), F32, DEVICE_MPS, 0).contains("null"));
        assert!(make(-1, one(), one(), F32, DEVICE_MPS, 0).contains("length"));
        assert!(make(1, In::of(&[-1]), one(), F32, DEVICE_MPS, 0).contains("negative"));
        assert!(make(1, In::of(&[i64::MAX]), one(), F32, DEVICE_MPS, 0).contains("too large"));
        assert!(make(1, In::of(&[1 << 45]), one(), F32, DEVICE_MPS, 0).contains("bytes"));
        let (sizes, strides) = (one(), one());
        let mut number = 0f32;
        let data = std::ptr::from_mut(&mut number).cast();
        let mut result = std::mem::MaybeUninit::uninit();
        let text = call!(
            aoti_torch_create_tensor_from_blob_v2,
            data,
            1,
            sizes,
            strides,
            0,
            F32,
            DEVICE_CPU,
            0,
            Out::of(&mut result),
            1,
            In::NULL,
            0
        )
        .unwrap_err();
        assert!(text.contains("layout 1"), "{text}");
        assert_eq!(model.release(), 0);
    }

    #[test]
    fn without_a_model_nothing_is_made() {
        let (sizes, strides) = (In::of(&[1]), In::of(&[1]));
        let text = get!(aoti_torch_empty_strided, 1, sizes, strides, F32, DEVICE_MPS, 0);
        assert!(text.unwrap_err().contains("no model is current"));
    }
}
