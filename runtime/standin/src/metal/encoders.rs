//! Command encoders.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Mutex;

use etmetal::device::Grid;
use objc2::rc::Retained;
use objc2::runtime::{NSObject, NSObjectProtocol, ProtocolObject};
use objc2::{DefinedClass, Message, define_class};
use objc2_foundation::NSRange;
use objc2_metal::{
    MTLBlitCommandEncoder, MTLBuffer, MTLCommandEncoder, MTLComputeCommandEncoder,
    MTLComputePipelineState, MTLSize,
};

use super::buffer::SharedBuffer;
use super::command::{Bound, Command, Commands};
use super::library::PipelineState;
use super::ours;
use crate::violations::violation;

/// Entries of the argument table.
const ARGUMENTS: usize = 31;
/// Bytes that travel inline.
const INLINE: usize = 4096;
/// What places and lengths of blits are multiples of.
const BLIT_STEP: usize = 4;

#[derive(Default)]
struct Tables {
    ended: bool,
    pipeline: Option<Retained<PipelineState>>,
    arguments: Vec<Option<Bound>>,
    threadgroup: Vec<u32>,
}

/// What an encoder encodes into, and what is set.
pub struct Encoding {
    commands: Retained<Commands>,
    tables: Mutex<Tables>,
}

impl Drop for Encoding {
    fn drop(&mut self) {
        if !self.tables.get_mut().unwrap().ended {
            violation("metal", "an encoder is released without endEncoding");
        }
    }
}

impl Encoding {
    /// The encoding of an encoder that was just opened.
    pub fn of(commands: Retained<Commands>) -> Encoding {
        Encoding { commands, tables: Mutex::default() }
    }

    fn is_open(&self, what: &str) -> bool {
        if self.tables.lock().unwrap().ended {
            violation("metal", format!("{what} after endEncoding"));
            return false;
        }
        self.commands.is_open(what)
    }

    fn end(&self) {
        if self.is_open("endEncoding") {
            self.tables.lock().unwrap().ended = true;
            self.commands.end();
        }
    }

    fn bind(&self, index: usize, bound: Option<Bound>) {
        if index >= ARGUMENTS {
            return violation("metal", format!("argument index {index}"));
        }
        let arguments = &mut self.tables.lock().unwrap().arguments;
        if arguments.len() <= index {
            arguments.resize_with(index + 1, || None);
        }
        arguments[index] = bound;
    }

    fn dispatch(&self, grid: Grid) {
        let tables = self.tables.lock().unwrap();
        let Some(pipeline) = tables.pipeline.clone() else {
            return violation("metal", "a dispatch without a pipeline");
        };
        let (Grid::Threads { group, .. } | Grid::Threadgroups { group, .. }) = grid;
        let most = etmetal::device::Pipeline::max_threads_per_threadgroup(&**pipeline.on_host());
        let threads: u64 = group.iter().map(|&n| u64::from(n)).product();
        if threads == 0 || threads > u64::from(most) {
            return violation("metal", format!("a threadgroup of {threads} threads"));
        }
        self.commands.push(Command::Dispatch {
            pipeline,
            arguments: tables.arguments.clone(),
            threadgroup: tables.threadgroup.clone(),
            grid,
        });
    }
}

