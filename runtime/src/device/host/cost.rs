//! What a kernel costs: measured, to decide which launches are worth a second thread.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use super::msl::LaunchMode;

/// Below this much work, waking sleeping workers costs more than they save.
const WORTH_WAKING: Duration = Duration::from_micros(80);

/// Below this much work, not even workers that are awake help.
const WORTH_SHARING: Duration = Duration::from_micros(4);

/// Work of one chunk, at least: claiming one costs some 50 ns.
const CHUNK: Duration = Duration::from_micros(2);

/// Chunks for each thread, so that a slow thread does not hold up the others.
const CHUNKS_PER_THREAD: u64 = 8;

/// Launches that are always measured, and then one in so many.
const FIRST: u32 = 4;
const ONE_IN: u32 = 64;

/// The running estimate of what one item (a thread of a plain kernel, a threadgroup of a
/// synchronising one) takes. Shared by all threads that launch the kernel; a lost update is
/// harmless.
#[derive(Debug)]
pub struct Cost {
    /// `f32::to_bits` of nanoseconds.
    item: AtomicU32,
    launches: AtomicU32,
}

/// How to run one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// On the calling thread; whether to measure it.
    Alone {
        /// The estimate wants a fresh measurement.
        measure: bool,
    },
    /// On the thread pool, in chunks of at least so many items.
    Shared {
        /// Items of a chunk.
        chunk: u64,
    },
}

impl Cost {
    /// The guess before the first measurement. A synchronising kernel runs on fibers, unless
    /// `loops` gives the threads that its threadgroups may have: then as loops over so many.
    pub fn guess(mode: LaunchMode, loops: Option<u32>) -> Cost {
        let nanoseconds: f32 = match (mode, loops) {
            (LaunchMode::Plain, _) => 1.0,
            (LaunchMode::Fibers, Some(threads)) => threads as f32,
            (LaunchMode::Fibers, None) => 10_000.0,
        };
        Cost { item: AtomicU32::new(nanoseconds.to_bits()), launches: AtomicU32::new(0) }
    }

    /// How to run `items` items on a pool of `threads` threads; `join_in` tells whether its workers
    /// share work that is not worth waking them for ([`Threads::join_in`]).
    ///
    /// [`Threads::join_in`]: super::threads::Threads::join_in
    pub fn plan(&self, items: u64, threads: usize, join_in: impl FnOnce(Duration) -> bool) -> Plan {
        if threads <= 1 {
            return Plan::Alone { measure: false };
        }
        let item = self.item();
        let work = Duration::from_nanos((item * items as f64) as u64);
        let worth = items > 1 && (work >= WORTH_WAKING || work >= WORTH_SHARING && join_in(work));
        if worth {
            let least = (CHUNK.as_nanos() as f64 / item) as u64;
            let chunk = items.div_ceil(threads as u64 * CHUNKS_PER_THREAD).max(least);
            if chunk < items {
                return Plan::Shared { chunk };
            }
        }
        let launches = self.launches.load(Relaxed);
        self.launches.store(launches.wrapping_add(1), Relaxed);
        let due = launches < FIRST || launches.is_multiple_of(ONE_IN);
        Plan::Alone { measure: due || work >= WORTH_SHARING }
    }

    /// Nanoseconds of one item.
    fn item(&self) -> f64 {
        f64::from(f32::from_bits(self.item.load(Relaxed)))
    }

    /// Takes into account that `items` items took `spent` of one thread's time.
    pub fn measured(&self, items: u64, spent: Duration) {
        let now = spent.as_nanos() as f64 / items.max(1) as f64;
        // The first measurement replaces the guess half; later ones drift in.
        let weight = if self.launches.load(Relaxed) <= FIRST { 0.5 } else { 0.25 };
        let item = self.item() * (1.0 - weight) + now * weight;
        self.item.store((item as f32).max(1e-3).to_bits(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(nanoseconds_per_item: u64) -> Cost {
        let cost = Cost::guess(LaunchMode::Plain, None);
        for _ in 0..50 {
            cost.measured(1000, Duration::from_nanos(1000 * nanoseconds_per_item));
        }
        cost
    }

    #[test]
    fn small_work_stays_on_its_thread_and_large_work_is_shared() {
        let cost = measured(10);
        assert_eq!(cost.plan(100, 1, |_| unreachable!()), Plan::Alone { measure: false });
        assert!(matches!(cost.plan(100, 2, |_| unreachable!()), Plan::Alone { .. }));
        assert!(matches!(cost.plan(1000, 2, |_| false), Plan::Alone { measure: true }));
        assert!(matches!(cost.plan(1000, 2, |_| true), Plan::Shared { .. }));
        assert!(matches!(cost.plan(1 << 20, 2, |_| unreachable!()), Plan::Shared { .. }));
        let one = measured(1_000_000);
        assert!(
            matches!(one.plan(1, 2, |_| true), Plan::Alone { .. }),
            "one item is not divisible"
        );
    }

    #[test]
    fn chunks_are_large_enough_to_pay_and_small_enough_to_balance() {
        assert_eq!(measured(10).plan(1000, 2, |_| true), Plan::Shared { chunk: 200 });
        let Plan::Shared { chunk } = measured(10).plan(1 << 20, 2, |_| true) else { panic!() };
        assert_eq!(chunk, (1 << 20) / 16);
        assert_eq!(measured(100_000).plan(5, 4, |_| true), Plan::Shared { chunk: 1 });
    }

    #[test]
    fn the_first_launch_of_loops_is_not_taken_for_one_of_fibers() {
        let (fibers, loops) =
            (Cost::guess(LaunchMode::Fibers, None), Cost::guess(LaunchMode::Fibers, Some(1024)));
        // Eight rows: worth a second thread on fibers, but not worth waking one as loops.
        assert!(matches!(fibers.plan(8, 2, |_| unreachable!()), Plan::Shared { chunk: 1 }));
        assert_eq!(loops.plan(8, 2, |_| false), Plan::Alone { measure: true });
        let Plan::Shared { chunk } = loops.plan(2048, 2, |_| unreachable!()) else { panic!() };
        assert_eq!(chunk, 128);
        let small = Cost::guess(LaunchMode::Fibers, Some(32));
        assert_eq!(small.plan(100, 2, |_| false), Plan::Alone { measure: true });
        assert_eq!(small.plan(1 << 12, 2, |_| unreachable!()), Plan::Shared { chunk: 256 });
    }

    #[test]
    fn a_wrong_guess_is_found_out() {
        let cost = Cost::guess(LaunchMode::Plain, None);
        // Looks tiny, but each thread loops for a long time.
        assert_eq!(cost.plan(16, 2, |_| false), Plan::Alone { measure: true });
        cost.measured(16, Duration::from_millis(16));
        assert!(matches!(cost.plan(16, 2, |_| false), Plan::Shared { .. }));
        // And one that became cheap is noticed now and then.
        let measures =
            (0..256).filter(|_| measured(1).plan(8, 2, |_| false) == Plan::Alone { measure: true });
        assert_eq!(measures.count(), 256, "new estimates are measured");
        let old = measured(1);
        let measures =
            (0..256).filter(|_| old.plan(8, 2, |_| false) == Plan::Alone { measure: true });
        assert_eq!(measures.count(), 4 + 3);
    }
}
