//! Command buffers: commands are recorded, and run in their order when they are committed.
//!
//! Nothing runs before the commit, as on Metal, so that a missing commit or wait shows here too.

use std::sync::Arc;

use super::Inner;
use super::graph::Lowered;
use crate::Result;
use crate::device::{BufferRef, CommandBuffer, Dispatch, Executable, Operand, Submission};
use crate::error::err;

/// Records commands for the host device.
#[derive(Debug)]
pub struct HostCommandBuffer {
    device: Arc<Inner>,
    commands: Vec<Command>,
}

/// One recorded command. It holds what it uses.
#[derive(Debug)]
enum Command {
    Copy { src: Place, dst: Place, len: usize },
    Fill { dst: Place, len: usize, value: u8 },
    Run { executable: Arc<dyn Executable>, operands: Vec<Operand> },
}

/// A place in a buffer; the bytes behind it were checked when it was made.
#[derive(Debug)]
struct Place {
    buffer: BufferRef,
    offset: usize,
}

impl Place {
    /// The place at `offset`, where `len` bytes must lie inside the buffer.
    fn new((buffer, offset): (&BufferRef, usize), len: usize, what: &str) -> Result<Place> {
        if offset.checked_add(len).is_none_or(|end| end > buffer.len()) {
            return Err(err!(
                InvalidArgument,
                "{what}: {len} bytes at offset {offset} leave a buffer of {} bytes",
                buffer.len()
            ));
        }
        Ok(Place { buffer: buffer.clone(), offset })
    }

    fn address(&self) -> *mut u8 {
        // SAFETY: `new` checked that the offset lies inside the buffer or at its end.
        unsafe { self.buffer.contents().add(self.offset) }
    }
}

impl HostCommandBuffer {
    /// An empty command buffer.
    pub(super) fn new(device: Arc<Inner>) -> HostCommandBuffer {
        HostCommandBuffer { device, commands: Vec::new() }
    }
}

impl CommandBuffer for HostCommandBuffer {
    fn dispatch(&mut self, dispatch: &Dispatch<'_>) -> Result<()> {
        Err(err!(Unsupported, "kernel {:?}: not yet", dispatch.pipeline.name()))
    }

    fn copy(
        &mut self,
        src: (&BufferRef, usize),
        dst: (&BufferRef, usize),
        len: usize,
    ) -> Result<()> {
        let src = Place::new(src, len, "the source of a copy")?;
        let dst = Place::new(dst, len, "the destination of a copy")?;
        let apart = src.address().addr().abs_diff(dst.address().addr());
        if apart < len {
            return Err(err!(
                InvalidArgument,
                "cannot copy {len} bytes to a place {apart} bytes away: the ranges overlap"
            ));
        }
        if len != 0 {
            self.commands.push(Command::Copy { src, dst, len });
        }
        Ok(())
    }

    fn fill(&mut self, dst: (&BufferRef, usize), len: usize, value: u8) -> Result<()> {
        let dst = Place::new(dst, len, "the destination of a fill")?;
        if len != 0 {
            self.commands.push(Command::Fill { dst, len, value });
        }
        Ok(())
    }

    fn run(&mut self, executable: &Arc<dyn Executable>, operands: &[Operand]) -> Result<()> {
        Lowered::of(executable)?.check(operands)?;
        let executable = executable.clone();
        self.commands.push(Command::Run { executable, operands: operands.to_vec() });
        Ok(())
    }

    fn command_count(&self) -> usize {
        self.commands.len()
    }

    fn commit(self: Box<Self>) -> Result<Box<dyn Submission>> {
        let outcome = self.commands.iter().try_for_each(|command| command.run(&self.device));
        Ok(Box::new(HostSubmission { outcome }))
    }
}

impl Command {
    fn run(&self, device: &Inner) -> Result<()> {
        match self {
            Command::Copy { src, dst, len } => {
                // SAFETY: both ranges lie inside live buffers and do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(src.address(), dst.address(), *len) };
            }
            Command::Fill { dst, len, value } => {
                // SAFETY: the range lies inside a live buffer.
                unsafe { dst.address().write_bytes(*value, *len) };
            }
            Command::Run { executable, operands } => {
                Lowered::of(executable)?.run(operands, &device.threads)?;
            }
        }
        Ok(())
    }
}

/// Work that has run.
#[derive(Debug)]
struct HostSubmission {
    outcome: Result<()>,
}

impl Submission for HostSubmission {
    fn wait(&mut self) -> Result<()> {
        self.outcome.clone()
    }
    fn is_done(&self) -> bool {
        true
    }
}
