//! Command buffers: commands are recorded, and run in their order when they are committed.
//!
//! Nothing runs before the commit, as on Metal, so that a missing commit or wait shows here too.

use std::rc::Rc;
use std::sync::Arc;

use super::Inner;
use super::recording::{Idle, Recording};
use crate::device::{
    ArgumentTable, BufferRef, CommandBuffer, Continued, Dispatch, Executable, Operand,
    SharedDispatch, Submission,
};
use crate::profile::Work;
use crate::{Error, Result};

/// Records commands for the host device.
#[derive(Debug)]
pub struct HostCommandBuffer {
    device: Arc<Inner>,
    recording: Recording,
}

impl HostCommandBuffer {
    /// An empty command buffer.
    pub(super) fn new(device: Arc<Inner>) -> HostCommandBuffer {
        let recording = device.recordings.lock().pop().map(Idle::into_inner).unwrap_or_default();
        HostCommandBuffer { device, recording }
    }
}

impl Drop for HostCommandBuffer {
    fn drop(&mut self) {
        // What the commands used is let go before the lock is taken: it may be the last reference.
        if let Some(idle) = Idle::new(std::mem::take(&mut self.recording)) {
            let mut recordings = self.device.recordings.lock();
            if recordings.len() < MOST_RECORDINGS {
                recordings.push(idle);
            }
        }
    }
}

impl HostCommandBuffer {
    /// Runs the commands.
    fn submit(&mut self) -> Box<dyn Submission> {
        match self.recording.run(&self.device.threads, &self.device.arenas) {
            // Without a size, so that the box allocates nothing.
            Ok(()) => Box::new(Succeeded),
            Err(error) => Box::new(Failed { error }),
        }
    }
}

/// Recordings kept for reuse: one for each stream that is in use at the same time.
const MOST_RECORDINGS: usize = 16;

impl CommandBuffer for HostCommandBuffer {
    fn dispatch(&mut self, dispatch: &Dispatch<'_>) -> Result<()> {
        self.recording.dispatch(dispatch)
    }

    fn dispatch_shared(&mut self, dispatch: &SharedDispatch<'_>) -> Result<()> {
        self.recording.dispatch_shared(dispatch)
    }

    fn spare_arguments(&mut self) -> Option<Rc<ArgumentTable>> {
        self.recording.spare_arguments()
    }

    fn copy(
        &mut self,
        src: (&BufferRef, usize),
        dst: (&BufferRef, usize),
        len: usize,
    ) -> Result<()> {
        self.recording.copy(src, dst, len)
    }

    fn fill(&mut self, dst: (&BufferRef, usize), len: usize, value: u8) -> Result<()> {
        self.recording.fill(dst, len, value)
    }

    fn run(&mut self, executable: &Arc<dyn Executable>, operands: &[Operand]) -> Result<()> {
        self.recording.executable(executable, operands)
    }

    fn describe(&mut self, work: Work) {
        self.recording.describe(work);
    }

    fn command_count(&self) -> usize {
        self.recording.count()
    }

    fn commit(mut self: Box<Self>) -> Result<Box<dyn Submission>> {
        Ok(self.submit())
    }

    fn commit_and_continue(self: Box<Self>) -> Result<Continued> {
        self.commit_and_keep()
    }

    fn commit_and_keep(mut self: Box<Self>) -> Result<Continued> {
        let submission = self.submit();
        if !self.recording.clear() {
            self.recording = Recording::default();
        }
        Ok((submission, Some(self)))
    }
}

/// Work that has run.
#[derive(Debug)]
struct Succeeded;

impl Submission for Succeeded {
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
    fn is_done(&self) -> bool {
        true
    }
}

/// Work that has run up to the command that failed.
#[derive(Debug)]
struct Failed {
    error: Error,
}

impl Submission for Failed {
    fn wait(&mut self) -> Result<()> {
        Err(self.error.clone())
    }
    fn is_done(&self) -> bool {
        true
    }
}
