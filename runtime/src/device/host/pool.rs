//! The pool: blocks that nobody uses are kept for the next request, up to a bound.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::memory::{self, physical_memory};
use crate::Result;
use crate::device::PoolStats;
use crate::error::err;

/// A block of at most this many times the size asked for serves a request. More would let small
/// requests hold large blocks.
const SLACK: f64 = 1.5;

/// The smallest capacity: what a tensor of a few elements takes.
const SMALLEST: usize = 256;

/// What a pool keeps: memory that is freed when it is dropped.
pub trait Pooled {
    /// Bytes that may be used.
    fn capacity(&self) -> usize;
}

impl Pooled for memory::Block {
    fn capacity(&self) -> usize {
        memory::Block::capacity(self)
    }
}

/// Keeps blocks for reuse: best fit within a slack, least recently used out, bounded.
///
/// Capacities come in eight steps per power of two, so that requests of similar sizes share
/// blocks. Thread-safe.
#[derive(Debug)]
pub struct Pool<Block = memory::Block> {
    /// Bytes that may be kept for reuse.
    bound: usize,
    /// Bytes that one request may ask for.
    largest: usize,
    state: Mutex<State<Block>>,
}

#[derive(Debug)]
struct State<Block> {
    /// Blocks kept for reuse, by capacity; the one used last is at the back.
    idle: BTreeMap<usize, VecDeque<Idle<Block>>>,
    /// Counts releases: the clock of "least recently".
    clock: u64,
    stats: PoolStats,
}

#[derive(Debug)]
struct Idle<Block> {
    block: Block,
    released: u64,
}

impl Pool {
    /// An empty pool of the system's memory that keeps at most `bound` bytes for reuse.
    pub fn new(bound: usize) -> Pool {
        Pool::with_largest(bound, physical_memory())
    }

    /// The bound where the user gives none: a quarter of the memory, at most 4 GiB.
    pub fn default_bound() -> usize {
        (physical_memory() / 4).min(4 << 30)
    }

    /// A block of at least `len` bytes, from the pool or from the system.
    ///
    /// # Errors
    /// Out of memory, with the bytes asked for and in use. What the pool kept is freed first.
    pub fn acquire(&self, len: usize) -> Result<memory::Block> {
        self.acquire_with(len, memory::Block::new)
    }
}

impl<Block: Pooled> Pool<Block> {
    /// An empty pool that keeps at most `bound` bytes for reuse; one request may ask for
    /// `largest` bytes.
    pub fn with_largest(bound: usize, largest: usize) -> Self {
        let state = State { idle: BTreeMap::new(), clock: 0, stats: PoolStats::default() };
        Pool { bound, largest, state: Mutex::new(state) }
    }

    /// Bytes that one request may ask for.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// A block of at least `len` bytes, from the pool or made by `make`, which is told the
    /// capacity.
    ///
    /// # Errors
    /// Out of memory, with the bytes asked for and in use. What the pool kept is freed first.
    pub fn acquire_with(&self, len: usize, make: impl Fn(usize) -> Option<Block>) -> Result<Block> {
        let Some(capacity) = capacity_for(len).filter(|&c| c <= self.largest.max(SMALLEST)) else {
            return Err(self.out_of_memory(len));
        };
        if let Some(block) = self.state.lock().reuse(capacity) {
            return Ok(block);
        }
        let block = make(capacity).or_else(|| {
            self.trim();
            make(capacity)
        });
        let block = block.ok_or_else(|| self.out_of_memory(len))?;
        let mut state = self.state.lock();
        state.stats.misses += 1;
        state.stats.take(capacity);
        Ok(block)
    }

    /// Takes back a block that [`Pool::acquire`] gave and that nobody uses any more.
    pub fn release(&self, block: Block) {
        let mut evicted = SmallVec::<[Block; 4]>::new();
        {
            let mut state = self.state.lock();
            state.stats.in_use -= block.capacity();
            state.keep(block);
            while state.stats.cached > self.bound {
                evicted.extend(state.evict());
            }
        }
        // Freed here, after the lock: giving pages back takes a while.
        drop(evicted);
    }

