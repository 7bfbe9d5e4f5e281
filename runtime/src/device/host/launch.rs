//! One kernel call: checked as Metal checks it, and run over its grid.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::LIMITS;
use super::arenas::Arenas;
use super::checked;
use super::cost::Plan;
use super::msl::{Fault, Launch, LaunchMode};
use super::pipeline::{HostPipeline, Parameter};
use super::threads::Threads;
use crate::Result;
use crate::device::{Argument, Dispatch, Extent, Grid};
use crate::error::err;

/// Threadgroup arguments of a kernel, at most: what a [`Launch`] has room for.
const THREADGROUP_ARGUMENTS: usize = 8;

/// Metal measures threadgroup memory in steps of this many bytes.
const THREADGROUP_STEP: u32 = 16;

/// The checked sizes of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Threads of the grid.
    pub grid: Extent,
    /// Threads of a full threadgroup.
    pub group: Extent,
    /// Threadgroups of the grid, edge groups included.
    pub groups: Extent,
}

impl Geometry {
    /// The sizes of `grid` for `pipeline`; `None` for a grid without threads.
    ///
    /// # Errors
    /// A threadgroup without threads or with more than the kernel may have, or a grid whose
    /// threads cannot be numbered.
    pub fn new(pipeline: &HostPipeline, grid: &Grid) -> Result<Option<Geometry>> {
        let name = &pipeline.name;
        let (extent, group) = match *grid {
            Grid::Threads { threads, group } => (threads, group),
            Grid::Threadgroups { groups, group } => (groups, group),
        };
        if extent.contains(&0) {
            return Ok(None);
        }
        if group.contains(&0) {
            return Err(err!(
                InvalidArgument,
                "kernel {name:?}: the threadgroup {} has no threads",
                Sizes(group)
            ));
        }
        let threads = volume(group);
        let most = pipeline.max_threads;
        if threads.is_none_or(|n| n > u64::from(most)) {
            return Err(err!(
                InvalidArgument,
                "kernel {name:?}: a threadgroup of {} exceeds the {most} threads that {} allows; \
                 use a smaller threadgroup",
                Sizes(group),
                if most < LIMITS.max_threads_per_threadgroup { "the kernel" } else { "the device" },
            ));
        }
        let too_large = || {
            err!(
                InvalidArgument,
                "kernel {name:?}: a grid of {} in threadgroups of {} has more threads than can be \
                 numbered",
                Sizes(extent),
                Sizes(group)
            )
        };
        let geometry = match *grid {
            Grid::Threads { threads, group } => {
                let groups = std::array::from_fn(|i| threads[i].div_ceil(group[i]));
                Geometry { grid: threads, group, groups }
            }
            Grid::Threadgroups { groups, group } => {
                let mut threads = [0; 3];
                for i in 0..3 {
                    threads[i] = groups[i].checked_mul(group[i]).ok_or_else(too_large)?;
                }
                Geometry { grid: threads, group, groups }
            }
        };
        volume(geometry.grid).map(|_| Some(geometry)).ok_or_else(too_large)
    }
}

impl Geometry {
    /// The sizes of a grid in one dimension, which most are and which takes no thought.
    #[inline]
    fn line(pipeline: &HostPipeline, grid: &Grid) -> Option<Geometry> {
        match *grid {
            Grid::Threads { threads: [x, 1, 1], group: [size, 1, 1] }
                if x != 0 && size != 0 && size <= pipeline.max_threads =>
            {
                let groups = if x <= size { 1 } else { x.div_ceil(size) };
                Some(Geometry { grid: [x, 1, 1], group: [size, 1, 1], groups: [groups, 1, 1] })
            }
            _ => None,
        }
    }

    /// Writes the sizes into a launch, which then has threads.
    #[inline]
    fn fill_in(self, launch: &mut Launch) -> bool {
        launch.grid = self.grid;
        launch.group = self.group;
        launch.groups = self.groups;
        true
    }
}

