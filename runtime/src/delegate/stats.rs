//! Statistics, as JSON for people and tools.
//!
//! Off unless `ETMETAL_STATS=1` or [`etmetal_stats_enable`]; then each load and run adds a few
//! numbers under one lock. Off, a run looks at one flag.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::container::WeightStats;
use crate::device::Device;
use crate::graph::GraphCache;

/// Environment variable that turns statistics on, when it is `1`, else off. Where it is not set,
/// they are on with the feature `stats`.
pub const STATS_VARIABLE: &str = "ETMETAL_STATS";

/// How often something was done, and how long it took.
#[derive(Debug, Clone, Copy, Default)]
struct Timing {
    count: u64,
    failures: u64,
    total: Duration,
    slowest: Duration,
}

impl Timing {
    fn add(&mut self, took: Duration, succeeded: bool) {
        self.count += 1;
        self.failures += u64::from(!succeeded);
        self.total += took;
        self.slowest = self.slowest.max(took);
    }

    fn json(&self) -> Value {
        json!({
            "count": self.count,
            "failures": self.failures,
            "total_us": self.total.as_micros() as u64,
            "slowest_us": self.slowest.as_micros() as u64,
        })
    }
}

/// What is known of one method.
#[derive(Debug, Clone, Default)]
struct Method {
    init: Timing,
    execute: Timing,
    weights: WeightStats,
    shaders: usize,
    transfer: Transfer,
}

/// Bytes that runs moved between ExecuTorch's tensors and the model's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes of inputs used where they lie.
    pub inputs_wrapped: usize,
    /// Bytes of inputs copied.
    pub inputs_copied: usize,
    /// Bytes of outputs copied.
    pub outputs_copied: usize,
}

/// Counts for every method, by name.
#[derive(Debug, Default)]
struct Counts {
    methods: BTreeMap<String, Method>,
    devices: Vec<Arc<dyn Device>>,
}

static COUNTS: Mutex<Counts> = Mutex::new(Counts { methods: BTreeMap::new(), devices: Vec::new() });

fn switch() -> &'static AtomicBool {
    static SWITCH: OnceLock<AtomicBool> = OnceLock::new();
    SWITCH.get_or_init(|| {
        let asked = std::env::var(STATS_VARIABLE);
        AtomicBool::new(asked.map_or(cfg!(feature = "stats"), |value| value == "1"))
    })
}

/// Whether statistics are on.
pub fn enabled() -> bool {
    switch().load(Ordering::Relaxed)
}

/// Turns statistics on or off. What was counted stays.
pub fn enable(on: bool) {
    switch().store(on, Ordering::Relaxed);
}

/// Measures one piece of work; made only while statistics are on.
#[derive(Debug)]
pub(super) struct Timer(Option<Instant>);

impl Timer {
    pub(super) fn start() -> Self {
        Timer(enabled().then(Instant::now))
    }

    fn elapsed(&self) -> Option<Duration> {
        self.0.map(|start| start.elapsed())
    }
}

/// Counts a load, `loaded` if it succeeded.
pub(super) fn count_init(
    method: &str,
    timer: &Timer,
    loaded: Option<&crate::container::Container>,
) {
    let Some(took) = timer.elapsed() else { return };
    let mut counts = COUNTS.lock();
    let entry = counts.methods.entry(method.to_owned()).or_default();
    entry.init.add(took, loaded.is_some());
    let Some(container) = loaded else { return };
    entry.weights = container.weights();
    entry.shaders = container.shaders();
    let device = container.device();
    if !counts.devices.iter().any(|known| Arc::ptr_eq(known, device)) {
        counts.devices.push(device.clone());
    }
}

/// Counts a run, with what it moved if it succeeded.
pub(super) fn count_execute(method: &str, timer: &Timer, moved: Option<Transfer>) {
    let Some(took) = timer.elapsed() else { return };
    let mut counts = COUNTS.lock();
    let entry = counts.methods.entry(method.to_owned()).or_default();
    entry.execute.add(took, moved.is_some());
    let moved = moved.unwrap_or_default();
    entry.transfer.inputs_wrapped += moved.inputs_wrapped;
    entry.transfer.inputs_copied += moved.inputs_copied;
    entry.transfer.outputs_copied += moved.outputs_copied;
}