    /// Frees all blocks kept for reuse.
    pub fn trim(&self) {
        let idle = {
            let mut state = self.state.lock();
            state.stats.cached = 0;
            std::mem::take(&mut state.idle)
        };
        drop(idle);
    }

    /// The counters; bytes are those of capacities.
    pub fn stats(&self) -> PoolStats {
        self.state.lock().stats
    }

    fn out_of_memory(&self, len: usize) -> crate::Error {
        let PoolStats { in_use, cached, .. } = self.stats();
        err!(
            OutOfMemory,
            "cannot allocate a buffer of {len} bytes: {in_use} bytes are in use and {cached} kept \
             for reuse, the machine has {} bytes of memory",
            self.largest
        )
    }
}

impl<Block: Pooled> State<Block> {
    /// The smallest kept block of `capacity` bytes or, within the slack, more.
    fn reuse(&mut self, capacity: usize) -> Option<Block> {
        let most = (capacity as f64 * SLACK) as usize;
        let (_, queue) = self.idle.range_mut(capacity..=most).find(|(_, q)| !q.is_empty())?;
        let Idle { block, .. } = queue.pop_back()?;
        self.stats.hits += 1;
        self.stats.cached -= block.capacity();
        self.stats.take(block.capacity());
        Some(block)
    }

    fn keep(&mut self, block: Block) {
        self.clock += 1;
        self.stats.cached += block.capacity();
        let queue = self.idle.entry(block.capacity()).or_default();
        queue.push_back(Idle { block, released: self.clock });
    }

    /// The block whose release lies furthest back. There are at most a few hundred capacities.
    fn evict(&mut self) -> Option<Block> {
        let oldest = |queue: &VecDeque<Idle<Block>>| queue.front().map_or(u64::MAX, |i| i.released);
        let queue = self.idle.values_mut().min_by_key(|q| oldest(q))?;
        let Idle { block, .. } = queue.pop_front()?;
        self.stats.cached -= block.capacity();
        self.stats.evictions += 1;
        Some(block)
    }
}

impl PoolStats {
    fn take(&mut self, capacity: usize) {
        self.in_use += capacity;
        self.peak = self.peak.max(self.in_use);
    }
}

/// `len` rounded up to the next eighth of a power of two; `None` if that has no number.
fn capacity_for(len: usize) -> Option<usize> {
    let len = len.max(SMALLEST);
    let step = (1usize << (usize::BITS - 1 - (len - 1).leading_zeros())) / 8;
    len.checked_next_multiple_of(step.max(32))
}

#[cfg(test)]
mod tests {
    use super::super::memory::Block;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn capacities_hold_the_request_with_little_waste() {
        for len in (0..100_000).chain([1 << 40, (1 << 40) + 1]) {
            let capacity = capacity_for(len).unwrap();
            assert!(capacity >= len && capacity >= SMALLEST);
            assert!(len < SMALLEST || capacity <= len + len / 8 + 32, "{len} -> {capacity}");
            assert_eq!(capacity_for(capacity), Some(capacity), "{len}");
        }
        assert_eq!(capacity_for(usize::MAX), None);
    }

    #[test]
    fn the_best_fit_within_the_slack_is_reused() {
        let pool = Pool::new(1 << 30);
        let blocks = [1024, 2048, 1280, 1 << 20].map(|len| pool.acquire(len).unwrap());
        let addresses = blocks.each_ref().map(|b| b.start());
        blocks.into_iter().for_each(|b| pool.release(b));
        let fit = pool.acquire(1200).unwrap();
        assert_eq!(fit.start(), addresses[2], "1280 fits 1200 better than 2048 does");
        let small = pool.acquire(300).unwrap();
        assert!(!addresses.contains(&small.start()), "1024 bytes are too many for 300");
        let PoolStats { hits, misses, .. } = pool.stats();
        assert_eq!((hits, misses), (1, 5));
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let pool = Pool::new(3 * 4096);
        let blocks = [4096, 2048, 4096, 4096].map(|len| pool.acquire(len).unwrap());
        let addresses = blocks.each_ref().map(|b| b.start());
        blocks.into_iter().for_each(|b| pool.release(b));
        let stats = pool.stats();
        assert_eq!((stats.evictions, stats.cached, stats.in_use), (1, 4096 + 4096 + 2048, 0));
        let again = [pool.acquire(4096).unwrap(), pool.acquire(4096).unwrap()];
        assert_eq!(again[0].start(), addresses[3], "the warmest is reused first");
        assert_eq!(again[1].start(), addresses[2]);
        assert_eq!(pool.acquire(2048).unwrap().start(), addresses[1]);
        assert_eq!(pool.stats().peak, 4096 * 3 + 2048);
    }

