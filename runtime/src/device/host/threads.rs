//! The thread pool: chunks of one job at a time, dealt out to threads and claimed by whoever is
//! free.
//!
//! A job is a range cut into chunks. The caller publishes it, works on it like everyone else, and
//! waits until every *chunk* is done - not until every worker has looked: a worker that wakes up
//! late finds nothing to claim and the caller has long gone on. Idle workers spin for a moment,
//! then sleep. A caller that finds the pool busy runs its job alone instead of waiting.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::board::{Board, Claim};
use crate::Result;
use crate::error::err;

/// How long an idle worker spins before it sleeps. Waking a sleeping worker costs its caller
/// 10 to 20 us, a spinning one less than 1 us.
const SPIN: Duration = Duration::from_micros(100);

/// Sleeping workers are woken once this much work has been done without them that they would have
/// shared had they been awake: then there is likely more to come.
const MISSED: Duration = Duration::from_micros(200);

/// More threads than this are of no use, and are taken for a typing error.
pub const MOST_THREADS: usize = 1024;

thread_local! {
    /// See [`seat`].
    static SEAT: Cell<usize> = const { Cell::new(0) };
}

/// The number of this thread in its pool: 0 for a caller, workers follow. What a thread keeps by
/// it is in its caches, as chunks are dealt out by it too.
pub fn seat() -> usize {
    SEAT.get()
}

/// A pool of worker threads. All methods may be called from any thread.
///
/// Workers are started when they are first needed, and joined when the pool is dropped. In a
/// child process after `fork` the pool starts workers of its own.
#[derive(Debug)]
pub struct Threads {
    /// Threads that work on a job, the caller among them.
    wanted: AtomicUsize,
    /// Nanoseconds of work done without the workers, see [`MISSED`].
    missed: AtomicU64,
    /// Held by the caller whose job runs.
    crew: Mutex<Option<Crew>>,
}

impl Threads {
    /// A pool of `threads` threads, the caller of each job among them; at least 1.
    pub fn new(threads: usize) -> Threads {
        Threads {
            wanted: AtomicUsize::new(threads.clamp(1, MOST_THREADS)),
            missed: AtomicU64::new(0),
            crew: Mutex::default(),
        }
    }

    /// Threads that work on a job, the caller among them.
    pub fn count(&self) -> usize {
        self.wanted.load(Relaxed)
    }

    /// Changes [`Threads::count`] from the next job on.
    pub fn set_count(&self, threads: usize) {
        self.wanted.store(threads.clamp(1, MOST_THREADS), Relaxed);
    }

    /// Whether to share a job of this much work, which is worth sharing but not worth waking
    /// anybody: workers are awake, so that it reaches them at once, or sleep while one such job
    /// follows the other.
    pub fn join_in(&self, work: Duration) -> bool {
        if self.is_warm() {
            return true;
        }
        let work = work.as_nanos() as u64;
        let missed = self.missed.fetch_add(work, Relaxed) + work;
        if missed < MISSED.as_nanos() as u64 {
            return false;
        }
        self.missed.store(0, Relaxed);
        true
    }

    /// Whether workers are awake, so that a job reaches them at once.
    pub fn is_warm(&self) -> bool {
        self.crew
            .try_lock()
            .is_some_and(|crew| crew.as_ref().is_some_and(|c| c.shared.awake.load(Relaxed) != 0))
    }

    /// Runs `work` on every chunk of `0..total`, chunks of `chunk` items (the last may be
    /// smaller), on all threads; returns when all are done. With one thread, one chunk, or while
    /// another job runs, `work` is called once with the whole range, on the calling thread.
    ///
    /// `work` must not rely on the order or the number of the ranges that it gets.
    ///
    /// # Errors
    /// [`Error::Internal`](crate::Error::Internal) if `work` panicked; the other chunks have run
    /// nevertheless, and the pool stays usable.
    pub fn run(&self, total: u64, chunk: u64, work: &(dyn Fn(Range<u64>) + Sync)) -> Result<()> {
        if total == 0 {
            return Ok(());
        }
        // The number of chunks is kept in 32 bits.
        let chunk = chunk.max(1).max(total.div_ceil(u64::from(u32::MAX)));
        let threads = self.count();
        if threads > 1
            && total > chunk
            && let Some(mut crew) = self.crew.try_lock()
        {
            let crew = Crew::of_size(&mut crew, threads - 1);
            return crew.shared.run_job(total, chunk, work);
        }
        catch_unwind(AssertUnwindSafe(|| work(0..total))).map_err(|panic| panicked(&*panic))
    }
}

