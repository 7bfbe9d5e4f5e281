//! Work that was committed: how it is waited for, and what is told of its failure.

use std::sync::Arc;

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLCommandBuffer, MTLCommandBufferStatus};
use parking_lot::Mutex;

use super::errors::{guarded, text};
use super::shared::Shared;
use crate::Result;
use crate::device::{BufferRef, Executable, Pipeline, Submission};
use crate::error::err;

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

/// Committed work of the Metal device.
#[derive(Debug)]
pub struct MetalSubmission {
    /// The command buffers that were committed; more than one where MPSGraph committed some.
    buffers: Vec<Shared<ProtocolObject<dyn MTLCommandBuffer>>>,
    in_use: InUse,
    names: Names,
    outcome: Option<Result<()>>,
}

impl MetalSubmission {
    /// The submission of these committed buffers.
    pub fn new(
        buffers: Vec<Retained<ProtocolObject<dyn MTLCommandBuffer>>>,
        in_use: InUse,
        names: Names,
    ) -> MetalSubmission {
        let buffers = buffers.into_iter().map(Shared::new).collect();
        MetalSubmission { buffers, in_use, names, outcome: None }
    }

    fn failure(&self) -> Result<()> {
        for buffer in &self.buffers {
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

impl Submission for MetalSubmission {
    fn wait(&mut self) -> Result<()> {
        if let Some(outcome) = &self.outcome {
            return outcome.clone();
        }
        let outcome = guarded("waiting for the GPU", || {
            self.buffers.iter().for_each(|buffer| buffer.waitUntilCompleted());
            self.in_use.release();
            self.failure()
        });
        self.outcome.insert(outcome).clone()
    }

    fn is_done(&self) -> bool {
        let done = [MTLCommandBufferStatus::Completed, MTLCommandBufferStatus::Error];
        self.outcome.is_some() || self.buffers.iter().all(|buffer| done.contains(&buffer.status()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
