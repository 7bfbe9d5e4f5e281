//! Kernels written in Rust for the tests: entries as the MSL compiler makes them.

use std::ffi::c_void;
use std::sync::Arc;

use super::cost::Cost;
use super::msl::{Entry, Launch, LaunchMode, Native};
use super::pipeline::{HostPipeline, Parameter};

/// `out[i] += x` over linear threads: buffer 0 is `out` (u32), buffer 1 is `x` (one u32).
pub unsafe extern "C" fn add_plain(
    launch: *const Launch,
    _arena: *mut c_void,
    begin: u64,
    end: u64,
) {
    // SAFETY: as bound by the tests: `out` has an element for each thread.
    unsafe {
        let buffers = (*launch).buffers;
        let (out, x) = ((*buffers).cast::<u32>(), *(*buffers.add(1)).cast::<u32>());
        for i in begin..end {
            *out.add(i as usize) += x;
        }
    }
}

/// The same over threadgroups: walks the threads of each, and counts in the arena's first word
/// how many groups it has run there.
pub unsafe extern "C" fn add_groups(
    launch: *const Launch,
    arena: *mut c_void,
    begin: u64,
    end: u64,
) {
    // SAFETY: as bound by the tests; the arena is this call's alone.
    unsafe {
        let launch = &*launch;
        assert!(!arena.is_null());
        let (out, x) = ((*launch.buffers).cast::<u32>(), *(*launch.buffers.add(1)).cast::<u32>());
        let [gx, gy, _] = launch.groups.map(u64::from);
        for group in begin..end {
            *arena.cast::<u64>() += 1;
            let position = [group % gx, group / gx % gy, group / gx / gy];
            let first: [u32; 3] = std::array::from_fn(|i| position[i] as u32 * launch.group[i]);
            let size: [u32; 3] =
                std::array::from_fn(|i| launch.group[i].min(launch.grid[i] - first[i]));
            for z in first[2]..first[2] + size[2] {
                for y in first[1]..first[1] + size[1] {
                    for x_ in first[0]..first[0] + size[0] {
                        let [w, h, _] = launch.grid;
                        *out.add(((z * h + y) * w + x_) as usize) += x;
                    }
                }
            }
        }
    }
}

/// A pipeline of `entry` with buffers `out` and `x`.
pub fn pipeline(name: &str, entry: Entry, mode: LaunchMode) -> HostPipeline {
    let parameter = |(index, name, bytes): (u32, &str, usize)| Parameter {
        index,
        name: name.to_owned(),
        alignment: 4,
        bytes,
    };
    HostPipeline {
        name: name.to_owned(),
        code: Native::of(entry, mode),
        mode,
        buffers: [(0, "out", 0), (1, "x", 4)].map(parameter).into(),
        threadgroups: Vec::new(),
        max_threads: 1024,
        static_memory: 0,
        cost: Cost::guess(mode, None),
        checks: None,
    }
}

/// Both kernels, as a dispatch wants them.
pub fn both() -> [Arc<dyn crate::device::Pipeline>; 2] {
    [
        Arc::new(pipeline("add_plain", add_plain, LaunchMode::Plain)),
        Arc::new(pipeline("add_groups", add_groups, LaunchMode::Fibers)),
    ]
}