/// The error that a caught panic becomes.
pub(super) fn panicked(panic: &(dyn Any + Send)) -> crate::Error {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    err!(Internal, "a panic on the host device: {text}")
}

/// The workers of a pool.
#[derive(Debug)]
struct Crew {
    /// The process that started them: after a fork they are not there.
    process: u32,
    shared: Arc<Shared>,
    workers: Vec<std::thread::JoinHandle<()>>,
}

impl Crew {
    /// The crew in `slot` with `size` workers, or a new one. Fewer if the system has no threads.
    fn of_size(slot: &mut Option<Crew>, size: usize) -> &mut Crew {
        let process = std::process::id();
        let fits = |crew: &Crew| crew.process == process && crew.shared.seats.len() == size;
        if slot.as_ref().is_some_and(|crew| !fits(crew)) {
            *slot = None;
        }
        slot.get_or_insert_with(|| Crew::start(process, size))
    }

    fn start(process: u32, size: usize) -> Crew {
        let shared = Arc::new(Shared::new(size));
        let workers = (0..size).map_while(|index| {
            let shared = shared.clone();
            let name = format!("etmetal-{index}");
            std::thread::Builder::new().name(name).spawn(move || shared.work_forever(index)).ok()
        });
        let workers: Vec<_> = workers.collect();
        shared.awake.fetch_sub(size - workers.len(), Relaxed);
        for (seat, worker) in shared.seats.iter().zip(&workers) {
            *seat.thread.lock() = Some(worker.thread().clone());
        }
        Crew { process, shared, workers }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Those threads exist in the parent only: there is nobody to wake or to join, nor to
            // detach, as a handle does that is dropped: the memory of their stacks may be gone.
            self.workers.drain(..).for_each(std::mem::forget);
            return;
        }
        self.shared.closed.store(true, Release);
        fence(SeqCst);
        for seat in &self.shared.seats {
            seat.wake();
        }
        for worker in self.workers.drain(..) {
            // Workers catch the panics of their work.
            let _ = worker.join();
        }
    }
}

/// What the workers and the caller share: one job at a time.
#[derive(Debug)]
struct Shared {
    board: Board,
    /// The first panic of the job.
    panic: Mutex<Option<crate::Error>>,
    seats: Vec<Seat>,
    /// Workers that are not asleep.
    awake: AtomicUsize,
    closed: AtomicBool,
}

/// Where one worker sleeps.
#[derive(Debug, Default)]
struct Seat {
    asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Seat {
    fn wake(&self) {
        if self.asleep.load(Relaxed)
            && self.asleep.swap(false, AcqRel)
            && let Some(thread) = &*self.thread.lock()
        {
            thread.unpark();
        }
    }
}

impl Shared {
    fn new(workers: usize) -> Shared {
        Shared {
            board: Board::new(workers + 1),
            panic: Mutex::default(),
            seats: (0..workers).map(|_| Seat::default()).collect(),
            awake: AtomicUsize::new(workers),
            closed: AtomicBool::new(false),
        }
    }

    /// Publishes a job, works on it, and waits for its chunks. Called by one thread at a time.
    fn run_job(&self, total: u64, chunk: u64, work: &(dyn Fn(Range<u64>) + Sync)) -> Result<()> {
        self.board.publish(std::ptr::from_ref(&work).cast_mut().cast(), total, chunk);
        self.wake_helpers(None);
        self.work(0);
        let mut spins = 0u32;
        while !self.board.is_done() {
            spins += 1;
            // The last chunks run elsewhere; on a crowded machine their threads need the core.
            if spins.is_multiple_of(256) {
                std::thread::yield_now()
            } else {
                std::hint::spin_loop()
            }
        }
        self.panic.lock().take().map_or(Ok(()), Err)
    }

