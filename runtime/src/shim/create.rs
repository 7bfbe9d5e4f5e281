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
