//! The stream: where one thread records commands, and when they are submitted.
//!
//! Commands go into a command buffer that is made on first use and committed in three ways:
//! when enough commands have gathered ([`Stream::adaptive`]), explicitly ([`Stream::commit`]), or
//! because the CPU wants to look at memory ([`Stream::commit_and_wait`]). Until then nothing has
//! run: **whoever reads or writes tensor memory on the CPU waits first.**
//!
//! A stream belongs to one thread, as its command buffer does. The state of the kernel call that
//! is being encoded lives here too, not in the kernel, so that several threads can run one model
//! at once.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use crate::device::{CommandBuffer, Device, Submission};
use crate::{Error, Result};

mod commands;
mod current;
mod encoding;
mod interval;
mod submitting;
#[cfg(test)]
mod tests;

pub use current::StreamGuard;
use encoding::Encoding;
pub use interval::{
    DEFAULT_FLUSH_INTERVAL, FLUSH_INTERVAL_VARIABLE, flush_interval_of_environment,
};

/// What a stream has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Kernel calls.
    pub dispatches: u64,
    /// Copies of byte ranges.
    pub copies: u64,
    /// Fills of byte ranges.
    pub fills: u64,
    /// Op graphs.
    pub graphs: u64,
    /// Command buffers submitted.
    pub commits: u64,
    /// Times the CPU waited for the device.
    pub waits: u64,
}

/// One thread's queue of commands on one device. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Stream(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    device: Arc<dyn Device>,
    flush_interval: usize,
    /// The command buffer being recorded; made on first use.
    recording: RefCell<Option<Box<dyn CommandBuffer>>>,
    /// Committed work that nobody has waited for.
    in_flight: RefCell<VecDeque<Box<dyn Submission>>>,
    /// The first failure of committed work since the last wait.
    failure: RefCell<Option<Error>>,
    /// The kernel call being encoded.
    encoding: RefCell<Option<Encoding>>,
    stats: Cell<StreamStats>,
}

impl Stream {
    /// A stream on `device` with the flush interval of the environment.
    ///
    /// # Errors
    /// `ETMETAL_FLUSH_INTERVAL` is set and is no positive number.
    pub fn new(device: Arc<dyn Device>) -> Result<Self> {
        Ok(Stream::with_flush_interval(device, flush_interval_of_environment()?))
    }

    /// A stream that commits by itself after `flush_interval` commands (at least 1).
    pub fn with_flush_interval(device: Arc<dyn Device>, flush_interval: usize) -> Self {
        Stream(Rc::new(Inner {
            device,
            flush_interval: flush_interval.max(1),
            recording: RefCell::new(None),
            in_flight: RefCell::new(VecDeque::new()),
            failure: RefCell::new(None),
            encoding: RefCell::new(None),
            stats: Cell::new(StreamStats::default()),
        }))
    }

    /// Its device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.0.device
    }

    /// What it has done so far.
    pub fn stats(&self) -> StreamStats {
        self.0.stats.get()
    }

    /// Commands recorded and not yet committed.
    pub fn pending(&self) -> usize {
        self.0.recording.borrow().as_ref().map_or(0, |c| c.command_count())
    }

    /// Whether all work has been committed and waited for.
    pub fn is_idle(&self) -> bool {
        self.pending() == 0 && self.0.in_flight.borrow().is_empty()
    }

    fn count(&self, add: impl FnOnce(&mut StreamStats)) {
        let mut stats = self.0.stats.get();
        add(&mut stats);
        self.0.stats.set(stats);
    }
}
