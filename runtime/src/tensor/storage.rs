//! Storages: the memory that tensors view.

use std::sync::Arc;

use crate::Result;
use crate::device::{BufferRef, Device};

/// One device allocation, or one borrowed range, shared by the tensors that view it.
///
/// Cloning shares; the memory goes when the last clone and all work that uses it are gone.
#[derive(Debug, Clone)]
pub struct Storage {
    buffer: BufferRef,
    /// Where the storage begins inside the buffer (a range of a larger mapping).
    offset: usize,
    len: usize,
    device: Arc<dyn Device>,
}

impl Storage {
    /// A new storage of `len` bytes on `device`; contents unspecified.
    ///
    /// # Errors
    /// Out of memory.
    pub fn allocate(device: &Arc<dyn Device>, len: usize) -> Result<Self> {
        let buffer = device.allocate(len)?;
        Ok(Storage { buffer, offset: 0, len, device: device.clone() })
    }

    /// A storage over memory that somebody else owns.
    ///
    /// # Safety
    /// As for [`Device::wrap`].
    ///
    /// # Errors
    /// As for [`Device::wrap`].
    pub unsafe fn borrow(
        device: &Arc<dyn Device>,
        ptr: *mut u8,
        len: usize,
        keep: Option<crate::device::Keep>,
    ) -> Result<Self> {
        // SAFETY: the caller upholds `wrap`'s contract, which is the same.
        let buffer = unsafe { device.wrap(ptr, len, keep) }?;
        Ok(Storage { buffer, offset: 0, len, device: device.clone() })
    }

    /// The bytes `offset..offset + len` of this storage, as a storage.
    ///
    /// # Errors
    /// The range leaves the storage.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(crate::error::err!(
                InvalidArgument,
                "bytes {offset}..{offset}+{len} leave a storage of {} bytes",
                self.len
            ));
        }
        Ok(Storage { offset: self.offset + offset, len, ..self.clone() })
    }

    /// The device it lives on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The buffer that holds it.
    pub fn buffer(&self) -> &BufferRef {
        &self.buffer
    }

    /// Byte offset of the storage inside [`Storage::buffer`].
    pub fn buffer_offset(&self) -> usize {
        self.offset
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// CPU address of its first byte. What may be done with it is said in [`crate::device`].
    pub fn as_ptr(&self) -> *mut u8 {
        // SAFETY: `offset` lies inside the buffer, or at its end for an empty storage
        // (checked in `slice`), so the result stays in or one past the same allocation.
        unsafe { self.buffer.contents().add(self.offset) }
    }
}
