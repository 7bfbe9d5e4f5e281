//! Command buffers: commands are encoded as they come, and submitted together.
//!
//! Encoders are opened when a command needs one and stay open for those of the same kind that
//! follow. What commands use is kept by the submission until the GPU has completed them.

use std::sync::Arc;

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSRange;
use objc2_metal::{
    MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandBufferStatus, MTLCommandEncoder,
    MTLComputeCommandEncoder, MTLSize,
};
use objc2_metal_performance_shaders::MPSCommandBuffer;

use block2::RcBlock;

use super::buffer::MetalBuffer;
use super::checks::{check, check_range};
use super::errors::guarded;
use super::graph::MetalExecutable;
use super::owned::Owned;
use super::pipeline::MetalPipeline;
use super::submission::{Committed, InUse, Kept, MetalSubmission, Names, Profiled};
use super::{Inner, OwnKernel};
use crate::Result;
use crate::device::kernels::{Call, strided_copy};
use crate::device::{
    Argument, BufferRef, CommandBuffer, Continued, Dispatch, Executable, Extent, Grid, Operand,
    Pipeline, Submission,
};
use crate::error::err;
use crate::profile::Work;
use crate::tensor::DType;

/// A blit of more bytes is encoded in parts of so many. The stand-in's tests have no gigabytes.
const BLIT_PART: usize = if cfg!(metal_standin) { 1 << 12 } else { 1 << 30 };

/// What places and lengths of blits are multiples of; others are done by a kernel.
const BLIT_STEP: usize = 4;

type Raw = ProtocolObject<dyn MTLCommandBuffer>;

/// Encodes commands for the Metal device.
pub struct MetalCommandBuffer {
    device: Arc<Inner>,
    raw: Owned<MPSCommandBuffer>,
    encoder: Encoder,
    /// The command buffers that were underneath `raw` since the last submission: MPSGraph may
    /// commit one and go on with another.
    roots: Vec<Retained<Raw>>,
    in_use: InUse,
    names: Names,
    count: usize,
    /// Commands that were submitted alone because they are profiled.
    profiled: Vec<Profiled>,
}

/// The open encoder.
enum Encoder {
    None,
    Compute {
        raw: Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>,
        /// The pipeline that is set, by its address.
        pipeline: *const MetalPipeline,
    },
    Blit(Retained<ProtocolObject<dyn MTLBlitCommandEncoder>>),
}

impl std::fmt::Debug for MetalCommandBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MetalCommandBuffer({} commands)", self.count)
    }
}

impl MetalCommandBuffer {
    /// An empty command buffer.
    ///
    /// # Errors
    /// The device is lost.
    pub(super) fn new(device: Arc<Inner>) -> Result<MetalCommandBuffer> {
        guarded("making a command buffer", || {
            // SAFETY: the queue lives.
            let raw = unsafe { MPSCommandBuffer::commandBufferFromCommandQueue(&device.queue) };
            Ok(MetalCommandBuffer {
                device,
                raw: raw.into(),
                encoder: Encoder::None,
                roots: Vec::new(),
                in_use: InUse::default(),
                names: Names::default(),
                count: 0,
                profiled: Vec::new(),
            })
        })
    }

    /// The device that the commands are for.
    pub(super) fn device(&self) -> &Arc<Inner> {
        &self.device
    }

    /// Keeps something until the commands have completed.
    pub(super) fn keep(&self, kept: Kept) {
        self.in_use.keep(kept);
    }

    /// What MPSGraph encodes into, with no encoder open.
    pub(super) fn for_graph(&mut self) -> &MPSCommandBuffer {
        self.end_encoding();
        self.watch();
        &self.raw
    }

    /// Ends the open encoder.
    fn end_encoding(&mut self) {
        match std::mem::replace(&mut self.encoder, Encoder::None) {
            Encoder::None => {}
            Encoder::Compute { raw, .. } => raw.endEncoding(),
            Encoder::Blit(raw) => raw.endEncoding(),
        }
    }

    /// Remembers the command buffer that is underneath now.
    fn watch(&mut self) -> Retained<Raw> {
        // SAFETY: the command buffer was not committed as a whole.
        let root = unsafe { self.raw.rootCommandBuffer() };
        if !self.roots.iter().any(|known| Retained::as_ptr(known) == Retained::as_ptr(&root)) {
            self.roots.push(root.clone());
        }
        root
    }

    fn compute(&mut self) -> Result<&ProtocolObject<dyn MTLComputeCommandEncoder>> {
        if !matches!(self.encoder, Encoder::Compute { .. }) {
            self.end_encoding();
            let raw = self.raw.computeCommandEncoder();
            let raw = raw.ok_or_else(|| err!(Execution, "Metal gives no compute encoder"))?;
            self.encoder = Encoder::Compute { raw, pipeline: std::ptr::null() };
        }
        match &self.encoder {
            Encoder::Compute { raw, .. } => Ok(raw),
            _ => unreachable!("just opened"),
        }
    }

