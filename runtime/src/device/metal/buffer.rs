//! Buffers: blocks of the pool in shared storage, and ranges of memory that somebody else owns,
//! wrapped without a copy.

use std::any::Any;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use block2::RcBlock;
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLBuffer, MTLDevice, MTLResourceOptions};
use parking_lot::Mutex;

use super::shared::Shared;
use crate::Result;
use crate::device::host::pool::{Pool, Pooled};
use crate::device::{Buffer, BufferRef, Keep};
use crate::error::err;

/// Memory that CPU and GPU share.
type Raw = Shared<ProtocolObject<dyn MTLBuffer>>;

/// A block of the pool: one `MTLBuffer` in shared storage.
#[derive(Debug)]
pub struct Block {
    raw: Raw,
    capacity: usize,
}

impl Block {
    /// A new block; `None` if there is no memory for it.
    pub fn new(device: &ProtocolObject<dyn MTLDevice>, capacity: usize) -> Option<Block> {
        let options = MTLResourceOptions::StorageModeShared;
        let raw = device.newBufferWithLength_options(capacity, options)?;
        Some(Block { raw: Shared::new(raw), capacity })
    }
}

impl Pooled for Block {
    fn capacity(&self) -> usize {
        self.capacity
    }
}

/// A buffer of the Metal device.
#[derive(Debug)]
pub struct MetalBuffer {
    backing: Backing,
    /// Byte of the `MTLBuffer` at which this buffer begins.
    base: usize,
    /// CPU address of the first byte.
    start: Address,
    len: usize,
}

/// Whose memory it is.
enum Backing {
    /// The pool's, to which it returns.
    Pool { block: ManuallyDrop<Block>, pool: Arc<Pool<Block>> },
    /// Somebody else's. Whole pages around the range are wrapped.
    Borrowed(Raw),
    /// Nobody's: an empty range. The block gives commands something to bind.
    Empty(BufferRef),
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Backing::Pool { .. } => "Pool",
            Backing::Borrowed(_) => "Borrowed",
            Backing::Empty(_) => "Empty",
        })
    }
}

/// An address that the buffer only tells.
#[derive(Debug, Clone, Copy)]
struct Address(*mut u8);

