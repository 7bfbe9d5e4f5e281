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

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::sync::Arc;

    use super::*;
    use crate::device::Device;
    use crate::device::host::HostDevice;
    use crate::shim::testing::{call, last_error, model};

    fn malloc(bytes: usize) -> *mut c_void {
        let mut address = MaybeUninit::uninit();
        call!(aoti_torch_mps_malloc, Out::of(&mut address), bytes).unwrap();
        // SAFETY: set by the call.
        unsafe { address.assume_init() }
    }

    fn bytes_at(address: *mut c_void, len: usize) -> Vec<u8> {
        // SAFETY: the tests read what they allocated.
        unsafe { std::slice::from_raw_parts(address.cast::<u8>(), len) }.to_vec()
    }

    #[test]
    fn constants_are_copied_to_their_place() {
        let (model, _guard) = model();
        let memory = malloc(64);
        let mut blob: Vec<u8> = (0..100).collect();
        call!(aoti_torch_mps_memcpy, memory, 16, 40, 8, blob.as_mut_ptr()).unwrap();
        assert_eq!(bytes_at(memory, 24)[16..], [40, 41, 42, 43, 44, 45, 46, 47]);
        call!(aoti_torch_mps_copy_buffer, memory, memory, 8, 16, 18).unwrap();
        assert_eq!(bytes_at(memory, 26)[18..], [40, 41, 42, 43, 44, 45, 46, 47]);
        let other = malloc(8);
        call!(aoti_torch_mps_copy_buffer, memory, other, 8, 18, 0).unwrap();
        assert_eq!(bytes_at(other, 3), [40, 41, 42]);
        let from_caller = blob.as_mut_ptr().cast();
        call!(aoti_torch_mps_copy_buffer, from_caller, other, 4, 2, 4).unwrap();
        assert_eq!(bytes_at(other, 8)[4..], [2, 3, 4, 5]);
        call!(aoti_torch_mps_free, memory).unwrap();
        call!(aoti_torch_mps_free, other).unwrap();
        assert_eq!(model.release(), 0);
    }

    #[test]
    fn what_leaves_an_allocation_is_refused() {
        let (model, _guard) = model();
        let memory = malloc(64);
        let mut blob = [0u8; 128];
        let source = blob.as_mut_ptr();
        let copy = |to, at, len| call!(aoti_torch_mps_memcpy, to, at, 0, len, source).unwrap_err();
        assert!(copy(memory, 60, 8).contains("64 bytes"));
        assert!(copy(memory, usize::MAX, 8).contains("64 bytes"));
        assert!(copy(memory.wrapping_byte_add(60), 0, 8).contains("4 bytes"));
        let mut foreign = [0u8; 8];
        assert!(copy(foreign.as_mut_ptr().cast(), 0, 8).contains("no memory"));
        let none = std::ptr::null_mut();
        assert!(call!(aoti_torch_mps_memcpy, memory, 0, 0, 8, none).is_err());
        call!(aoti_torch_mps_memcpy, none.cast(), 0, 0, 0, none).unwrap();
        assert!(call!(aoti_torch_mps_copy_buffer, memory, memory, 32, 40, 0).is_err());
        call!(aoti_torch_mps_free, memory).unwrap();
        assert!(call!(aoti_torch_mps_free, memory).unwrap_err().contains("freed before"));
        assert!(call!(aoti_torch_mps_free, foreign.as_mut_ptr().cast()).is_err());
        call!(aoti_torch_mps_free, none.cast()).unwrap();
        assert!(malloc(0).is_null());
        let mut address = MaybeUninit::uninit();
        let result = call!(aoti_torch_mps_malloc, Out::of(&mut address), usize::MAX);
        assert!(result.unwrap_err().contains("aoti_torch_mps_malloc"));
        // SAFETY: set even by a call that fails.
        assert!(unsafe { address.assume_init() }.is_null());
        assert_eq!(model.release(), 0);
    }

    #[test]
    fn offered_weights_are_lent_and_not_copied() {
        let (model, guard) = model();
        let device: Arc<dyn Device> = HostDevice::shared();
        let weights = Storage::allocate(&device, 4096).unwrap();
        let start = weights.as_ptr();
        // SAFETY: the storage is new and has these bytes.
        unsafe { start.write_bytes(7, 4096) };
        model.offer_weights(Some(weights));
        let memory = malloc(4096);
        assert_eq!(memory.cast(), start);
        assert_ne!(malloc(4095).cast(), start, "only the very size gets them");
        call!(aoti_torch_mps_memcpy, memory, 64, 64, 32, start).unwrap();
        assert!(guard.take_error().is_none());
        let moved = call!(aoti_torch_mps_memcpy, memory, 128, 64, 32, start).unwrap_err();
        assert!(moved.contains("in place"), "{moved}");
        assert!(guard.take_error().unwrap().to_string().contains("in place"));
        let mut update = [9u8; 16];
        call!(aoti_torch_mps_memcpy, memory, 0, 0, 16, update.as_mut_ptr()).unwrap();
        assert_eq!(bytes_at(memory, 17)[15..], [9, 7]);
        model.offer_weights(None);
        assert_ne!(malloc(4096).cast(), start);
        call!(aoti_torch_mps_free, memory).unwrap();
        assert_eq!(model.release(), 2);
    }

    #[test]
    fn each_model_frees_its_own_of_equal_addresses() {
        let device: Arc<dyn Device> = HostDevice::shared();
        let weights = Storage::allocate(&device, 256).unwrap();
        let (first, guard) = model();
        first.offer_weights(Some(weights.clone()));
        let a = malloc(256);
        drop(guard);
        let (second, guard) = model();
        second.offer_weights(Some(weights));
        let b = malloc(256);
        drop(guard);
        assert_eq!(a, b);
        let guard = first.enter().unwrap();
        call!(aoti_torch_mps_free, a).unwrap();
        drop(guard);
        assert_eq!((first.release(), second.release()), (0, 1));
    }

    #[test]
    fn freeing_needs_no_current_model() {
        let (model, guard) = model();
        let memory = malloc(16);
        drop(guard);
        std::thread::spawn({
            let memory = memory as usize;
            move || call!(aoti_torch_mps_free, memory as *mut c_void).unwrap()
        })
        .join()
        .unwrap();
        assert_eq!(model.release(), 0);
        let mut address = MaybeUninit::uninit();
        assert!(call!(aoti_torch_mps_malloc, Out::of(&mut address), 16).is_err());
        assert!(last_error().contains("no model is current"));
    }
}
