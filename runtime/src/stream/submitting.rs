//! Submitting what was encoded, and waiting for it.

use super::{Inner, Stream};
use crate::Result;
use crate::device::{CommandBuffer, Continued};
use crate::profile::{self, Category};

impl Stream {
    /// Commits if enough commands have gathered. Called after every command.
    ///
    /// # Errors
    /// As for [`Stream::commit`].
    pub fn adaptive(&self) -> Result<()> {
        let due = self.pending() >= self.0.flush_interval;
        if due { self.submit(|commands| commands.commit_and_continue()) } else { Ok(()) }
    }

    /// Submits what was recorded, without waiting.
    ///
    /// # Errors
    /// The device refused the work. Failures while it runs come back from the next wait.
    pub fn commit(&self) -> Result<()> {
        self.submit(|commands| commands.commit_and_keep())
    }

    /// Submits what was recorded, if anything was.
    fn submit(&self, how: impl FnOnce(Box<dyn CommandBuffer>) -> Result<Continued>) -> Result<()> {
        let mut recording = self.0.recording.borrow_mut();
        let Some(commands) = recording.take_if(|commands| commands.command_count() != 0) else {
            return Ok(());
        };
        drop(recording);
        self.reap_completed();
        let mut span = profile::span(Category::Submit, "commit");
        span.number("commands", commands.command_count() as u64);
        let (submission, next) = how(commands)?;
        drop(span);
        self.0.in_flight.borrow_mut().push_back(submission);
        *self.0.recording.borrow_mut() = next;
        self.count(|stats| stats.commits += 1);
        Ok(())
    }

    /// Submits what was recorded and opens the next command buffer at once, so that the device
    /// works while the CPU encodes on.
    ///
    /// # Errors
    /// As for [`Stream::commit`]; or the device is lost.
    pub fn commit_and_continue(&self) -> Result<()> {
        self.submit(|commands| commands.commit_and_continue())?;
        if self.0.recording.borrow().is_none() {
            let next = self.0.device.command_buffer()?;
            *self.0.recording.borrow_mut() = Some(next);
        }
        Ok(())
    }

    /// Submits what was recorded and waits until all work of this stream has completed. After it
    /// the CPU may read and write the memory that the commands used.
    ///
    /// # Errors
    /// The first failure of any work since the last wait. All of it has ended nevertheless.
    pub fn commit_and_wait(&self) -> Result<()> {
        let committed = self.commit();
        // The queue stays where it is, with its memory, for the work to come.
        let mut in_flight = self.0.in_flight.borrow_mut();
        if !in_flight.is_empty() {
            self.count(|stats| stats.waits += 1);
            let span = profile::span(Category::Wait, "wait");
            while let Some(mut submission) = in_flight.pop_front() {
                self.keep_failure(submission.wait());
            }
            drop(span);
        }
        drop(in_flight);
        committed?;
        self.0.failure.take().map_or(Ok(()), Err)
    }

    /// Drops what was recorded and not committed. Committed work is not affected.
    pub fn discard(&self) {
        self.0.recording.take();
        self.0.encoding.take();
    }

    /// Lets go of submissions that have completed, keeping the first failure for the next wait.
    fn reap_completed(&self) {
        let mut in_flight = self.0.in_flight.borrow_mut();
        while in_flight.front().is_some_and(|s| s.is_done()) {
            let mut done = in_flight.pop_front().expect("just seen");
            self.keep_failure(done.wait());
        }
    }

    fn keep_failure(&self, result: Result<()>) {
        if let Err(error) = result {
            self.0.failure.borrow_mut().get_or_insert(error);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Work in flight may use borrowed memory whose owner believes the stream is gone.
        for submission in self.in_flight.get_mut() {
            let _ = submission.wait();
        }
    }
}
