//! The arguments of a kernel call.

use smallvec::SmallVec;

use super::BufferRef;
use crate::tensor::DType;

/// One argument of a kernel.
#[derive(Debug, Clone)]
pub enum Argument {
    /// A buffer from a byte offset.
    Buffer {
        /// The buffer.
        buffer: BufferRef,
        /// Byte offset of the kernel's first element.
        offset: usize,
        /// Bytes from there on that belong to the argument, where that is known to be less than
        /// the rest of the buffer: what the host's checked mode holds a kernel to.
        extent: Option<usize>,
        /// What the elements are, where that is known: how a comparison of devices reads them.
        dtype: Option<DType>,
    },
    /// A value that travels with the command (`setBytes`).
    Bytes(SmallVec<[u8; 16]>),
}

/// The arguments of one kernel call, by index: a block that is filled, shared with a command buffer
/// and used again, without a look at the reference counts of the buffers in it.
#[derive(Debug, Clone, Default)]
pub struct ArgumentTable {
    /// Behind those in use nothing is bound: they stay allocated.
    buffers: Vec<Option<Argument>>,
    in_use: usize,
    threadgroup_memory: Vec<u32>,
}

impl ArgumentTable {
    /// The table of these arguments.
    pub fn new(buffers: &[Option<Argument>], threadgroup_memory: &[u32]) -> ArgumentTable {
        ArgumentTable {
            buffers: buffers.to_vec(),
            in_use: buffers.len(),
            threadgroup_memory: threadgroup_memory.to_vec(),
        }
    }

    /// Buffer arguments by index; `None` for an index that is not bound.
    #[inline]
    pub fn buffers(&self) -> &[Option<Argument>] {
        &self.buffers[..self.in_use]
    }

    /// Bytes of each `threadgroup` argument, by its index.
    #[inline]
    pub fn threadgroup_memory(&self) -> &[u32] {
        &self.threadgroup_memory
    }

    /// Binds a buffer argument.
    #[inline]
    pub fn bind(&mut self, index: usize, argument: Argument) {
        *self.vacant(index) = Some(argument);
    }

    /// Binds `buffer` from `offset` on, with what is known of the argument. The fields are written
    /// where they stay: an [`Argument`] that is moved there is read before its stores are done.
    #[inline]
    pub fn bind_buffer(
        &mut self,
        index: usize,
        buffer: &BufferRef,
        offset: usize,
        (extent, dtype): (Option<usize>, Option<DType>),
    ) {
        let vacant = self.vacant(index);
        let buffer = buffer.clone();
        // It was none: there is nothing to drop.
        std::mem::forget(vacant.replace(Argument::Buffer { buffer, offset, extent, dtype }));
    }

    /// The place of a buffer argument, which is none now.
    #[inline]
    fn vacant(&mut self, index: usize) -> &mut Option<Argument> {
        if self.buffers.len() <= index {
            self.grow(index);
        }
        self.in_use = self.in_use.max(index + 1);
        if self.buffers[index].is_some() {
            self.unbind(index);
        }
        &mut self.buffers[index]
    }

    /// Unbinds a buffer argument.
    #[cold]
    pub fn unbind(&mut self, index: usize) {
        if let Some(argument) = self.buffers.get_mut(index) {
            *argument = None;
        }
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.buffers.resize_with((index + 1).next_multiple_of(8), || None);
    }

    /// Gives a `threadgroup` argument its bytes.
    pub fn bind_threadgroup(&mut self, index: usize, bytes: u32) {
        if self.threadgroup_memory.len() <= index {
            self.threadgroup_memory.resize(index + 1, 0);
        }
        self.threadgroup_memory[index] = bytes;
    }

    /// Unbinds all.
    pub fn clear(&mut self) {
        self.buffers[..self.in_use].fill_with(|| None);
        self.in_use = 0;
        self.threadgroup_memory.clear();
    }
}
