//! Encoding commands.

use std::borrow::Cow;
use std::sync::Arc;

use super::Stream;
use crate::Result;
use crate::device::{BufferRef, CommandBuffer, Executable, Grid, Operand, SharedDispatch};
use crate::error::Context as _;
use crate::graph::GraphKey;
use crate::kernel::{Arguments, Kernel};
use crate::profile::{self, Category, Span, TensorUse, Threads, Work, WorkKind};

impl Stream {
    /// Encodes one kernel call. A grid without threads is ordinary and encodes nothing.
    ///
    /// # Errors
    /// The device refuses it; the message names the kernel.
    pub fn dispatch(&self, kernel: &Kernel, arguments: &Arguments, grid: Grid) -> Result<()> {
        let extent = match grid {
            Grid::Threads { threads, .. } => threads,
            Grid::Threadgroups { groups, .. } => groups,
        };
        if extent.contains(&0) {
            return Ok(());
        }
        let dispatch = SharedDispatch {
            pipeline: kernel.pipeline(),
            library: Some(kernel.library()),
            arguments: arguments.table(),
            grid,
        };
        let span = encode_span(|| kernel.label());
        self.record(|commands| {
            commands.dispatch_shared(&dispatch)?;
            describe(commands, || kernel_work(kernel, arguments, grid));
            Ok(())
        })
        .context(|| kernel.describe())?;
        drop(span);
        self.count(|stats| stats.dispatches += 1);
        self.adaptive()
    }

    /// Encodes a copy of `len` bytes between ranges that do not overlap.
    ///
    /// # Errors
    /// A range leaves its buffer.
    pub fn copy(
        &self,
        src: (&BufferRef, usize),
        dst: (&BufferRef, usize),
        len: usize,
    ) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let span = encode_span(|| "copy");
        self.record(|commands| {
            commands.copy(src, dst, len)?;
            describe(commands, || Work::on_bytes(WorkKind::Copy, 2 * len as u64));
            Ok(())
        })
        .context(|| "copy")?;
        drop(span);
        self.count(|stats| stats.copies += 1);
        self.adaptive()
    }

    /// Encodes a fill of `len` bytes with `value`.
    ///
    /// # Errors
    /// The range leaves the buffer.
    pub fn fill(&self, dst: (&BufferRef, usize), len: usize, value: u8) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let span = encode_span(|| "fill");
        self.record(|commands| {
            commands.fill(dst, len, value)?;
            describe(commands, || Work::on_bytes(WorkKind::Fill, len as u64));
            Ok(())
        })
        .context(|| "fill")?;
        drop(span);
        self.count(|stats| stats.fills += 1);
        self.adaptive()
    }

    /// Encodes an op graph, lowered from `key`; operands in the order of the key.
    ///
    /// # Errors
    /// An operand does not match the key, or leaves its buffer.
    pub fn run(
        &self,
        key: &GraphKey,
        executable: &Arc<dyn Executable>,
        operands: &[Operand],
    ) -> Result<()> {
        let span = encode_span(|| key.op.name());
        self.record(|commands| {
            commands.run(executable, operands)?;
            describe(commands, || op_work(key, operands));
            Ok(())
        })?;
        drop(span);
        self.count(|stats| stats.graphs += 1);
        self.adaptive()
    }

    fn record(&self, encode: impl FnOnce(&mut dyn CommandBuffer) -> Result<()>) -> Result<()> {
        let mut recording = self.0.recording.borrow_mut();
        if recording.is_none() {
            *recording = Some(self.0.device.command_buffer()?);
        }
        encode(&mut **recording.as_mut().expect("just made"))
    }
}

/// The span of encoding a command.
fn encode_span<N: Into<Cow<'static, str>>>(name: impl FnOnce() -> N) -> Span {
    profile::span_named(Category::Encode, || format!("encode {}", name().into()))
}

/// Tells a command buffer what its last command is, while profiling.
fn describe(commands: &mut dyn CommandBuffer, work: impl FnOnce() -> Work) {
    if profile::enabled() {
        commands.describe(work());
    }
}

fn kernel_work(kernel: &Kernel, arguments: &Arguments, grid: Grid) -> Work {
    let tensors = arguments.tensor_uses().cloned().collect();
    let threads = match grid {
        Grid::Threads { threads, group } => Threads { grid: threads, group },
        Grid::Threadgroups { groups, group } => {
            Threads { grid: std::array::from_fn(|i| groups[i].saturating_mul(group[i])), group }
        }
    };
    Work { threads: Some(threads), ..Work::on(WorkKind::Kernel, kernel.label(), tensors) }
}

fn op_work(key: &GraphKey, operands: &[Operand]) -> Work {
    let tensors = operands.iter().map(|o| TensorUse::new(o.dtype, &o.sizes, &o.strides)).collect();
    Work { flops: key.flops(), ..Work::on(WorkKind::Op, key.op.name().to_owned(), tensors) }
}