/// Everything counted so far.
pub fn json() -> Value {
    let (methods, devices) = {
        let counts = COUNTS.lock();
        (counts.methods.clone(), counts.devices.clone())
    };
    let methods: serde_json::Map<String, Value> =
        methods.iter().map(|(name, method)| (name.clone(), method_json(method))).collect();
    json!({
        "enabled": enabled(),
        "methods": methods,
        "devices": devices.iter().map(device_json).collect::<Vec<_>>(),
    })
}

fn method_json(method: &Method) -> Value {
    json!({
        "init": method.init.json(),
        "execute": method.execute.json(),
        "weights": {
            "bytes_wrapped": method.weights.wrapped,
            "bytes_copied": method.weights.copied,
        },
        "shader_libraries": method.shaders,
        "inputs": {
            "bytes_wrapped": method.transfer.inputs_wrapped,
            "bytes_copied": method.transfer.inputs_copied,
        },
        "outputs": { "bytes_copied": method.transfer.outputs_copied },
    })
}

fn device_json(device: &Arc<dyn Device>) -> Value {
    let pool = device.pool_stats();
    let graphs = GraphCache::of(device).map(|cache| cache.stats()).unwrap_or_default();
    json!({
        "kind": device.kind().to_string(),
        "name": device.name(),
        "pool": {
            "bytes_in_use": pool.in_use,
            "bytes_cached": pool.cached,
            "bytes_peak": pool.peak,
            "hits": pool.hits,
            "misses": pool.misses,
            "evictions": pool.evictions,
        },
        "graph_cache": {
            "entries": graphs.entries,
            "capacity": graphs.capacity,
            "hits": graphs.hits,
            "misses": graphs.misses,
            "evictions": graphs.evictions,
        },
    })
}

/// Turns statistics on or off for the process.
#[unsafe(no_mangle)]
pub extern "C" fn etmetal_stats_enable(on: bool) {
    enable(on);
}

/// Process-wide statistics as JSON; returns the bytes needed without the final NUL and writes at
/// most `capacity` bytes including it.
///
/// # Safety
/// `buffer` is null or may be written for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etmetal_stats_json(buffer: *mut c_char, capacity: usize) -> usize {
    let text = std::panic::catch_unwind(|| json().to_string()).unwrap_or_default();
    // SAFETY: as the caller promises.
    unsafe { super::ffi::write_text(&text, buffer, capacity) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_by_method_and_only_while_on() {
        let name = "stats-test";
        enable(false);
        count_execute(name, &Timer::start(), Some(Transfer::default()));
        assert!(json()["methods"].get(name).is_none());
        enable(true);
        let moved = Transfer { inputs_wrapped: 8, inputs_copied: 4, outputs_copied: 16 };
        count_execute(name, &Timer::start(), Some(moved));
        count_execute(name, &Timer::start(), Some(moved));
        count_execute(name, &Timer::start(), None);
        let method = &json()["methods"][name];
        enable(false);
        assert_eq!(method["execute"]["count"], 3);
        assert_eq!(method["execute"]["failures"], 1);
        assert_eq!(method["inputs"]["bytes_wrapped"], 16);
        assert_eq!(method["outputs"]["bytes_copied"], 32);
    }

    #[test]
    fn the_c_function_writes_what_fits() {
        // SAFETY: null is allowed.
        let needed = unsafe { etmetal_stats_json(std::ptr::null_mut(), 0) };
        assert!(needed > 2);
        let mut small = [1u8; 8];
        // SAFETY: 8 bytes.
        unsafe { etmetal_stats_json(small.as_mut_ptr().cast(), 8) };
        assert_eq!(small[7], 0);
        assert_eq!(small[0], b'{');
    }
}
