//! Work that was committed: how it is waited for, and what is told of its failure.

use std::sync::Arc;

use objc2::msg_send;
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLCommandBuffer, MTLCommandBufferStatus};
use parking_lot::Mutex;

use super::errors::{guarded, text};
use super::shared::Shared;
use crate::Result;
use crate::device::{BufferRef, Executable, Pipeline, Submission};
use crate::error::err;
use crate::profile::{self, Work};

/// Something that commands use, kept until they have completed.
#[derive(Debug)]
pub enum Kept {
    /// A buffer that they read or write.
    Buffer(BufferRef),
    /// A kernel.
    Pipeline(Arc<dyn Pipeline>),
    /// An op graph.
    Executable(Arc<dyn Executable>),
}

/// What the commands of one submission use. The completion handler and whoever waits let go of
/// it, the first to come.
#[derive(Debug, Clone, Default)]
pub struct InUse(Arc<Mutex<Vec<Kept>>>);

impl InUse {
    /// Keeps one more.
    pub fn keep(&self, kept: Kept) {
        self.0.lock().push(kept);
    }

    /// Lets go of all: buffers return to their pools.
    pub fn release(&self) {
        let kept = std::mem::take(&mut *self.0.lock());
        // An owner that panics must not unwind into Metal, whose handler this may be.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(kept)));
    }
}

/// The commands of a submission by name, for its failure. Each stands once.
#[derive(Debug, Default)]
pub struct Names(Vec<Arc<str>>);

impl Names {
    /// Adds a command.
    pub fn add(&mut self, name: &Arc<str>) {
        // Most often it is one of those added last.
        if !self.0.iter().rev().any(|n| n == name) {
            self.0.push(name.clone());
        }
    }

    /// The kernel, or the kernels of which it is one.
    fn describe(&self) -> String {
        match self.0.as_slice() {
            [] => "copies and fills".to_owned(),
            [one] => format!("kernel \"{one}\""),
            many => format!(
                "one of {} kernels (\"{}\"; ETMETAL_FLUSH_INTERVAL=1 tells which)",
                many.len(),
                many.join("\", \"")
            ),
        }
    }
}

/// Command buffers that were committed together, and what they use.
#[derive(Debug)]
pub struct Committed {
    /// More than one where MPSGraph committed some.
    buffers: Vec<Shared<ProtocolObject<dyn MTLCommandBuffer>>>,
    in_use: InUse,
}

impl Committed {
    /// These buffers.
    pub fn new(
        buffers: Vec<Retained<ProtocolObject<dyn MTLCommandBuffer>>>,
        in_use: InUse,
    ) -> Committed {
        Committed { buffers: buffers.into_iter().map(Shared::new).collect(), in_use }
    }

    /// When the GPU began and ended, in seconds of its clock. Once it is done.
    fn times(&self) -> (f64, f64) {
        let times = self.buffers.iter().map(|buffer| {
            // SAFETY: both take nothing and give a CFTimeInterval. The bindings have them only
            // together with those of CoreFoundation, which this crate needs for nothing else.
            unsafe {
                let start: f64 = msg_send![&**buffer, GPUStartTime];
                let end: f64 = msg_send![&**buffer, GPUEndTime];
                (start, end)
            }
        });
        times.fold((f64::INFINITY, 0.0), |(start, end), (s, e)| (start.min(s), end.max(e)))
    }
}

/// A command that was submitted alone.
#[derive(Debug)]
pub struct Profiled {
    /// What it is.
    pub work: Work,
    /// Its command buffers.
    pub committed: Committed,
}

/// Committed work of the Metal device.
#[derive(Debug)]
pub struct MetalSubmission {
    /// In the order of their commits, before `last`.
    profiled: Vec<Profiled>,
    last: Committed,
    names: Names,
    outcome: Option<Result<()>>,
}

