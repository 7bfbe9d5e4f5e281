//! MTLBuffer.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;

use block2::RcBlock;
use etmetal::device::{BufferRef, Device};
use objc2::rc::Retained;
use objc2::runtime::{NSObject, NSObjectProtocol};
use objc2::{AnyThread, DefinedClass, define_class, msg_send};
use objc2_metal::{MTLAllocation, MTLBuffer, MTLResource};

/// Bytes of a page on Apple silicon.
pub const PAGE: usize = 16 << 10;

/// Bytes of the largest buffer.
pub const LARGEST: usize = 1 << 32;

type Deallocator = RcBlock<dyn Fn(NonNull<c_void>, usize)>;

/// Memory, and whose it is.
pub struct Memory {
    start: NonNull<u8>,
    len: usize,
    owner: Owner,
    /// The memory as the host device has it.
    host: BufferRef,
}

enum Owner {
    Ours,
    Other(Option<Deallocator>),
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.owner {
            Owner::Other(Some(deallocator)) => deallocator.call((self.start.cast(), self.len)),
            Owner::Other(None) => {}
            Owner::Ours => unsafe {
                // Whoever still reads it reads nonsense.
                self.start.as_ptr().write_bytes(0xDD, self.len);
                dealloc(self.start.as_ptr(), layout(self.len));
            },
        }
    }
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, PAGE).expect("a length that memory can have")
}

define_class!(
    /// A buffer in shared storage.
    #[unsafe(super(NSObject))]
    #[name = "StandinBuffer"]
    #[ivars = Memory]
    pub struct SharedBuffer;

    unsafe impl NSObjectProtocol for SharedBuffer {}
    unsafe impl MTLAllocation for SharedBuffer {}
    unsafe impl MTLResource for SharedBuffer {}

    unsafe impl MTLBuffer for SharedBuffer {
        #[unsafe(method(length))]
        fn length(&self) -> usize {
            self.len()
        }

        #[unsafe(method(contents))]
        fn contents(&self) -> NonNull<c_void> {
            self.ivars().start.cast()
        }
    }
);

impl SharedBuffer {
    /// New memory. Its contents are nonsense, as Metal does not promise zeros to etmetal's pool.
    pub fn allocate(len: usize) -> Retained<Self> {
        let start = NonNull::new(unsafe { alloc(layout(len)) }).expect("memory");
        unsafe { start.as_ptr().write_bytes(0xA5, len) };
        Self::of(start, len, Owner::Ours)
    }

    /// Somebody else's memory.
    pub fn wrap(
        start: NonNull<u8>,
        len: usize,
        deallocator: Option<Deallocator>,
    ) -> Retained<Self> {
        Self::of(start, len, Owner::Other(deallocator))
    }

    fn of(start: NonNull<u8>, len: usize, owner: Owner) -> Retained<Self> {
        let host = unsafe { super::host().wrap(start.as_ptr(), len, None) }.expect("a range");
        let this = Self::alloc().set_ivars(Memory { start, len, owner, host });
        unsafe { msg_send![super(this), init] }
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.ivars().len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its memory as the host device has it.
    pub fn on_host(&self) -> &BufferRef {
        &self.ivars().host
    }
}