// SAFETY: the buffer does not access it; whoever does keeps to the device's contract.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl MetalBuffer {
    /// A buffer of `len` bytes from the pool, contents unspecified.
    ///
    /// # Errors
    /// Out of memory.
    pub fn allocate(
        device: &ProtocolObject<dyn MTLDevice>,
        pool: &Arc<Pool<Block>>,
        len: usize,
    ) -> Result<MetalBuffer> {
        let block = pool.acquire_with(len, |capacity| Block::new(device, capacity))?;
        let start = Address(block.raw.contents().as_ptr().cast());
        let backing = Backing::Pool { block: ManuallyDrop::new(block), pool: pool.clone() };
        Ok(MetalBuffer { backing, base: 0, start, len })
    }

    /// An empty buffer at `start`; commands bind `backing` in its place.
    pub fn empty(start: *mut u8, backing: BufferRef) -> MetalBuffer {
        let start = if start.is_null() { backing.contents() } else { start };
        MetalBuffer { backing: Backing::Empty(backing), base: 0, start: Address(start), len: 0 }
    }

    /// A buffer over `start..start + len`, without a copy. `keep` goes when Metal has let go of
    /// the range.
    ///
    /// # Safety
    /// As for [`Device::wrap`](crate::device::Device::wrap).
    ///
    /// # Errors
    /// The range is null or leaves the address space; [`Error::Unsupported`](crate::Error) where
    /// Metal refuses it.
    pub unsafe fn borrow(
        device: &ProtocolObject<dyn MTLDevice>,
        start: *mut u8,
        len: usize,
        keep: Option<Keep>,
    ) -> Result<MetalBuffer> {
        if start.is_null() {
            return Err(err!(InvalidArgument, "cannot wrap {len} bytes at a null address"));
        }
        let pages = Pages::around(start.addr(), len, page_size()).ok_or_else(|| {
            err!(
                InvalidArgument,
                "cannot wrap {len} bytes at {start:p}: the range leaves the address space"
            )
        })?;
        let first = NonNull::new(start.wrapping_sub(pages.before)).ok_or_else(|| {
            err!(InvalidArgument, "cannot wrap {len} bytes at {start:p}: its page is the first")
        })?;
        let keep = Mutex::new(keep);
        let deallocator = RcBlock::new(move |_: NonNull<c_void>, _: usize| {
            let kept = keep.lock().take();
            // An owner that panics must not unwind into Metal.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(kept)));
        });
        // SAFETY: the pages exist, as a part of each does; the caller keeps the range there until
        // the deallocator has run, and nobody else's bytes of the pages are touched.
        let raw: Option<Retained<ProtocolObject<dyn MTLBuffer>>> = unsafe {
            device.newBufferWithBytesNoCopy_length_options_deallocator(
                first.cast(),
                pages.len,
                MTLResourceOptions::StorageModeShared,
                Some(&deallocator),
            )
        };
        let raw = raw.ok_or_else(|| {
            // Whoever can do with a copy makes one.
            err!(
                Unsupported,
                "Metal cannot use {len} bytes at {start:p} without a copy; it takes at most {} \
                 bytes in whole pages",
                device.maxBufferLength()
            )
        })?;
        Ok(MetalBuffer {
            backing: Backing::Borrowed(Shared::new(raw)),
            base: pages.before,
            start: Address(start),
            len,
        })
    }

    /// What commands bind, and the byte of it that an offset into this buffer stands for.
    pub fn bind(&self, offset: usize) -> (&ProtocolObject<dyn MTLBuffer>, usize) {
        match &self.backing {
            Backing::Pool { block, .. } => (&block.raw, offset),
            Backing::Borrowed(raw) => (raw, self.base + offset),
            Backing::Empty(other) => match other.as_any().downcast_ref::<MetalBuffer>() {
                Some(other) => other.bind(0),
                None => unreachable!("made by this device"),
            },
        }
    }

    /// The Metal device's buffer behind `buffer`.
    ///
    /// # Errors
    /// Another device made it.
    pub fn of(buffer: &BufferRef) -> Result<&MetalBuffer> {
        buffer.as_any().downcast_ref().ok_or_else(|| {
            err!(InvalidArgument, "the buffer {buffer:?} was made by another device")
        })
    }
}

impl Drop for MetalBuffer {
    fn drop(&mut self) {
        if let Backing::Pool { block, pool } = &mut self.backing {
            // SAFETY: the block is taken once, here, and the buffer is gone afterwards.
            pool.release(unsafe { ManuallyDrop::take(block) });
        }
    }
}

impl Buffer for MetalBuffer {
    fn contents(&self) -> *mut u8 {
        self.start.0
    }
    fn len(&self) -> usize {
        self.len
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Whole pages around a range.
#[derive(Debug, PartialEq, Eq)]
struct Pages {
    /// Bytes from the first page's start to the range.
    before: usize,
    /// Bytes of all pages.
    len: usize,
}

impl Pages {
    /// The pages of `page` bytes around `start..start + len`; `None` if they leave the address
    /// space.
    fn around(start: usize, len: usize, page: usize) -> Option<Pages> {
        let before = start % page;
        let end = start.checked_add(len)?.checked_next_multiple_of(page)?;
        Some(Pages { before, len: end - (start - before) })
    }
}

/// Bytes of a page of Apple silicon.
const APPLE_PAGE: usize = 16 << 10;

/// Bytes of a page of this system. The stand-in has those of Apple silicon on any machine.
fn page_size() -> usize {
    if cfg!(metal_standin) {
        return APPLE_PAGE;
    }
    // SAFETY: asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(APPLE_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_wrapped() {
        let page = APPLE_PAGE;
        let pages = |start, len| Pages::around(start, len, page);
        assert_eq!(pages(page, page), Some(Pages { before: 0, len: page }));
        assert_eq!(pages(page + 1, 1), Some(Pages { before: 1, len: page }));
        assert_eq!(pages(2 * page - 1, 2), Some(Pages { before: page - 1, len: 2 * page }));
        assert_eq!(pages(usize::MAX - 5, 3), None);
        assert_eq!(pages(usize::MAX - 5, 9), None);
    }
}