/// Product of three sizes, if it has a number.
fn volume(extent: Extent) -> Option<u64> {
    (u64::from(extent[0]) * u64::from(extent[1])).checked_mul(u64::from(extent[2]))
}

/// Sizes as people write them: `32x32x2`.
struct Sizes(Extent);

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "{x}x{y}x{z}")
    }
}

/// Checks that every buffer argument of the kernel is bound, inside its buffer, aligned, and
/// within Metal's limits.
///
/// # Errors
/// The first argument that is not, by kernel, index and name.
pub fn check_arguments(pipeline: &HostPipeline, arguments: &[Option<Argument>]) -> Result<()> {
    if arguments.len() > LIMITS.max_buffer_arguments as usize {
        return Err(err!(
            InvalidArgument,
            "kernel {:?}: {} buffer arguments exceed the {} of Metal",
            pipeline.name,
            arguments.len(),
            LIMITS.max_buffer_arguments
        ));
    }
    let mut parameters = pipeline.buffers.as_slice();
    for (index, argument) in arguments.iter().enumerate() {
        if let Some(misfit) = argument.as_ref().and_then(Misfit::of_argument) {
            return Err(misfit.error(pipeline, index));
        }
        while let [parameter, rest @ ..] = parameters
            && parameter.index as usize == index
        {
            if let Some(misfit) = Misfit::of_parameter(parameter, argument.as_ref()) {
                return Err(misfit.error(pipeline, index));
            }
            parameters = rest;
        }
    }
    match parameters {
        [] => Ok(()),
        [parameter, ..] => Err(Misfit::Missing.error(pipeline, parameter.index as usize)),
    }
}

/// What is wrong with an argument.
#[derive(Debug, Clone, Copy)]
enum Misfit {
    Missing,
    /// The offset, and the bytes of the buffer that it lies behind.
    Outside(usize, usize),
    /// So many inline bytes.
    Long(usize),
    /// The offset, and what it is to be a multiple of.
    Misaligned(usize, usize),
    /// The bytes bound, and those that the kernel reads.
    Short(usize, usize),
}

impl Misfit {
    /// What is wrong whatever the parameter is, if anything.
    #[inline]
    fn of_argument(argument: &Argument) -> Option<Misfit> {
        match argument {
            Argument::Buffer { buffer, offset, .. } => {
                let len = buffer.len();
                (*offset > len).then_some(Misfit::Outside(*offset, len))
            }
            Argument::Bytes(bytes) => (bytes.len() > LIMITS.max_inline_bytes as usize)
                .then_some(Misfit::Long(bytes.len())),
        }
    }

    /// Why the argument, which lies inside its buffer, is not for this parameter.
    #[inline]
    fn of_parameter(parameter: &Parameter, argument: Option<&Argument>) -> Option<Misfit> {
        let bytes = match argument {
            None => return Some(Misfit::Missing),
            Some(Argument::Bytes(bytes)) => bytes.len(),
            Some(Argument::Buffer { buffer, offset, .. }) => {
                // Alignments are powers of two.
                if offset & (parameter.alignment - 1) != 0 {
                    return Some(Misfit::Misaligned(*offset, parameter.alignment));
                }
                buffer.len() - offset
            }
        };
        (bytes < parameter.bytes).then_some(Misfit::Short(bytes, parameter.bytes))
    }

