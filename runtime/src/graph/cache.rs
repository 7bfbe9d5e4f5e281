//! The bounded cache of executables.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;

use super::GraphKey;
use crate::device::{Device, Executable, PerDevice};
use crate::error::err;
use crate::profile::{self, Category};
use crate::{Error, Result};

/// Executables kept for each device unless [`CAPACITY_VARIABLE`] says otherwise.
pub const DEFAULT_CAPACITY: usize = 256;

/// Environment variable for the number of executables kept for each device.
pub const CAPACITY_VARIABLE: &str = "ETMETAL_GRAPH_CACHE";

/// Counters of a [`GraphCache`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Executables kept now.
    pub entries: usize,
    /// Executables kept at most.
    pub capacity: usize,
    /// Look-ups that found theirs.
    pub hits: u64,
    /// Look-ups that had to build it.
    pub misses: u64,
    /// Executables dropped, least recently used first, to stay within the capacity.
    pub evictions: u64,
}

/// The executables of one device, least recently used out. Thread-safe.
#[derive(Debug)]
pub struct GraphCache {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    executables: LruCache<GraphKey, Arc<dyn Executable>>,
    stats: CacheStats,
}

/// The cache of each device that lives.
static CACHES: PerDevice<GraphCache> = PerDevice::new();

impl GraphCache {
    /// The cache of `device`, made on first use with the capacity of the environment.
    ///
    /// # Errors
    /// `ETMETAL_GRAPH_CACHE` is set and is no positive number.
    pub fn of(device: &Arc<dyn Device>) -> Result<Arc<Self>> {
        CACHES.of(device, || Ok(GraphCache::with_capacity(capacity_of_environment()?)))
    }

    /// An empty cache of at most `capacity` executables (at least 1).
    pub fn with_capacity(capacity: usize) -> Self {
        let bound = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        GraphCache {
            state: Mutex::new(State {
                executables: LruCache::new(bound),
                stats: CacheStats { capacity: bound.get(), ..CacheStats::default() },
            }),
        }
    }

    /// The executable of `key`, lowered by `device` if it is not kept.
    ///
    /// # Errors
    /// As for [`Device::lower`]; failures are not kept.
    pub fn get(&self, device: &dyn Device, key: &GraphKey) -> Result<Arc<dyn Executable>> {
        {
            let mut state = self.state.lock();
            if let Some(executable) = state.executables.get(key).cloned() {
                state.stats.hits += 1;
                return Ok(executable);
            }
            state.stats.misses += 1;
        }
        // Built without the lock: other graphs must not wait for this one.
        let lowering = profile::span_named(Category::Compile, || format!("lower {}", key.op));
        let built = device.lower(key)?;
        drop(lowering);
        let mut state = self.state.lock();
        // Another thread may have built it meanwhile; one of both is kept.
        if let Some(executable) = state.executables.get(key).cloned() {
            return Ok(executable);
        }
        let evicted = state.executables.push(key.clone(), built.clone());
        state.stats.evictions += u64::from(evicted.is_some());
        Ok(built)
    }

    /// Counters.
    pub fn stats(&self) -> CacheStats {
        let state = self.state.lock();
        CacheStats { entries: state.executables.len(), ..state.stats }
    }
}

/// Bound of new caches: `ETMETAL_GRAPH_CACHE`, else [`DEFAULT_CAPACITY`].
///
/// # Errors
/// The variable is set and is no positive number.
pub fn capacity_of_environment() -> Result<usize> {
    match std::env::var(CAPACITY_VARIABLE) {
        Err(_) => Ok(DEFAULT_CAPACITY),
        Ok(text) => parse_capacity(&text),
    }
}

fn parse_capacity(text: &str) -> Result<usize, Error> {
    text.trim().parse().ok().filter(|&n| n > 0).ok_or_else(|| {
        err!(InvalidArgument, "{CAPACITY_VARIABLE}={text:?} is no positive number of executables")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::HostDevice;
    use crate::graph::GraphOp;
    use crate::ops::testing::contiguous;
    use crate::tensor::DType;

    fn key(n: i64) -> GraphKey {
        let t = |sizes: &[i64]| contiguous(DType::F32, sizes, &[]);
        GraphKey::new(GraphOp::Mm, &[&t(&[1, n]), &t(&[1, 2]), &t(&[2, n])])
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let (device, cache) = (HostDevice::shared(), GraphCache::with_capacity(2));
        let get = |n| cache.get(&*device, &key(n)).unwrap();
        let one = get(1);
        get(2);
        assert!(Arc::ptr_eq(&one, &get(1)), "the same executable comes back");
        get(3);
        assert!(Arc::ptr_eq(&one, &get(1)), "2 was used longer ago");
        get(2);
        let stats = cache.stats();
        assert_eq!(stats, CacheStats { entries: 2, capacity: 2, hits: 2, misses: 4, evictions: 2 });
    }

    #[test]
    fn keys_tell_apart_what_changes_the_graph() {
        let a = contiguous(DType::F32, &[2, 2], &[]);
        let swapped = crate::tensor::Layout::new(&[2, 2], &[1, 2]).unwrap();
        let t = a.view(0, DType::F32, swapped).unwrap();
        let addmm = |beta: f64| GraphOp::Addmm { beta: beta.to_bits(), alpha: 1f64.to_bits() };
        let key = |op, b| GraphKey::new(op, &[&a, &a, &a, b]);
        assert_ne!(key(addmm(1.0), &a), key(addmm(2.0), &a));
        assert_ne!(key(addmm(1.0), &a), key(addmm(1.0), &t));
        assert_eq!(key(addmm(1.0), &t), key(addmm(1.0), &t));
    }

    #[test]
    fn threads_share_a_devices_cache() {
        let device: Arc<dyn Device> = Arc::new(HostDevice::new(Default::default()));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let cache = GraphCache::of(&device).unwrap();
                    for n in 1..50 {
                        cache.get(&*device, &key(n)).unwrap();
                    }
                });
            }
        });
        let stats = GraphCache::of(&device).unwrap().stats();
        assert_eq!((stats.entries, stats.hits + stats.misses), (49, 4 * 49));
        let other: Arc<dyn Device> = Arc::new(HostDevice::new(Default::default()));
        assert_eq!(GraphCache::of(&other).unwrap().stats().entries, 0);
    }

    #[test]
    fn failures_are_not_kept() {
        let (device, cache) = (HostDevice::shared(), GraphCache::with_capacity(2));
        let t = contiguous(DType::Bool, &[1, 1], &[]);
        let bad = GraphKey::new(GraphOp::Mm, &[&t, &t, &t]);
        assert!(cache.get(&*device, &bad).unwrap_err().to_string().contains("bool"));
        assert_eq!(cache.stats().entries, 0);
    }

    #[test]
    fn the_capacity_is_a_positive_number() {
        assert_eq!(parse_capacity("8").unwrap(), 8);
        assert!(parse_capacity("0").unwrap_err().to_string().contains(CAPACITY_VARIABLE));
        assert!(parse_capacity("lots").is_err());
    }
}
