//! What a kernel of the checked mode tells of an access that it must not make.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first such access of a dispatch. Mirrored by `struct Fault` in `checked.h`, whose code
/// writes it; nothing in it may be read before [`Fault::is_there`].
#[derive(Debug)]
#[repr(C)]
pub struct Fault {
    state: AtomicU32,
    kind: u32,
    /// The address; in threadgroup memory the bytes from the start of the variable, which may be
    /// negative.
    address: u64,
    /// Bytes of the access.
    pub bytes: u64,
    is_store: u32,
    /// Index of the thread in its threadgroup.
    pub thread: u32,
    /// Position of the threadgroup in the grid.
    pub group: [u32; 3],
    /// The instruction, in bytes from the start of the library.
    pub place: u32,
    /// Name of the threadgroup variable; null for a threadgroup argument.
    variable: *const c_char,
    variable_bytes: u64,
    argument: u32,
    other_thread: u32,
    other_is_store: u32,
    other_place: u32,
}

/// What is wrong with the access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind<'f> {
    /// It lies outside of every argument, or in none as a whole.
    Memory {
        /// The address.
        address: u64,
    },
    /// It is a store to an argument that the kernel may only read.
    ReadOnly {
        /// The address.
        address: u64,
    },
    /// It lies outside of every threadgroup variable; this is the nearest.
    Threadgroup(Threadgroup<'f>),
    /// No barrier separates it from another thread's access to the same threadgroup memory.
    Race {
        /// What both touch.
        at: Threadgroup<'f>,
        /// Index of the other thread in the threadgroup.
        other_thread: u32,
        /// Whether the other, earlier access was a store.
        other_is_store: bool,
        /// The other instruction, as [`Fault::place`].
        other_place: u32,
    },
}

/// A place in threadgroup memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threadgroup<'f> {
    /// The variable's name; `None` for a threadgroup argument.
    pub variable: Option<&'f CStr>,
    /// Index of the threadgroup argument, if it is one.
    pub argument: u32,
    /// Bytes of the variable or argument.
    pub bytes: u64,
    /// Bytes from its start.
    pub offset: i64,
}

impl Fault {
    /// None yet.
    pub fn none() -> Fault {
        Fault {
            state: AtomicU32::new(0),
            kind: 0,
            address: 0,
            bytes: 0,
            is_store: 0,
            thread: 0,
            group: [0; 3],
            place: 0,
            variable: std::ptr::null(),
            variable_bytes: 0,
            argument: 0,
            other_thread: 0,
            other_is_store: 0,
            other_place: 0,
        }
    }

    /// Whether there was such an access. Only when all threads of the dispatch have ended.
    pub fn is_there(&self) -> bool {
        self.state.load(Ordering::Acquire) != 0
    }

    /// Whether the access is a store and not a load.
    pub fn is_store(&self) -> bool {
        self.is_store != 0
    }

    /// What is wrong.
    ///
    /// # Safety
    /// The code of the kernel is still loaded: it holds the variable's name.
    pub unsafe fn kind(&self) -> FaultKind<'_> {
        let address = self.address;
        let threadgroup = || Threadgroup {
            // SAFETY: not null, so a literal in the kernel's code.
            variable: (!self.variable.is_null()).then(|| unsafe { CStr::from_ptr(self.variable) }),
            argument: self.argument,
            bytes: self.variable_bytes,
            offset: address.cast_signed(),
        };
        match self.kind {
            2 => FaultKind::ReadOnly { address },
            3 => FaultKind::Threadgroup(threadgroup()),
            4 => FaultKind::Race {
                at: threadgroup(),
                other_thread: self.other_thread,
                other_is_store: self.other_is_store != 0,
                other_place: self.other_place,
            },
            _ => FaultKind::Memory { address },
        }
    }
}