    #[cold]
    fn error(self, pipeline: &HostPipeline, index: usize) -> crate::Error {
        let what = match self {
            Misfit::Missing => "nothing is bound to it".to_owned(),
            Misfit::Outside(offset, len) => {
                format!("offset {offset} lies behind the end of a buffer of {len} bytes")
            }
            Misfit::Long(bytes) => format!(
                "{bytes} inline bytes exceed the {} of Metal; use a buffer",
                LIMITS.max_inline_bytes
            ),
            Misfit::Misaligned(offset, alignment) => format!(
                "offset {offset} is no multiple of the {alignment} bytes that its type is aligned to"
            ),
            Misfit::Short(bytes, needed) => {
                format!("{bytes} bytes are bound to it, but the kernel reads {needed}")
            }
        };
        let parameter = pipeline.buffers.iter().find(|p| p.index as usize == index);
        let name = parameter.map(|p| format!(" {:?}", p.name)).unwrap_or_default();
        err!(InvalidArgument, "kernel {:?}, buffer({index}){name}: {what}", pipeline.name)
    }
}

/// Checks the threadgroup memory of a dispatch, and gives its lengths as a [`Launch`] has them.
///
/// # Errors
/// More than Metal has, a length that is no multiple of 16, or a parameter without memory.
pub fn threadgroup_lengths(
    pipeline: &HostPipeline,
    lengths: &[u32],
) -> Result<[u32; THREADGROUP_ARGUMENTS]> {
    let name = &pipeline.name;
    if lengths.len() > THREADGROUP_ARGUMENTS {
        return Err(err!(
            Unsupported,
            "kernel {name:?}: {} threadgroup arguments, but the host device has at most \
             {THREADGROUP_ARGUMENTS}",
            lengths.len()
        ));
    }
    if let Some(index) = lengths.iter().position(|n| !n.is_multiple_of(THREADGROUP_STEP)) {
        return Err(err!(
            InvalidArgument,
            "kernel {name:?}, threadgroup({index}): {} bytes are no multiple of \
             {THREADGROUP_STEP}, as Metal wants it",
            lengths[index]
        ));
    }
    let dynamic = lengths.iter().map(|&n| u64::from(n)).sum::<u64>();
    let total = dynamic + u64::from(pipeline.static_memory);
    if total > u64::from(LIMITS.max_threadgroup_memory) {
        return Err(err!(
            InvalidArgument,
            "kernel {name:?}: {total} bytes of threadgroup memory ({} that the kernel declares, \
             {dynamic} as arguments) exceed the {} of Metal",
            pipeline.static_memory,
            LIMITS.max_threadgroup_memory
        ));
    }
    for parameter in &pipeline.threadgroups {
        if lengths.get(parameter.index as usize).is_none_or(|&n| n == 0) {
            return Err(err!(
                InvalidArgument,
                "kernel {name:?}: threadgroup({}) {:?} has no length",
                parameter.index,
                parameter.name
            ));
        }
    }
    let mut all = [0; THREADGROUP_ARGUMENTS];
    all[..lengths.len()].copy_from_slice(lengths);
    Ok(all)
}

/// Checks a dispatch and fills in its launch, all but the addresses of its buffers; whether it has
/// threads to run.
///
/// # Errors
/// What [`Geometry::new`], [`check_arguments`] and [`threadgroup_lengths`] refuse.
#[inline]
pub fn prepare(
    pipeline: &HostPipeline,
    dispatch: &Dispatch<'_>,
    launch: &mut Launch,
) -> Result<bool> {
    let has_threads = match Geometry::line(pipeline, &dispatch.grid) {
        Some(line) => line.fill_in(launch),
        None => match Geometry::new(pipeline, &dispatch.grid)? {
            Some(geometry) => geometry.fill_in(launch),
            None => false,
        },
    };
    check_arguments(pipeline, dispatch.arguments)?;
    if !dispatch.threadgroup_memory.is_empty() || !pipeline.threadgroups.is_empty() {
        launch.threadgroup_lengths = threadgroup_lengths(pipeline, dispatch.threadgroup_memory)?;
    }
    launch.buffer_count = dispatch.arguments.len() as u64;
    launch.writable = pipeline.checks.as_ref().map_or(0, |checks| checks.writable);
    Ok(has_threads)
}

/// A launch with everything it needs, shared by the threads that run it.
struct Job<'a> {
    pipeline: &'a HostPipeline,
    launch: &'a Launch,
    arenas: &'a Arenas,
}