define_class!(
    /// Encodes kernel calls.
    #[unsafe(super(NSObject))]
    #[name = "StandinComputeEncoder"]
    #[ivars = Encoding]
    pub struct Compute;

    unsafe impl NSObjectProtocol for Compute {}

    unsafe impl MTLCommandEncoder for Compute {
        #[unsafe(method(endEncoding))]
        fn end(&self) {
            self.ivars().end();
        }
    }

    unsafe impl MTLComputeCommandEncoder for Compute {
        #[unsafe(method(setComputePipelineState:))]
        fn set_pipeline(&self, state: &ProtocolObject<dyn MTLComputePipelineState>) {
            if self.ivars().is_open("setComputePipelineState:") {
                let state = ours::<PipelineState>(state).retain();
                self.ivars().tables.lock().unwrap().pipeline = Some(state);
            }
        }

        #[unsafe(method(setBuffer:offset:atIndex:))]
        fn set_buffer(
            &self,
            buffer: Option<&ProtocolObject<dyn MTLBuffer>>,
            offset: usize,
            index: usize,
        ) {
            if !self.ivars().is_open("setBuffer:offset:atIndex:") {
                return;
            }
            let buffer = buffer.map(|buffer| ours::<SharedBuffer>(buffer).retain());
            if let Some(buffer) = &buffer
                && offset > buffer.len()
            {
                let len = buffer.len();
                return violation("metal", format!("setBuffer: offset {offset} of {len} bytes"));
            }
            self.ivars().bind(index, buffer.map(|buffer| Bound::Buffer(buffer, offset)));
        }

        #[unsafe(method(setBytes:length:atIndex:))]
        fn set_bytes(&self, bytes: NonNull<c_void>, len: usize, index: usize) {
            if !self.ivars().is_open("setBytes:length:atIndex:") {
                return;
            }
            if len == 0 || len > INLINE {
                return violation("metal", format!("setBytes: {len} bytes"));
            }
            let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u8>(), len) };
            self.ivars().bind(index, Some(Bound::Bytes(bytes.to_vec())));
        }

        #[unsafe(method(setThreadgroupMemoryLength:atIndex:))]
        fn set_threadgroup(&self, len: usize, index: usize) {
            if !self.ivars().is_open("setThreadgroupMemoryLength:atIndex:") {
                return;
            }
            if len % 16 != 0 || index >= ARGUMENTS {
                return violation("metal", format!("threadgroup memory {index}: {len} bytes"));
            }
            let lengths = &mut self.ivars().tables.lock().unwrap().threadgroup;
            if lengths.len() <= index {
                lengths.resize(index + 1, 0);
            }
            lengths[index] = len as u32;
        }

        #[unsafe(method(dispatchThreads:threadsPerThreadgroup:))]
        fn dispatch_threads(&self, threads: MTLSize, group: MTLSize) {
            if self.ivars().is_open("dispatchThreads:threadsPerThreadgroup:") {
                let grid = Grid::Threads { threads: extent(threads), group: extent(group) };
                self.ivars().dispatch(grid);
            }
        }

        #[unsafe(method(dispatchThreadgroups:threadsPerThreadgroup:))]
        fn dispatch_groups(&self, groups: MTLSize, group: MTLSize) {
            if self.ivars().is_open("dispatchThreadgroups:threadsPerThreadgroup:") {
                let grid = Grid::Threadgroups { groups: extent(groups), group: extent(group) };
                self.ivars().dispatch(grid);
            }
        }
    }
);

define_class!(
    /// Encodes copies and fills.
    #[unsafe(super(NSObject))]
    #[name = "StandinBlitEncoder"]
    #[ivars = Encoding]
    pub struct Blit;

    unsafe impl NSObjectProtocol for Blit {}

    unsafe impl MTLCommandEncoder for Blit {
        #[unsafe(method(endEncoding))]
        fn end(&self) {
            self.ivars().end();
        }
    }

    unsafe impl MTLBlitCommandEncoder for Blit {
        #[unsafe(method(copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:))]
        fn copy(
            &self,
            src: &ProtocolObject<dyn MTLBuffer>,
            src_offset: usize,
            dst: &ProtocolObject<dyn MTLBuffer>,
            dst_offset: usize,
            len: usize,
        ) {
            if !self.ivars().is_open("copyFromBuffer:") {
                return;
            }
            let src = (ours::<SharedBuffer>(src).retain(), src_offset);
            let dst = (ours::<SharedBuffer>(dst).retain(), dst_offset);
            if is_range(&src, len) && is_range(&dst, len) {
                self.ivars().commands.push(Command::Copy { src, dst, len });
            }
        }

        #[unsafe(method(fillBuffer:range:value:))]
        fn fill(&self, buffer: &ProtocolObject<dyn MTLBuffer>, range: NSRange, value: u8) {
            if !self.ivars().is_open("fillBuffer:range:value:") {
                return;
            }
            let dst = (ours::<SharedBuffer>(buffer).retain(), range.location);
            if is_range(&dst, range.length) {
                self.ivars().commands.push(Command::Fill { dst, len: range.length, value });
            }
        }
    }
);

fn is_range((buffer, offset): &(Retained<SharedBuffer>, usize), len: usize) -> bool {
    let inside = offset.checked_add(len).is_some_and(|end| end <= buffer.len());
    let aligned = offset.is_multiple_of(BLIT_STEP) && len.is_multiple_of(BLIT_STEP) && len != 0;
    if !inside || !aligned {
        let all = buffer.len();
        violation("metal", format!("a blit of {len} bytes at {offset} of a buffer of {all}"));
    }
    inside && aligned
}

fn extent(size: MTLSize) -> [u32; 3] {
    [size.width, size.height, size.depth].map(|n| u32::try_from(n).unwrap_or(u32::MAX))
}
