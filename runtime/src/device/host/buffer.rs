//! Host buffers: pooled blocks, and memory that somebody else owns.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::memory::{ALIGNMENT, Block};
use super::pool::Pool;
use crate::Result;
use crate::device::{Buffer, Keep};
use crate::error::err;

/// A block of the pool, given back when the last reference is dropped.
#[derive(Debug)]
pub struct PooledBuffer {
    block: ManuallyDrop<Block>,
    len: usize,
    pool: Arc<Pool>,
}

impl PooledBuffer {
    /// A buffer of `len` bytes, contents unspecified.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(pool: &Arc<Pool>, len: usize) -> Result<PooledBuffer> {
        let block = ManuallyDrop::new(pool.acquire(len)?);
        Ok(PooledBuffer { block, len, pool: pool.clone() })
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        // SAFETY: the block is taken once, here, and the buffer is gone afterwards.
        self.pool.release(unsafe { ManuallyDrop::take(&mut self.block) });
    }
}

impl Buffer for PooledBuffer {
    fn contents(&self) -> *mut u8 {
        self.block.start()
    }
    fn len(&self) -> usize {
        self.len
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A range that somebody else owns, and what keeps it there.
pub struct BorrowedBuffer {
    start: *mut u8,
    len: usize,
    _keep: Option<Keep>,
}

// SAFETY: the buffer only tells its range; whoever made it promised that the range may be used
// from any thread as long as the buffer is there.
unsafe impl Send for BorrowedBuffer {}
// SAFETY: as above.
unsafe impl Sync for BorrowedBuffer {}

impl BorrowedBuffer {
    /// A buffer over `start..start + len`. A null `start` stands for no memory, of length 0.
    ///
    /// # Safety
    /// As for [`Device::wrap`](crate::device::Device::wrap).
    ///
    /// # Errors
    /// The range is null but not empty, or wraps around the end of memory.
    pub unsafe fn new(start: *mut u8, len: usize, keep: Option<Keep>) -> Result<BorrowedBuffer> {
        if start.is_null() && len != 0 {
            return Err(err!(InvalidArgument, "cannot wrap {len} bytes at a null address"));
        }
        if start.addr().checked_add(len).is_none() {
            return Err(err!(
                InvalidArgument,
                "cannot wrap {len} bytes at {start:p}: the range leaves the address space"
            ));
        }
        let start =
            if start.is_null() { std::ptr::without_provenance_mut(ALIGNMENT) } else { start };
        Ok(BorrowedBuffer { start, len, _keep: keep })
    }
}

impl std::fmt::Debug for BorrowedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BorrowedBuffer({:p}, {} bytes)", self.start, self.len)
    }
}

impl Buffer for BorrowedBuffer {
    fn contents(&self) -> *mut u8 {
        self.start
    }
    fn len(&self) -> usize {
        self.len
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BufferRef;

    #[test]
    fn a_buffer_returns_to_the_pool_with_its_last_reference() {
        let pool = Arc::new(Pool::new(1 << 20));
        let first: BufferRef = Arc::new(PooledBuffer::new(&pool, 1000).unwrap());
        let address = first.contents();
        let second = first.clone();
        drop(first);
        assert_ne!(PooledBuffer::new(&pool, 1000).unwrap().contents(), address);
        drop(second);
        // The warmest block of that capacity is the one dropped last.
        assert_eq!(PooledBuffer::new(&pool, 1000).unwrap().contents(), address);
    }

    #[test]
    fn empty_buffers_are_ordinary() {
        let pool = Arc::new(Pool::new(1 << 20));
        let empty = PooledBuffer::new(&pool, 0).unwrap();
        assert!(empty.is_empty() && empty.contents().addr().is_multiple_of(ALIGNMENT));
        // SAFETY: no memory is borrowed.
        let none = unsafe { BorrowedBuffer::new(std::ptr::null_mut(), 0, None) }.unwrap();
        assert!(!none.contents().is_null() && none.is_empty());
    }

    #[test]
    fn a_borrowed_range_is_used_in_place_and_kept() {
        let owner = Arc::new(vec![7u8; 100]);
        let weak = Arc::downgrade(&owner);
        let start = owner.as_ptr().cast_mut();
        // SAFETY: the owner is kept by the buffer, and nothing writes.
        let buffer = unsafe { BorrowedBuffer::new(start, 100, Some(owner)) }.unwrap();
        assert_eq!((buffer.contents(), buffer.len()), (start, 100));
        assert!(weak.upgrade().is_some());
        drop(buffer);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn ranges_that_cannot_be_are_refused() {
        // SAFETY: nothing is accessed.
        let error = unsafe { BorrowedBuffer::new(std::ptr::null_mut(), 8, None) }.unwrap_err();
        assert!(error.to_string().contains("null"), "{error}");
        let top = std::ptr::without_provenance_mut(usize::MAX - 3);
        // SAFETY: nothing is accessed.
        let error = unsafe { BorrowedBuffer::new(top, 8, None) }.unwrap_err();
        assert!(error.to_string().contains("address space"), "{error}");
    }
}
