//! Fiber arenas: where synchronising kernels keep the stacks of their threads.

use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

use parking_lot::Mutex;

use super::board::Padded;
use super::memory;
use super::msl::ARENA_SIZE;
use super::threads::seat;
use crate::Result;
use crate::error::err;

/// Arenas kept for reuse, at most; one more than threads ever need is rare.
const MOST_IDLE: usize = 128;

/// Threads of a pool that find the arena that they used last, which is in their caches. With more
/// of them some share a place.
const SEATS: usize = 32;

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

/// The arenas that nobody uses at the moment. Beside one for each seat that ever ran a
/// synchronising kernel, there are as many as threads ever ran those at the same time.
#[derive(Debug, Default)]
pub struct Arenas {
    /// Start of an arena, or null, for each seat: for who sits there next, without a lock.
    seats: [Padded<AtomicPtr<u8>>; SEATS],
    idle: Mutex<Vec<Arena>>,
}

impl Arenas {
    /// Calls `work` with an arena that nobody else uses.
    ///
    /// # Errors
    /// There is no address space for another arena.
    pub fn with<T>(&self, work: impl FnOnce(&Arena) -> T) -> Result<T> {
        let place = &self.seats[seat() % SEATS].0;
        let arena = match take(place) {
            Some(arena) => arena,
            None => {
                let idle = self.idle.lock().pop();
                idle.map_or_else(Arena::new, Ok).or_else(|e| self.of_another_seat().ok_or(e))?
            }
        };
        let result = work(&arena);
        self.keep(place, arena);
        Ok(result)
    }

    /// An arena that waits for somebody who is not here.
    fn of_another_seat(&self) -> Option<Arena> {
        self.seats.iter().find_map(|place| take(&place.0))
    }

    fn keep(&self, place: &AtomicPtr<u8>, arena: Arena) {
        if place.compare_exchange(std::ptr::null_mut(), arena.start(), Release, Relaxed).is_ok() {
            std::mem::forget(arena);
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            idle.push(arena);
        }
    }

    /// Frees the arenas that nobody uses.
    pub fn trim(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
        self.seats.iter().for_each(|place| drop(take(&place.0)));
    }
}

/// Takes what [`Arenas::keep`] has left at a place.
fn take(place: &AtomicPtr<u8>) -> Option<Arena> {
    // A look costs nothing if it is somebody else's now.
    if place.load(Relaxed).is_null() {
        return None;
    }
    let start = NonNull::new(place.swap(std::ptr::null_mut(), Acquire))?;
    Some(Arena { start })
}

impl Drop for Arenas {
    fn drop(&mut self) {
        self.trim();
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
        // The one that was let go of first is the first to be used again.
        assert_eq!(arenas.idle.lock().len(), 1);
        assert!(!arenas.seats[0].0.load(Relaxed).is_null());
        arenas.trim();
        assert!(arenas.seats[0].0.load(Relaxed).is_null());
        assert_eq!(arenas.with(use_arena).unwrap(), 0);
        let kept = arenas.of_another_seat().expect("the one that was just used");
        assert!(arenas.of_another_seat().is_none());
        // Wherever it came from, it is kept for this thread from now on.
        arenas.keep(&arenas.seats[0].0, kept);
        assert_eq!(arenas.with(use_arena).unwrap(), 1);
    }

    #[test]
    fn no_arena_is_used_by_two_threads_at_once() {
        let arenas = Arenas::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let used = arenas.with(|arena| {
                            let word = arena.start().cast::<u32>();
                            // SAFETY: the first bytes of an arena in use by this call alone.
                            unsafe {
                                let before = word.read_volatile();
                                word.write_volatile(before + 1);
                                std::hint::spin_loop();
                                let alone = word.read_volatile() == before + 1;
                                word.write_volatile(before);
                                alone
                            }
                        });
                        assert!(used.unwrap());
                    }
                });
            }
        });
        assert!(arenas.idle.lock().len() <= 3);
    }
}
