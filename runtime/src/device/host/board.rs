//! The board where a job is published and its chunks are claimed, without locks.

use std::ops::Range;

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// One job at a time: a range of items in chunks, and a pointer that says what to do with them.
#[derive(Debug)]
pub struct Board {
    /// Generation of the job in the upper half, chunks not claimed in the lower. Jobs change
    /// only while the lower half is 0, so whoever brings it down by one with a compare-exchange
    /// has read the fields of the job that the chunk belongs to.
    head: Padded<AtomicU64>,
    /// Chunks not finished.
    left: Padded<AtomicU32>,
    work: AtomicPtr<()>,
    total: AtomicU64,
    chunk: AtomicU64,
}

/// A value alone on its cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

/// A chunk that its holder must run, and then [`Board::finish`].
#[derive(Debug)]
pub struct Claim {
    /// What was published with the job; valid until the job's last chunk is finished.
    pub work: *mut (),
    /// The items of the chunk.
    pub range: Range<u64>,
}

impl Default for Board {
    fn default() -> Self {
        Board {
            head: Padded(AtomicU64::new(0)),
            left: Padded(AtomicU32::new(0)),
            work: AtomicPtr::new(std::ptr::null_mut()),
            total: AtomicU64::new(0),
            chunk: AtomicU64::new(0),
        }
    }
}

impl Board {
    /// Publishes the items `0..total` in chunks of `chunk`. Only one thread at a time, and only
    /// when the job before is done.
    ///
    /// # Panics
    /// There are 2^32 chunks or more.
    pub fn publish(&self, work: *mut (), total: u64, chunk: u64) {
        debug_assert!(self.is_done() && !self.has_work());
        let chunks = u32::try_from(total.div_ceil(chunk)).expect("fewer than 2^32 chunks");
        self.work.store(work, Relaxed);
        self.total.store(total, Relaxed);
        self.chunk.store(chunk, Relaxed);
        self.left.0.store(chunks, Relaxed);
        let generation = (self.head.0.load(Relaxed) >> 32).wrapping_add(1);
        self.head.0.store(generation << 32 | u64::from(chunks), Release);
    }

    /// Claims the next chunk; `None` if none is left.
    pub fn claim(&self) -> Option<Claim> {
        let mut head = self.head.0.load(Acquire);
        while head as u32 != 0 {
            let work = self.work.load(Relaxed);
            let total = self.total.load(Relaxed);
            let chunk = self.chunk.load(Relaxed);
            match self.head.0.compare_exchange_weak(head, head - 1, AcqRel, Acquire) {
                Ok(_) => {
                    let index = total.div_ceil(chunk) - u64::from(head as u32);
                    let start = index * chunk;
                    return Some(Claim {
                        work,
                        range: start..total.min(start.saturating_add(chunk)),
                    });
                }
                Err(now) => head = now,
            }
        }
        None
    }

    /// Tells that a claimed chunk has been run.
    pub fn finish(&self) {
        self.left.0.fetch_sub(1, Release);
    }

    /// Whether all chunks of the job have been finished; what they wrote is visible then.
    pub fn is_done(&self) -> bool {
        self.left.0.load(Acquire) == 0
    }

    /// Whether there are chunks to claim.
    pub fn has_work(&self) -> bool {
        self.head.0.load(Acquire) as u32 != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_in_order_and_cover_the_items() {
        let board = Board::default();
        assert!(board.claim().is_none() && board.is_done());
        let mut work = 7;
        let work: *mut () = std::ptr::from_mut(&mut work).cast();
        for (total, chunk, ends) in [(5, 2, &[2, 4, 5][..]), (3, 3, &[3]), (2, 9, &[2])] {
            board.publish(work, total, chunk);
            let starts = std::iter::once(&0).chain(ends);
            for range in starts.zip(ends).map(|(&start, &end)| start..end) {
                assert!(board.has_work() && !board.is_done());
                let claim = board.claim().unwrap();
                assert_eq!((claim.work, claim.range), (work, range));
                board.finish();
            }
            assert!(board.claim().is_none() && board.is_done() && !board.has_work());
        }
    }
}

/// All interleavings of a caller and workers, found by loom:
/// `RUSTFLAGS="--cfg loom" cargo test -p etmetal --lib --release board::`.
#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// What a job points to: how often each item was run.
    struct Work(Vec<UnsafeCell<u32>>);

    /// What every thread does.
    fn work_all(board: &Board) {
        while let Some(Claim { work, range }) = board.claim() {
            // SAFETY: valid until the chunk is finished.
            let work = unsafe { &*work.cast::<Work>() };
            for item in range {
                // SAFETY: claimed by this thread alone, as loom checks.
                work.0[item as usize].with_mut(|count| unsafe { *count += 1 });
            }
            board.finish();
        }
    }

    /// What a caller does with a job.
    fn call(board: &Board, total: u64, chunk: u64) {
        let counts = (0..total).map(|_| UnsafeCell::new(0)).collect();
        let mut work = Work(counts);
        board.publish(std::ptr::from_mut(&mut work).cast(), total, chunk);
        work_all(board);
        while !board.is_done() {
            loom::thread::yield_now();
        }
        for count in &work.0 {
            // SAFETY: the job is done, so no other thread touches it, as loom checks.
            count.with(|count| assert_eq!(unsafe { *count }, 1));
        }
    }

    #[test]
    fn each_item_runs_once_for_the_job_it_belongs_to() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(4);
        model.check(|| {
            let board = Arc::new(Board::default());
            let worker = loom::thread::spawn({
                let board = board.clone();
                move || {
                    work_all(&board);
                    work_all(&board);
                }
            });
            call(&board, 2, 1);
            call(&board, 3, 2);
            worker.join().unwrap();
        });
    }
}