    fn blit(&mut self) -> Result<&ProtocolObject<dyn MTLBlitCommandEncoder>> {
        if !matches!(self.encoder, Encoder::Blit(_)) {
            self.end_encoding();
            let raw = self.raw.blitCommandEncoder();
            let raw = raw.ok_or_else(|| err!(Execution, "Metal gives no blit encoder"))?;
            self.encoder = Encoder::Blit(raw);
        }
        match &self.encoder {
            Encoder::Blit(raw) => Ok(raw),
            _ => unreachable!("just opened"),
        }
    }

    /// Encodes a kernel call that was checked.
    fn encode(&mut self, pipeline: &Arc<dyn Pipeline>, dispatch: &Dispatch<'_>) -> Result<()> {
        let metal = MetalPipeline::of(pipeline)?;
        self.compute()?;
        let Encoder::Compute { raw, pipeline: set } = &mut self.encoder else {
            unreachable!("just opened")
        };
        if !std::ptr::eq(*set, metal) {
            raw.setComputePipelineState(&metal.raw);
            // Compared only: while it is set, the submission keeps it where it is.
            *set = metal;
            self.in_use.keep(Kept::Pipeline(pipeline.clone()));
            self.names.add(&metal.name);
        }
        for (index, argument) in dispatch.arguments.iter().enumerate() {
            match argument {
                None => {}
                Some(Argument::Buffer { buffer, offset, .. }) => {
                    let (bound, at) = MetalBuffer::of(buffer)?.bind(*offset);
                    // SAFETY: the offset lies inside the buffer, which is kept; the index is one
                    // of the table's.
                    unsafe { raw.setBuffer_offset_atIndex(Some(bound), at, index) };
                    self.in_use.keep(Kept::Buffer(buffer.clone()));
                }
                Some(Argument::Bytes(bytes)) => {
                    let start = std::ptr::NonNull::from(bytes.as_slice()).cast();
                    // SAFETY: Metal copies the bytes, of which there are some, at once.
                    unsafe { raw.setBytes_length_atIndex(start, bytes.len(), index) };
                }
            }
        }
        for (index, &bytes) in dispatch.threadgroup_memory.iter().enumerate() {
            if bytes != 0 {
                // SAFETY: the length is a multiple of 16 and within the device's limit.
                unsafe { raw.setThreadgroupMemoryLength_atIndex(bytes as usize, index) };
            }
        }
        match dispatch.grid {
            Grid::Threads { threads, group } => {
                raw.dispatchThreads_threadsPerThreadgroup(size(threads), size(group));
            }
            Grid::Threadgroups { groups, group } => {
                raw.dispatchThreadgroups_threadsPerThreadgroup(size(groups), size(group));
            }
        }
        Ok(())
    }

    /// Encodes a call of one of the device's own kernels.
    pub(super) fn call(&mut self, pipeline: &Arc<dyn Pipeline>, call: &Call) -> Result<()> {
        let dispatch = Dispatch {
            pipeline,
            library: None,
            arguments: &call.arguments,
            threadgroup_memory: &[],
            grid: call.grid,
        };
        if check(MetalPipeline::of(pipeline)?, &dispatch, &self.device.limits)? {
            self.encode(pipeline, &dispatch)?;
        }
        Ok(())
    }

    /// Encodes a copy between operands of the same sizes.
    pub(super) fn copy_strided(&mut self, dst: &Operand, src: &Operand) -> Result<()> {
        let Some(call) = strided_copy::call(dst, src)? else { return Ok(()) };
        let pipeline = self.device.kernel(OwnKernel::Copy(dst.dtype, src.dtype))?;
        self.call(&pipeline, &call)
    }

