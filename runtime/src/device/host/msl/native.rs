//! Compiled kernels, and what of them is compiled only when a launch asks for it.

use std::ffi::c_void;
use std::sync::OnceLock;

use super::compile::Library;
use super::module::Module;
use super::{Entry, Launch, LaunchMode};
use crate::Result;

/// `extern "C" uint64_t loops(const Launch*, void* arena, uint64_t begin, uint64_t end)`: an
/// [`Entry`] that gives the first threadgroup that it has not run, as its loops are not for it.
pub type LoopsEntry = unsafe extern "C" fn(*const Launch, *mut c_void, u64, u64) -> u64;

/// One compiled kernel. Keeps its code loaded; dropping it unloads the code.
#[derive(Debug)]
pub struct Native {
    pub(super) code: Code,
    /// How to call it.
    pub mode: LaunchMode,
    /// What the compiler had against its loops, if it could be split and yet runs on fibers.
    pub fallback: Option<String>,
    /// Bytes of threadgroup memory that the kernel declares itself.
    pub static_threadgroup_memory: u32,
    /// Holds the code; `None` if that is a function of this program.
    #[expect(dead_code, reason = "held so that the code stays loaded")]
    pub(super) library: Option<Library>,
    /// The library's file with its debug information; only in the checked mode.
    pub(super) file: Option<Vec<u8>>,
}

/// The code of a kernel.
#[derive(Debug)]
pub(super) enum Code {
    /// All of it.
    Whole(Entry),
    /// Loops over the threads of a threadgroup, and the same kernel for the groups that they are
    /// not for: those of a launch of another shape than the kernel's code asks for.
    Loops(LoopsEntry, Option<Fibers>),
}

/// A kernel on fibers, compiled once somebody needs it.
#[derive(Debug)]
pub(super) struct Fibers {
    module: Module,
    kernel: String,
    compiled: OnceLock<Result<Box<Native>>>,
}

impl Fibers {
    pub(super) fn new(module: Module, kernel: &str) -> Fibers {
        Fibers { module, kernel: kernel.to_owned(), compiled: OnceLock::new() }
    }

    fn get(&self) -> Result<&Native> {
        let compiled = self
            .compiled
            .get_or_init(|| self.module.compile_for_fibers(&self.kernel).map(Box::new));
        compiled.as_deref().map_err(Clone::clone)
    }
}

impl Native {
    /// A function of this program as a kernel.
    #[cfg(test)]
    pub(crate) fn of(entry: Entry, mode: LaunchMode) -> Native {
        let code = Code::Whole(entry);
        let (fallback, library, file) = (None, None, None);
        Native { code, mode, fallback, static_threadgroup_memory: 0, library, file }
    }

    /// Whether it runs as loops over the threads of a threadgroup, where the launch allows it.
    pub fn loops(&self) -> bool {
        matches!(self.code, Code::Loops(..))
    }

    /// Runs the items `begin..end` of a launch: threads of a plain kernel, threadgroups of one that
    /// synchronises ([`Entry`]).
    ///
    /// # Errors
    /// The launch needs fibers and the kernel cannot be compiled for them.
    ///
    /// # Safety
    /// The buffers of the launch are valid for all that the kernel does with them, `begin..end` lies
    /// in its grid, and `arena` is what an [`Entry`] of this mode needs.
    pub unsafe fn run(
        &self,
        launch: &Launch,
        arena: *mut c_void,
        begin: u64,
        end: u64,
    ) -> Result<()> {
        match &self.code {
            // SAFETY: as the caller promises.
            Code::Whole(entry) => unsafe { entry(launch, arena, begin, end) },
            Code::Loops(loops, fibers) => {
                let mut next = begin;
                loop {
                    // SAFETY: as the caller promises; what is left is a part of the range.
                    next = unsafe { loops(launch, arena, next, end) };
                    let (true, Some(fibers)) = (next < end, fibers) else { break };
                    // SAFETY: as above; fibers use the same arena when the loops do not.
                    unsafe { fibers.get()?.run(launch, arena, next, next + 1) }?;
                    next += 1;
                }
            }
        }
        Ok(())
    }
}