    /// Wakes two of the workers that sleep: each woken worker wakes two more, so that waking many
    /// takes the time of waking a few.
    fn wake_helpers(&self, worker: Option<usize>) {
        // Between the job that this thread has published or seen, and the flags that it is about
        // to read; its counterpart is in `sleep`. So a worker that falls asleep now sees the job,
        // or is seen sleeping.
        fence(SeqCst);
        let first = worker.map_or(0, |w| 2 * w + 2);
        self.seats.iter().skip(first).take(2).for_each(Seat::wake);
    }

    /// Claims and runs chunks until none is left. The caller of a job is thread 0.
    fn work(&self, thread: usize) {
        self.board.work_through(thread, |Claim { work, range }| self.run_chunk(work, range));
    }

    fn run_chunk(&self, work: *mut (), range: Range<u64>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the caller of the job stays in `run_job`, and so keeps what `work` points
            // to, until this chunk is finished.
            let work = unsafe { *work.cast::<&(dyn Fn(Range<u64>) + Sync)>() };
            work(range);
        }));
        if let Err(panic) = outcome {
            self.panic.lock().get_or_insert_with(|| panicked(&*panic));
        }
    }

    fn work_forever(&self, index: usize) {
        SEAT.set(index + 1);
        while !self.closed.load(Acquire) {
            if self.board.has_work() {
                self.wake_helpers(Some(index));
                self.work(index + 1);
            }
            if !self.spin() {
                self.sleep(index);
            }
        }
    }

    /// Waits for work without sleeping; whether there is some.
    fn spin(&self) -> bool {
        let since = Instant::now();
        loop {
            for _ in 0..64 {
                if self.board.has_work() || self.closed.load(Acquire) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if since.elapsed() > SPIN {
                return false;
            }
        }
    }

    fn sleep(&self, index: usize) {
        let seat = &self.seats[index];
        seat.asleep.store(true, Relaxed);
        self.awake.fetch_sub(1, Relaxed);
        fence(SeqCst);
        // Parking returns at times for no reason.
        while seat.asleep.load(Acquire) && !self.board.has_work() && !self.closed.load(Acquire) {
            std::thread::park();
        }
        seat.asleep.store(false, Relaxed);
        self.awake.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, AtomicU64};

    /// Runs a job that counts how often each item is visited.
    fn visits(threads: &Threads, total: usize, chunk: u64) -> Vec<u32> {
        let counts: Vec<AtomicU32> = (0..total).map(|_| AtomicU32::new(0)).collect();
        let work = |range: Range<u64>| {
            for item in range {
                counts[item as usize].fetch_add(1, Relaxed);
            }
        };
        threads.run(total as u64, chunk, &work).unwrap();
        counts.into_iter().map(AtomicU32::into_inner).collect()
    }

    #[test]
    fn every_item_is_visited_once() {
        for count in [1, 2, 3, 8] {
            let threads = Threads::new(count);
            for (total, chunk) in [(0, 1), (1, 1), (7, 2), (1000, 1), (1000, 7), (10, 100), (5, 0)]
            {
                let visits = visits(&threads, total, chunk);
                assert!(visits.iter().all(|&n| n == 1), "{count} threads, {total} by {chunk}");
            }
        }
    }

    #[test]
    fn many_small_jobs_in_a_row_lose_nothing() {
        let threads = Threads::new(4);
        let sum = AtomicU64::new(0);
        for _ in 0..20_000 {
            let work = |range: Range<u64>| {
                sum.fetch_add(range.sum::<u64>(), Relaxed);
            };
            threads.run(10, 1, &work).unwrap();
        }
        assert_eq!(sum.into_inner(), 45 * 20_000);
    }

    #[test]
    fn sleeping_workers_wake_up() {
        let threads = Threads::new(3);
        for _ in 0..20 {
            assert!(visits(&threads, 100, 1).iter().all(|&n| n == 1));
            std::thread::sleep(SPIN * 3);
        }
        // All threads take part if the work waits for them.
        let barrier = Barrier::new(3);
        let names = Mutex::new(HashSet::new());
        let work = |_: Range<u64>| {
            barrier.wait();
            names.lock().insert(std::thread::current().id());
        };
        threads.run(3, 1, &work).unwrap();
        assert_eq!(names.into_inner().len(), 3);
    }

    #[test]
    fn small_jobs_in_a_row_are_worth_waking_workers_for() {
        let threads = Threads::new(2);
        let small = MISSED / 8;
        for _ in 0..3 {
            assert!((0..7).all(|_| !threads.join_in(small)), "one small job wakes nobody");
            assert!(threads.join_in(small), "the eighth in a row does");
        }
        assert!(threads.join_in(MISSED) && !threads.join_in(small));
    }

    #[test]
    fn callers_at_once_and_nested_jobs_run_too() {
        let threads = Threads::new(3);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert!(visits(&threads, 500, 10).iter().all(|&n| n == 1));
                    }
                });
            }
        });
        let work = |_: Range<u64>| assert!(visits(&threads, 50, 5).iter().all(|&n| n == 1));
        threads.run(8, 1, &work).unwrap();
    }

    #[test]
    fn a_panic_is_an_error_and_the_pool_goes_on() {
        let threads = Threads::new(2);
        let done = AtomicU32::new(0);
        let work = |range: Range<u64>| {
            assert!(range.start != 5, "chunk five is bad");
            done.fetch_add(1, Relaxed);
        };
        let error = threads.run(20, 1, &work).unwrap_err();
        assert!(matches!(error, crate::Error::Internal(_)));
        assert!(error.to_string().contains("chunk five is bad"), "{error}");
        assert_eq!(done.into_inner(), 19);
        let alone = threads.run(1, 1, &|_| panic!("alone")).unwrap_err();
        assert!(alone.to_string().contains("alone"), "{alone}");
        assert!(visits(&threads, 100, 1).iter().all(|&n| n == 1));
    }

    #[test]
    fn the_number_of_threads_can_change() {
        let threads = Threads::new(0);
        assert_eq!(threads.count(), 1);
        for count in [2, 5, 1, 3] {
            threads.set_count(count);
            assert!(visits(&threads, 100, 3).iter().all(|&n| n == 1));
        }
        threads.set_count(usize::MAX);
        assert_eq!(threads.count(), MOST_THREADS);
    }

    /// Has a forked child call `work`, which is to give true.
    fn in_forked_child(work: impl FnOnce() -> bool) {
        // SAFETY: the child only uses the pool and leaves with `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: ends the child should it hang.
                unsafe { libc::alarm(30) };
                let ok = work();
                // SAFETY: leaves without running the parent's exit handlers.
                unsafe { libc::_exit(i32::from(!ok)) }
            }
            child => {
                assert!(child > 0);
                let mut status = -1;
                // SAFETY: waits for the child that was just made.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert_eq!(status, 0, "the child failed or was killed");
            }
        }
    }

    #[test]
    fn a_forked_child_has_workers_of_its_own() {
        let threads = Threads::new(2);
        assert!(visits(&threads, 100, 1).iter().all(|&n| n == 1));
        in_forked_child(|| {
            let barrier = Barrier::new(2);
            let work = |_: Range<u64>| {
                barrier.wait();
            };
            threads.run(2, 1, &work).is_ok()
        });
    }

    #[test]
    fn a_forked_child_can_drop_the_workers_of_its_parent() {
        // So many that the C library frees the stacks of those that are not there.
        let mut threads = Threads::new(64);
        assert!(visits(&threads, 100, 1).iter().all(|&n| n == 1));
        in_forked_child(|| {
            drop(std::mem::replace(&mut threads, Threads::new(1)));
            true
        });
        assert!(visits(&threads, 100, 1).iter().all(|&n| n == 1));
    }
}
