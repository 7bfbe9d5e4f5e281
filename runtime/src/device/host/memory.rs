//! Memory from the system: the heap for small blocks, whole pages for large ones.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Alignment of every block: a cache line, and as much as any vector load wants.
pub const ALIGNMENT: usize = 64;

/// Blocks of at least this many bytes are mapped, so that freeing them gives their pages back.
const MAP_FROM: usize = 64 << 10;

/// Mappings of at least this many bytes ask for huge pages.
#[cfg(target_os = "linux")]
const HUGE_FROM: usize = 4 << 20;

/// One range of memory of its own, aligned to [`ALIGNMENT`]; freed when dropped.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    /// Bytes that may be used.
    capacity: usize,
    /// Bytes that the system gave: `capacity` and the tail.
    reserved: usize,
    mapped: bool,
}

// SAFETY: a block owns its memory as a `Vec` does; moving it between threads moves that.
unsafe impl Send for Block {}
// SAFETY: a shared block only tells its address and size.
unsafe impl Sync for Block {}

impl Block {
    /// A block of `capacity` bytes, contents unspecified; `None` if the system has no memory.
    ///
    /// Behind the block lies a tail of readable memory (a quarter of the block, at least 256
    /// bytes and at most 64 KiB): kernels that work on several rows at a time read past the last
    /// row, which a GPU forgives. Nothing that is read there counts.
    pub fn new(capacity: usize) -> Option<Block> {
        let tail = (capacity / 4).clamp(256, 64 << 10);
        let reserved = capacity.checked_add(tail)?;
        let mapped = capacity >= MAP_FROM;
        let start = if mapped { map(reserved)? } else { heap(reserved)? };
        Some(Block { start, capacity, reserved, mapped })
    }

    /// Address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes that may be used.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: `map` made exactly this range, and nobody uses it any more.
            unsafe { unmap(self.start, self.reserved) };
        } else if let Some(layout) = heap_layout(self.reserved) {
            // SAFETY: `heap` made this block with the same layout.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) };
        }
    }
}

fn heap_layout(len: usize) -> Option<Layout> {
    Layout::from_size_align(len, ALIGNMENT).ok()
}

fn heap(len: usize) -> Option<NonNull<u8>> {
    // SAFETY: `len` includes the tail and is therefore not 0.
    NonNull::new(unsafe { std::alloc::alloc(heap_layout(len)?) })
}

/// `len` bytes of zeroed, private, lazily committed pages; `None` if the system refuses.
fn map(len: usize) -> Option<NonNull<u8>> {
    let start = map_pages(len, 0)?;
    #[cfg(target_os = "linux")]
    if len >= HUGE_FROM {
        // SAFETY: advice about the mapping that was just made; a refusal changes nothing.
        unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
    }
    Some(start)
}

/// Address space for `len` bytes of zeroed pages that are committed one by one when touched and
/// not accounted for before; `None` if the system refuses.
pub fn reserve(len: usize) -> Option<NonNull<u8>> {
    map_pages(len, libc::MAP_NORESERVE)
}

fn map_pages(len: usize, flags: libc::c_int) -> Option<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON | flags;
    // SAFETY: a new anonymous mapping at an address of the system's choice touches nothing.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(start.cast())
}

/// Gives back what [`reserve`] made, or some of its pages.
///
/// # Safety
/// The range comes from this module, starts at a page, and is not used any more.
pub unsafe fn unmap(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise. `munmap` fails only for ranges that are no pages.
    let status = unsafe { libc::munmap(start.as_ptr().cast(), len) };
    debug_assert_eq!(status, 0, "munmap({start:p}, {len})");
}

/// Bytes of memory that this process may hope for: the machine's, or its control group's.
pub fn physical_memory() -> usize {
    // SAFETY: `sysconf` reads a number.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let machine = match (usize::try_from(pages), usize::try_from(page)) {
        (Ok(pages), Ok(page)) if pages > 0 => pages.saturating_mul(page),
        _ => 8 << 30,
    };
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(usize::MAX);
    machine.min(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: usize = 4 << 20;

    #[test]
    fn blocks_are_aligned_usable_and_readable_past_their_end() {
        for capacity in [0, 1, 256, MAP_FROM - 1, MAP_FROM, MAP_FROM + 1, HUGE + 3] {
            let block = Block::new(capacity).unwrap();
            assert!(block.start().addr().is_multiple_of(ALIGNMENT), "{capacity}");
            // SAFETY: the block's own bytes, and the first bytes of its tail.
            unsafe {
                block.start().write_bytes(0xa5, capacity);
                let tail = std::slice::from_raw_parts(block.start().add(capacity), 256);
                std::hint::black_box(tail.iter().map(|&b| u32::from(b)).sum::<u32>());
            }
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(Block::new(usize::MAX).is_none());
        assert!(Block::new(isize::MAX as usize).is_none());
        assert!(Block::new(1 << 60).is_none());
    }

    #[test]
    fn the_machine_has_memory() {
        assert!(physical_memory() > 64 << 20);
    }
}