    fn encode_copy(
        &mut self,
        src: (&BufferRef, usize),
        dst: (&BufferRef, usize),
        len: usize,
    ) -> Result<()> {
        let (from, from_at) = MetalBuffer::of(src.0)?.bind(src.1);
        let (to, to_at) = MetalBuffer::of(dst.0)?.bind(dst.1);
        if [from_at, to_at, len].iter().any(|n| !n.is_multiple_of(BLIT_STEP)) {
            let (to, from) =
                (strided_copy::byte_range(dst, len)?, strided_copy::byte_range(src, len)?);
            return self.copy_strided(&to, &from);
        }
        for buffer in [src.0, dst.0] {
            self.in_use.keep(Kept::Buffer(buffer.clone()));
        }
        let blit = self.blit()?;
        for at in (0..len).step_by(BLIT_PART) {
            let part = BLIT_PART.min(len - at);
            // SAFETY: both ranges lie inside their buffers, which are kept.
            unsafe {
                blit.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                    from,
                    from_at + at,
                    to,
                    to_at + at,
                    part,
                );
            }
        }
        Ok(())
    }

    fn encode_fill(&mut self, dst: (&BufferRef, usize), len: usize, value: u8) -> Result<()> {
        let (to, to_at) = MetalBuffer::of(dst.0)?.bind(dst.1);
        if !to_at.is_multiple_of(BLIT_STEP) || !len.is_multiple_of(BLIT_STEP) {
            let Some(call) = strided_copy::fill(dst, len, value)? else { return Ok(()) };
            let pipeline = self.device.kernel(OwnKernel::Copy(DType::U8, DType::U8))?;
            return self.call(&pipeline, &call);
        }
        self.in_use.keep(Kept::Buffer(dst.0.clone()));
        let blit = self.blit()?;
        for at in (0..len).step_by(BLIT_PART) {
            let part = NSRange::new(to_at + at, BLIT_PART.min(len - at));
            blit.fillBuffer_range_value(to, part, value);
        }
        Ok(())
    }

    /// Submits what was encoded; `next` says whether more commands follow in this buffer.
    fn submit(&mut self, next: bool) -> Result<MetalSubmission> {
        guarded("submitting commands", || {
            let last = self.commit_root(next);
            self.count = 0;
            let names = std::mem::take(&mut self.names);
            Ok(MetalSubmission::new(std::mem::take(&mut self.profiled), last, names))
        })
    }

    /// Commits the command buffers that are underneath now.
    fn commit_root(&mut self, next: bool) -> Committed {
        self.end_encoding();
        let root = self.watch();
        let in_use = std::mem::take(&mut self.in_use);
        let release = in_use.clone();
        let completed = RcBlock::new(move |_: std::ptr::NonNull<Raw>| release.release());
        // SAFETY: the block may be called on any thread: what it holds may be.
        unsafe { root.addCompletedHandler(RcBlock::as_ptr(&completed)) };
        if next {
            // SAFETY: no encoder is open.
            unsafe { self.raw.commitAndContinue() };
        } else {
            self.raw.commit();
        }
        Committed::new(std::mem::take(&mut self.roots), in_use)
    }
}

impl Drop for MetalCommandBuffer {
    fn drop(&mut self) {
        let _ = guarded("giving up commands", || {
            // An encoder must not go without being ended.
            self.end_encoding();
            // What MPSGraph committed runs nevertheless, and with it what is kept here.
            for root in self.roots.drain(..) {
                if root.status() >= MTLCommandBufferStatus::Committed {
                    root.waitUntilCompleted();
                }
            }
            Ok(())
        });
    }
}

impl CommandBuffer for MetalCommandBuffer {
    fn dispatch(&mut self, dispatch: &Dispatch<'_>) -> Result<()> {
        guarded("encoding a kernel", || {
            for argument in dispatch.arguments.iter().flatten() {
                if let Argument::Buffer { buffer, .. } = argument {
                    MetalBuffer::of(buffer)?;
                }
            }
            if check(MetalPipeline::of(dispatch.pipeline)?, dispatch, &self.device.limits)? {
                self.encode(dispatch.pipeline, dispatch)?;
                self.count += 1;
            }
            Ok(())
        })
    }

    fn copy(
        &mut self,
        src: (&BufferRef, usize),
        dst: (&BufferRef, usize),
        len: usize,
    ) -> Result<()> {
        check_range(src.0, src.1, len, "the source of a copy")?;
        check_range(dst.0, dst.1, len, "the destination of a copy")?;
        let place = |(buffer, at): (&BufferRef, usize)| buffer.contents().addr() + at;
        let apart = place(src).abs_diff(place(dst));
        if apart < len {
            return Err(err!(
                InvalidArgument,
                "cannot copy {len} bytes to a place {apart} bytes away: the ranges overlap"
            ));
        }
        if len == 0 {
            return Ok(());
        }
        guarded("encoding a copy", || self.encode_copy(src, dst, len))?;
        self.count += 1;
        Ok(())
    }

    fn fill(&mut self, dst: (&BufferRef, usize), len: usize, value: u8) -> Result<()> {
        check_range(dst.0, dst.1, len, "the destination of a fill")?;
        if len == 0 {
            return Ok(());
        }
        guarded("encoding a fill", || self.encode_fill(dst, len, value))?;
        self.count += 1;
        Ok(())
    }

    fn run(&mut self, executable: &Arc<dyn Executable>, operands: &[Operand]) -> Result<()> {
        guarded("encoding an op graph", || {
            let metal = MetalExecutable::of(executable)?;
            metal.encode(self, operands)?;
            self.names.add(metal.name());
            self.keep(Kept::Executable(executable.clone()));
            self.count += 1;
            Ok(())
        })
    }

    /// Submits the command alone: Metal tells times of command buffers only.
    fn describe(&mut self, work: Work) {
        let committed = guarded("submitting a command", || Ok(self.commit_root(true)));
        // What cannot be submitted now cannot be later: that is where it is told.
        if let Ok(committed) = committed {
            self.profiled.push(Profiled { work, committed });
        }
    }

    fn command_count(&self) -> usize {
        self.count
    }

    fn commit(mut self: Box<Self>) -> Result<Box<dyn Submission>> {
        Ok(Box::new(self.submit(false)?))
    }

    fn commit_and_continue(mut self: Box<Self>) -> Result<Continued> {
        let submission = self.submit(true)?;
        Ok((Box::new(submission), Some(self)))
    }
}

fn size([x, y, z]: Extent) -> MTLSize {
    MTLSize { width: x as usize, height: y as usize, depth: z as usize }
}
