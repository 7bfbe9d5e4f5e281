//! Memory that a model owns: its constants.
//!
//! Memory is shared, so an allocation is a CPU address, and so are the offsets into it. Before
//! the CPU touches any of it the thread's work is waited for; during a load there is none.

use std::ffi::c_void;

use crate::Result;
use crate::error::err;
use crate::shim::abi::{Out, c_functions};
use crate::shim::context::{self, wait_for_device};
use crate::shim::registry::{self, Range};
use crate::tensor::Storage;

c_functions! {
    /// Allocates memory for tensors; 0 bytes give null. A model's offered weights are lent
    /// instead if they have that size.
    fn aoti_torch_mps_malloc(buffer: Out<*mut c_void>, num_bytes: usize) {
        buffer.set("buffer", std::ptr::null_mut())?;
        if num_bytes == 0 {
            return Ok(());
        }
        let model = context::current()?;
        let weights = model.offered_weights(num_bytes);
        let is_weights = weights.is_some();
        let storage = match weights {
            Some(weights) => weights,
            None => Storage::allocate(model.device(), num_bytes)?,
        };
        let address = registry::lend_range(model.owner(), storage, is_weights);
        buffer.set("buffer", address.cast())
    }

    /// Frees what `aoti_torch_mps_malloc` gave; null is ignored. Tensors and encoded work that
    /// use the memory keep it until they are done.
    fn aoti_torch_mps_free(ptr: *mut c_void) {
        if ptr.is_null() {
            return Ok(());
        }
        registry::take_range(context::current_owner(), ptr.cast()).map(drop)
    }

    /// Copies a constant: `data_size` bytes at `bytes_read` of the source to `constant_offset`
    /// of the allocation. Copies nothing if those are the same bytes.
    fn aoti_torch_mps_memcpy(
        buffer: *mut c_void,
        constant_offset: usize,
        bytes_read: usize,
        data_size: usize,
        constants_start: *mut u8,
    ) {
        if data_size == 0 {
            return Ok(());
        }
        if constants_start.is_null() {
            return Err(err!(InvalidArgument, "the source of the constants is null"));
        }
        let (range, start) = allocation(buffer.cast())?;
        let to = place(&range, start, constant_offset, data_size)?;
        let from = constants_start.wrapping_add(bytes_read);
        if from == to {
            return Ok(());
        }
        refuse_moved_weights(&range, from)?;
        wait_for_device()?;
        // SAFETY: the caller promises that the source has these bytes; the destination was
        // checked, and the device is not using it. Both may overlap.
        unsafe { std::ptr::copy(from, to, data_size) };
        Ok(())
    }

    /// Copies between allocations, or from memory of the caller into one, in the order of the
    /// stream.
    fn aoti_torch_mps_copy_buffer(
        src_buffer: *mut c_void,
        dst_buffer: *mut c_void,
        data_size: usize,
        src_offset: usize,
        dst_offset: usize,
    ) {
        if data_size == 0 {
            return Ok(());
        }
        if src_buffer.is_null() {
            return Err(err!(InvalidArgument, "the source of a copy is null"));
        }
        let (range, start) = allocation(dst_buffer.cast())?;
        let to = place(&range, start, dst_offset, data_size)?;
        let from = match registry::find_range(src_buffer.cast()) {
            Some((range, start)) => place(&range, start, src_offset, data_size)?,
            None => src_buffer.cast::<u8>().wrapping_add(src_offset),
        };
        wait_for_device()?;
        // SAFETY: the destination was checked; the source was too, or is memory of which the
        // caller promises these bytes. The device is not using them. Both may overlap.
        unsafe { std::ptr::copy(from, to, data_size) };
        Ok(())
    }
}

/// The allocation that holds `address`, and how far into it that lies.
fn allocation(address: *mut u8) -> Result<(Range, usize)> {
    registry::find_range(address).ok_or_else(|| {
        err!(
            InvalidHandle,
            "{address:p} lies in no memory that aoti_torch_mps_malloc gave, or it was freed before"
        )
    })
}

/// The address of `len` bytes at `offset` from byte `start` of an allocation.
fn place(range: &Range, start: usize, offset: usize, len: usize) -> Result<*mut u8> {
    let available = range.storage.len() - start;
    if offset.checked_add(len).is_none_or(|end| end > available) {
        return Err(err!(
            InvalidArgument,
            "{len} bytes at offset {offset} leave an allocation of {available} bytes"
        ));
    }
    // SAFETY: the place lies inside the storage.
    Ok(unsafe { range.storage.as_ptr().add(start + offset) })
}

/// Offered weights serve as they lie. If the model wants constants elsewhere than its blob has
/// them, moving them would overwrite others that are still to come.
fn refuse_moved_weights(range: &Range, from: *mut u8) -> Result<()> {
    let start = range.storage.as_ptr() as usize;
    let inside = (start..start + range.storage.len()).contains(&(from as usize));
    if range.is_weights && inside {
        return Err(err!(
            InvalidProgram,
            "the model lays its constants out differently from its weights blob; they cannot be \
             used in place"
        ));
    }
    Ok(())
}
