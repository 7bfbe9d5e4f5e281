//! The board where a job is published and its chunks are claimed, without locks.
//!
//! The chunks of a job are dealt out in as many runs of neighbours as there are threads. A thread
//! claims from its own part first and then from those of others, so that in one job after the
//! other the same items fall to the same thread, whose caches hold them, and a slow thread still
//! does not hold up the rest.

use std::ops::Range;

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// One job at a time: a range of items in chunks, and a pointer that says what to do with them.
#[derive(Debug)]
pub struct Board {
    /// For each part of the job: its generation in the upper half, chunks of the part that are
    /// not claimed in the lower. Jobs change only while all lower halves are 0, so whoever brings
    /// one down by one with a compare-exchange has read the fields of the job that the chunk
    /// belongs to.
    parts: Box<[Padded<AtomicU64>]>,
    /// Chunks not finished.
    left: Padded<AtomicU32>,
    work: AtomicPtr<()>,
    total: AtomicU64,
    chunk: AtomicU64,
}

/// A value alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

/// A chunk of a job.
#[derive(Debug)]
pub struct Claim {
    /// What was published with the job; valid until the job's last chunk is finished.
    pub work: *mut (),
    /// The items of the chunk.
    pub range: Range<u64>,
}

impl Board {
    /// A board without a job, for `threads` threads, at least 1.
    pub fn new(threads: usize) -> Board {
        Board {
            parts: (0..threads.max(1)).map(|_| Padded(AtomicU64::new(0))).collect(),
            left: Padded(AtomicU32::new(0)),
            work: AtomicPtr::new(std::ptr::null_mut()),
            total: AtomicU64::new(0),
            chunk: AtomicU64::new(0),
        }
    }

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
        for (part, head) in self.parts.iter().enumerate() {
            let range = self.part(part, chunks.into());
            let generation = (head.0.load(Relaxed) >> 32).wrapping_add(1);
            head.0.store(generation << 32 | (range.end - range.start), Release);
        }
    }

    /// The chunks of one part of a job of `chunks` chunks. The first part has one if any has.
    fn part(&self, part: usize, chunks: u64) -> Range<u64> {
        let parts = self.parts.len() as u64;
        let start = |part: u64| (chunks * part).div_ceil(parts);
        start(part as u64)..start(part as u64 + 1)
    }

    /// Has `run` called with chunks for the thread of this number, until none is left to claim.
    /// `run` must not panic: nobody else would run its chunk, and the job would never be done.
    pub fn work_through(&self, thread: usize, mut run: impl FnMut(Claim)) {
        let mut finished = 0;
        while let Some(claim) = self.claim(thread) {
            run(claim);
            finished += 1;
        }
        // Told once, as others are looking at it. Until then the job cannot become another.
        if finished != 0 {
            self.left.0.fetch_sub(finished, Release);
        }
    }

    /// Claims a chunk: the next one of the thread's own part, or one of another's.
    fn claim(&self, thread: usize) -> Option<Claim> {
        let parts = self.parts.len();
        (thread..parts).chain(0..thread).find_map(|part| self.claim_of(part))
    }

    fn claim_of(&self, part: usize) -> Option<Claim> {
        let place = &self.parts[part].0;
        let mut head = place.load(Acquire);
        while head as u32 != 0 {
            let work = self.work.load(Relaxed);
            let total = self.total.load(Relaxed);
            let chunk = self.chunk.load(Relaxed);
            match place.compare_exchange_weak(head, head - 1, AcqRel, Acquire) {
                Ok(_) => {
                    let end = self.part(part, total.div_ceil(chunk)).end;
                    let start = (end - u64::from(head as u32)) * chunk;
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

    /// Whether all chunks of the job have been finished; what they wrote is visible then.
    pub fn is_done(&self) -> bool {
        self.left.0.load(Acquire) == 0
    }

    /// Whether there are chunks to claim.
    pub fn has_work(&self) -> bool {
        // The one word that stays as it is while nothing happens, for those who look at it often.
        self.left.0.load(Acquire) != 0
            && self.parts.iter().any(|head| head.0.load(Acquire) as u32 != 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The ranges that a thread gets which works alone, in their order.
    fn ranges(board: &Board, thread: usize, total: u64, chunk: u64) -> Vec<Range<u64>> {
        let mut work = 7;
        let work: *mut () = std::ptr::from_mut(&mut work).cast();
        board.publish(work, total, chunk);
        let mut ranges = Vec::new();
        board.work_through(thread, |claim| {
            assert!(!board.is_done());
            assert_eq!(claim.work, work);
            ranges.push(claim.range);
        });
        assert!(board.is_done() && !board.has_work());
        board.work_through(thread, |claim| panic!("{claim:?} of nothing"));
        ranges
    }

    #[test]
    fn chunks_come_in_order_and_cover_the_items() {
        let board = Board::new(1);
        assert!(board.is_done() && !board.has_work());
        for (total, chunk, ends) in [(5, 2, &[2, 4, 5][..]), (3, 3, &[3]), (2, 9, &[2])] {
            let starts = std::iter::once(&0).chain(ends);
            let expected: Vec<_> = starts.zip(ends).map(|(&start, &end)| start..end).collect();
            assert_eq!(ranges(&board, 0, total, chunk), expected);
        }
    }

    #[test]
    fn a_thread_takes_its_own_part_first_and_then_those_of_others() {
        let board = Board::new(3);
        let starts = |thread| ranges(&board, thread, 15, 2).into_iter().map(|range| range.start);
        // Eight chunks: three, three and two.
        assert!(starts(0).eq([0, 2, 4, 6, 8, 10, 12, 14]));
        assert!(starts(1).eq([6, 8, 10, 12, 14, 0, 2, 4]));
        assert!(starts(2).eq([12, 14, 0, 2, 4, 6, 8, 10]));
    }

    #[test]
    fn parts_cover_the_chunks_and_differ_by_one_at_most() {
        for threads in [1, 2, 3, 7, 1024] {
            let board = Board::new(threads);
            for chunks in [1, 2, 3, 8, 1000, u64::from(u32::MAX)] {
                let parts: Vec<_> = (0..threads).map(|part| board.part(part, chunks)).collect();
                assert_eq!((parts[0].start, parts[threads - 1].end), (0, chunks));
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                let sizes = parts.iter().map(|part| part.end - part.start);
                let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
                assert!(most - least <= 1 && parts[0].end > 0, "{chunks} among {threads}");
            }
        }
    }
}

/// All interleavings of a caller and a worker, found by loom:
/// `RUSTFLAGS="--cfg loom" cargo test -p etmetal --lib --release board::`.
#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// What a job points to: how often each item was run.
    struct Work(Vec<UnsafeCell<u32>>);

    /// What every thread does.
    fn work_all(board: &Board, thread: usize) {
        board.work_through(thread, |Claim { work, range }| {
            // SAFETY: valid until the chunk is finished.
            let work = unsafe { &*work.cast::<Work>() };
            for item in range {
                // SAFETY: claimed by this thread alone, as loom checks.
                work.0[item as usize].with_mut(|count| unsafe { *count += 1 });
            }
        });
    }

    /// What a caller does with a job.
    fn call(board: &Board, total: u64, chunk: u64) {
        let counts = (0..total).map(|_| UnsafeCell::new(0)).collect();
        let mut work = Work(counts);
        board.publish(std::ptr::from_mut(&mut work).cast(), total, chunk);
        work_all(board, 0);
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
            let board = Arc::new(Board::new(2));
            let worker = loom::thread::spawn({
                let board = board.clone();
                move || {
                    work_all(&board, 1);
                    work_all(&board, 1);
                }
            });
            call(&board, 2, 1);
            call(&board, 3, 2);
            worker.join().unwrap();
        });
    }
}