// SAFETY: the pointers of a launch are addresses of arguments, which kernels may use from any
// thread; whoever runs the launch keeps them alive.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// Runs the items `begin..end` on this thread.
    fn run(&self, begin: u64, end: u64) -> Result<()> {
        let call = |arena: *mut c_void| {
            // SAFETY: the launch was checked against what the kernel declares, its addresses are
            // valid (see `run`, the only caller), and a synchronising kernel gets an arena of its own.
            unsafe { self.pipeline.code.run(self.launch, arena, begin, end) }
        };
        match self.pipeline.mode {
            LaunchMode::Plain => call(std::ptr::null_mut()),
            LaunchMode::Fibers => self.arenas.with(|arena| call(arena.start().cast()))?,
        }
    }

    fn measured(&self, begin: u64, end: u64) -> Result<Duration> {
        let start = Instant::now();
        self.run(begin, end)?;
        Ok(start.elapsed())
    }
}

/// Runs a launch on `threads` and waits for it.
///
/// # Safety
/// `launch` comes from [`prepare`] for this pipeline, and its buffers are the arguments that were
/// checked: valid for as many bytes as their sizes say, and for what the kernel does with them.
///
/// # Errors
/// There is no address space for the stacks of a synchronising kernel. In the checked mode: the
/// kernel does what it must not do; the rest of its work is not done.
pub unsafe fn run(
    pipeline: &HostPipeline,
    launch: &mut Launch,
    threads: &Threads,
    arenas: &Arenas,
) -> Result<()> {
    if pipeline.checks.is_none() {
        return run_all(pipeline, launch, threads, arenas);
    }
    let mut fault = Fault::none();
    launch.fault = &raw mut fault;
    let outcome = run_all(pipeline, launch, threads, arenas);
    launch.fault = std::ptr::null_mut();
    outcome?;
    if fault.is_there() { Err(checked::error(pipeline, launch, &fault)) } else { Ok(()) }
}

fn run_all(
    pipeline: &HostPipeline,
    launch: &Launch,
    threads: &Threads,
    arenas: &Arenas,
) -> Result<()> {
    let job = Job { pipeline, launch, arenas };
    let extent = match pipeline.mode {
        LaunchMode::Plain => launch.grid,
        LaunchMode::Fibers => launch.groups,
    };
    let items = volume(extent).expect("checked by Geometry::new");
    match pipeline.cost.plan(items, threads.count(), |work| threads.join_in(work)) {
        Plan::Alone { measure: false } => job.run(0, items),
        Plan::Alone { measure: true } => {
            pipeline.cost.measured(items, job.measured(0, items)?);
            Ok(())
        }
        Plan::Shared { chunk } => run_shared(&job, items, round_chunk(&job, chunk), threads),
    }
}

/// A chunk of a plain kernel in whole rows of the grid if they are short, else in whole vectors.
fn round_chunk(job: &Job<'_>, chunk: u64) -> u64 {
    let row = u64::from(job.launch.grid[0]);
    match job.pipeline.mode {
        LaunchMode::Plain if row <= chunk => chunk.next_multiple_of(row),
        LaunchMode::Plain => chunk.next_multiple_of(64),
        LaunchMode::Fibers => chunk,
    }
}

fn run_shared(job: &Job<'_>, items: u64, chunk: u64, threads: &Threads) -> Result<()> {
    let spent = AtomicU64::new(0);
    let failure = OnceLock::new();
    threads.run(items, chunk, &|range| match job.measured(range.start, range.end) {
        Ok(time) => {
            spent.fetch_add(time.as_nanos() as u64, Relaxed);
        }
        Err(error) => {
            let _ = failure.set(error);
        }
    })?;
    job.pipeline.cost.measured(items, Duration::from_nanos(spent.into_inner()));
    failure.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