    #[test]
    fn what_exceeds_the_bound_alone_is_not_kept() {
        let pool = Pool::new(1000);
        pool.release(pool.acquire(1 << 20).unwrap());
        assert_eq!((pool.stats().cached, pool.stats().evictions), (0, 1));
    }

    #[test]
    fn impossible_sizes_are_an_error_with_numbers() {
        let pool = Pool::new(1 << 20);
        let _held = pool.acquire(1024).unwrap();
        for len in [usize::MAX, isize::MAX as usize, 1 << 50] {
            let error = pool.acquire(len).unwrap_err();
            assert!(matches!(error, crate::Error::OutOfMemory(_)));
            let text = error.to_string();
            assert!(text.contains(&len.to_string()) && text.contains("1024 bytes"), "{text}");
        }
        assert_eq!(pool.stats().in_use, 1024);
    }

    #[test]
    fn trimming_frees_what_is_idle_only() {
        let pool = Pool::new(1 << 20);
        let held = pool.acquire(5000).unwrap();
        pool.release(pool.acquire(6000).unwrap());
        pool.trim();
        assert_eq!((pool.stats().cached, pool.stats().in_use), (0, held.capacity()));
        pool.release(held);
        assert_eq!(pool.stats().in_use, 0);
    }

    /// One step of the random test: acquire so many bytes, or release one of those held.
    #[derive(Debug, Clone)]
    enum Step {
        Acquire(usize),
        Release(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0usize..20_000).prop_map(Step::Acquire),
            (0usize..64).prop_map(Step::Release),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        /// Against a model: no block is given twice, the best kept block is taken whenever one
        /// lies within the slack, the bound holds, and the counters add up.
        #[test]
        fn any_sequence_keeps_the_books(steps in steps(), bound in 0usize..60_000) {
            let pool = Pool::new(bound);
            let mut held: Vec<Block> = Vec::new();
            // Capacities kept, oldest first.
            let mut kept: Vec<usize> = Vec::new();
            let mut evictions = 0;
            for step in steps {
                match step {
                    Step::Acquire(len) => {
                        let least = capacity_for(len).unwrap();
                        let most = (least as f64 * SLACK) as usize;
                        let best =
                            kept.iter().copied().filter(|c| (least..=most).contains(c)).min();
                        let hits = pool.stats().hits;
                        let block = pool.acquire(len).unwrap();
                        prop_assert_eq!(block.capacity(), best.unwrap_or(least));
                        prop_assert_eq!(pool.stats().hits - hits, u64::from(best.is_some()));
                        if let Some(at) = best.and_then(|b| kept.iter().rposition(|&c| c == b)) {
                            kept.remove(at);
                        }
                        prop_assert!(held.iter().all(|b| b.start() != block.start()));
                        held.push(block);
                    }
                    Step::Release(at) if !held.is_empty() => {
                        let block = held.swap_remove(at % held.len());
                        kept.push(block.capacity());
                        pool.release(block);
                        while kept.iter().sum::<usize>() > bound {
                            kept.remove(0);
                            evictions += 1;
                        }
                    }
                    Step::Release(_) => {}
                }
                let stats = pool.stats();
                prop_assert_eq!(stats.cached, kept.iter().sum::<usize>());
                prop_assert_eq!(stats.in_use, held.iter().map(Block::capacity).sum::<usize>());
                prop_assert_eq!(stats.evictions, evictions);
                prop_assert!(stats.peak >= stats.in_use);
            }
        }
    }
}
