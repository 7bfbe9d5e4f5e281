//! Fiber arenas: where synchronising kernels keep the stacks of their threads.

use std::ptr::NonNull;

use parking_lot::Mutex;

use super::memory;
use super::msl::ARENA_SIZE;
use crate::Result;
use crate::error::err;

/// Arenas kept for reuse, at most; one more than threads ever need is rare.
const MOST_IDLE: usize = 128;

/// One arena: [`ARENA_SIZE`] bytes, aligned to that, zeroed when it was made. Only the pages that
/// a kernel has touched are resident.
#[derive(Debug)]
pub struct Arena {
    start: NonNull<u8>,
}

// SAFETY: an arena owns its mapping.
unsafe impl Send for Arena {}

impl Arena {
    fn new() -> Result<Arena> {
        // Twice the size holds an aligned arena; the rest is given back.
        let range = memory::reserve(2 * ARENA_SIZE).ok_or_else(|| {
            err!(
                OutOfMemory,
                "cannot reserve {} bytes of address space for the threads of a kernel; is the \
                 process's address space limited (ulimit -v)?",
                2 * ARENA_SIZE
            )
        })?;
        let before = range.addr().get().next_multiple_of(ARENA_SIZE) - range.addr().get();
        // SAFETY: `before` is less than ARENA_SIZE, so all three parts lie in the mapping; the
        // outer two are whole pages that nobody has seen.
        unsafe {
            let start = range.add(before);
            if before != 0 {
                memory::unmap(range, before);
            }
            if before != ARENA_SIZE {
                memory::unmap(start.add(ARENA_SIZE), ARENA_SIZE - before);
            }
            Ok(Arena { start })
        }
    }

    /// Address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the arena's own pages.
        unsafe { memory::unmap(self.start, ARENA_SIZE) };
    }
}

/// The arenas that nobody uses at the moment. There are as many arenas as threads ever ran
/// synchronising kernels at the same time.
#[derive(Debug, Default)]
pub struct Arenas {
    idle: Mutex<Vec<Arena>>,
}

impl Arenas {
    /// Calls `work` with an arena that nobody else uses.
    ///
    /// # Errors
    /// There is no address space for another arena.
    pub fn with<T>(&self, work: impl FnOnce(&Arena) -> T) -> Result<T> {
        let idle = self.idle.lock().pop();
        let arena = idle.map_or_else(Arena::new, Ok)?;
        let result = work(&arena);
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(arena);
        }
        Ok(result)
    }

    /// Frees the arenas that nobody uses.
    pub fn trim(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arenas_are_aligned_zeroed_and_reused() {
        let arenas = Arenas::default();
        let use_arena = |arena: &Arena| {
            let start = arena.start();
            assert!(start.addr().is_multiple_of(ARENA_SIZE));
            // SAFETY: first and last byte of an arena in use by this call alone.
            unsafe {
                let first = *start;
                *start = first + 1;
                *start.add(ARENA_SIZE - 1) = 1;
                first
            }
        };
        assert_eq!(arenas.with(use_arena).unwrap(), 0);
        assert_eq!(arenas.with(use_arena).unwrap(), 1);
        let nested = arenas.with(|outer| {
            arenas.with(|inner| {
                assert_ne!(outer.start(), inner.start());
                use_arena(inner)
            })
        });
        assert_eq!(nested.unwrap().unwrap(), 0);
        assert_eq!(arenas.idle.lock().len(), 2);
        arenas.trim();
        assert_eq!(arenas.with(use_arena).unwrap(), 0);
    }
}