impl MetalSubmission {
    /// The submission of what was committed.
    pub fn new(profiled: Vec<Profiled>, last: Committed, names: Names) -> MetalSubmission {
        MetalSubmission { profiled, last, names, outcome: None }
    }

    fn committed(&self) -> impl Iterator<Item = &Committed> {
        self.profiled.iter().map(|profiled| &profiled.committed).chain([&self.last])
    }

    fn buffers(&self) -> impl Iterator<Item = &Shared<ProtocolObject<dyn MTLCommandBuffer>>> {
        self.committed().flat_map(|committed| &committed.buffers)
    }

    /// Tells the profile when the GPU worked on each command.
    fn record(&mut self) {
        let clock = GpuClock::now();
        for Profiled { work, committed } in self.profiled.drain(..) {
            let (start, end) = committed.times();
            profile::record_work(work, clock.in_profile(start), clock.in_profile(end));
        }
    }

    fn failure(&self) -> Result<()> {
        for buffer in self.buffers() {
            if buffer.status() == MTLCommandBufferStatus::Error {
                let reason = buffer.error().map(|error| text(&error));
                return Err(err!(
                    Execution,
                    "the GPU failed in {}: {}",
                    self.names.describe(),
                    reason.as_deref().unwrap_or("it gives no reason")
                ));
            }
        }
        Ok(())
    }
}

/// The GPU's clock and the profile's, at the same moment.
#[derive(Debug, Clone, Copy)]
struct GpuClock {
    /// Seconds.
    gpu: f64,
    /// Nanoseconds.
    profile: u64,
}

impl GpuClock {
    fn now() -> GpuClock {
        // What GPUStartTime counts: the time since the start of the system, without sleep.
        #[cfg(target_vendor = "apple")]
        let clock = libc::CLOCK_UPTIME_RAW;
        #[cfg(not(target_vendor = "apple"))]
        let clock = libc::CLOCK_MONOTONIC;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes one struct.
        unsafe { libc::clock_gettime(clock, &mut time) };
        let gpu = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
        GpuClock { gpu, profile: profile::now() }
    }

    /// A time of the GPU in nanoseconds of the profile.
    fn in_profile(self, gpu: f64) -> u64 {
        let ago = (self.gpu - gpu) * 1e9;
        // A cast saturates: what began before the profile begins with it.
        (self.profile as f64 - ago).max(0.0) as u64
    }
}

impl Submission for MetalSubmission {
    fn wait(&mut self) -> Result<()> {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        let outcome = guarded("waiting for the GPU", || {
            self.buffers().for_each(|buffer| buffer.waitUntilCompleted());
            self.committed().for_each(|committed| committed.in_use.release());
            self.failure()?;
            self.record();
            Ok(())
        });
        self.outcome.insert(outcome).clone()
    }

    fn is_done(&self) -> bool {
        let done = [MTLCommandBufferStatus::Completed, MTLCommandBufferStatus::Error];
        self.outcome.is_some() || self.buffers().all(|buffer| done.contains(&buffer.status()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_gpu_are_told_by_the_clock_of_the_profile() {
        let clock = GpuClock { gpu: 100.0, profile: 5_000_000_000 };
        assert_eq!(clock.in_profile(100.0), 5_000_000_000);
        assert_eq!(clock.in_profile(99.5), 4_500_000_000);
        assert_eq!(clock.in_profile(1.0), 0, "before the profile");
    }

    #[test]
    fn a_failure_names_its_kernels_once() {
        let mut names = Names::default();
        assert_eq!(names.describe(), "copies and fills");
        let [first, second]: [Arc<str>; 2] = ["first".into(), "second".into()];
        names.add(&first);
        names.add(&first);
        assert_eq!(names.describe(), "kernel \"first\"");
        names.add(&second);
        names.add(&first);
        let text = names.describe();
        assert!(text.starts_with("one of 2 kernels (\"first\", \"second\";"), "{text}");
    }
}
