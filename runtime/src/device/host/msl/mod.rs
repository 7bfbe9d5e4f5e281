//! Metal Shading Language to native code.
//!
//! MSL is C++ with attributes, so clang does the real work:
//!
//! 1. [`Module::parse`] lets clang expand macros and includes (against empty standard headers),
//!    reads the result as tokens (`lex`), refuses what Apple's compiler refuses (`strict`), and
//!    finds the kernels with their parameters (`kernels`).
//! 2. [`Module::compile`] rewrites the tokens into C++ (`rewrite`), adds an entry for one kernel
//!    (`emit`), and compiles both against our own freestanding `metal_stdlib` (`include/`) into a
//!    small shared library that needs nothing but `memcpy` and its kin (`compile`).
//! 3. Both keep their results on disk (`cache`); when they are warm no compiler runs. The key
//!    covers the source, our headers and rules (`version`), the flags, the compiler's file and
//!    the processor.
//!
//! A kernel that does not wait for other threads is a vectorised loop over the grid
//! ([`LaunchMode::Plain`]). In one that does, each thread of a threadgroup is a fiber
//! ([`LaunchMode::Fibers`]): see `include/fiber.h`. A fiber has a stack of 120 KiB without a guard
//! page (one for each of 1024 fibers per worker would exhaust the system's mappings); instead a
//! function whose frame is larger than 64 KiB does not compile, and MSL has no recursion.
//!
//! In the checked mode ([`Toolchain::find`]) every kernel runs on fibers, and each load and store
//! is looked at before it is done (`include/checked.h`, `include/races.h`). What must not be done
//! is left undone, noted in a [`Fault`], and placed in the source by the debug information of the
//! compiled kernel (`places`).
//!
//! There is no thread-local state: a variable per library would exhaust static TLS after some
//! hundred kernels.

use std::ffi::c_void;

mod cache;
mod compile;
mod declarations;
mod diagnostics;
mod emit;
mod fault;
mod fission;
#[cfg(test)]
mod harness;
mod headers;
mod kernels;
mod lex;
mod module;
mod native;
mod parameters;
mod places;
mod rewrite;
mod split_index;
mod stored;
mod strict;
#[cfg(test)]
mod tests;
mod toolchain;
mod version;
mod waiting;

pub use cache::{cache_dir, private_folder};
pub use fault::{Fault, FaultKind, Threadgroup};
pub use fission::{Outcome, Shape};
pub use kernels::KernelInfo;
pub use module::{Module, compile_all};
pub use native::Native;
pub use parameters::{Access, Parameter, ParameterKind};
pub use places::Place;
pub use toolchain::{Flavor, Toolchain};

/// What an entry gets to know about one dispatch. Mirrored by `struct Launch` in `launch.h`.
#[derive(Debug)]
#[repr(C)]
pub struct Launch {
    /// Address of each buffer argument; for `setBytes` the address of the bytes.
    pub buffers: *const *mut c_void,
    /// Bytes from that address to the end of the buffer (for the checked mode).
    pub sizes: *const u64,
    /// Entries of `buffers` and `sizes`.
    pub buffer_count: u64,
    /// Threads of the whole grid.
    pub grid: [u32; 3],
    /// Threads of a full threadgroup.
    pub group: [u32; 3],
    /// Threadgroups of the grid (edge groups included).
    pub groups: [u32; 3],
    /// A bit for each buffer that the kernel may write to (for the checked mode).
    pub writable: u32,
    /// Bytes of each `threadgroup` argument, by threadgroup index.
    pub threadgroup_lengths: [u32; 8],
    /// Where code of the checked mode notes what it stopped; null for other code.
    pub fault: *mut Fault,
}

impl Launch {
    /// A launch of nothing, to be filled in.
    pub const EMPTY: Launch = Launch {
        buffers: std::ptr::null(),
        sizes: std::ptr::null(),
        buffer_count: 0,
        grid: [0; 3],
        group: [0; 3],
        groups: [0; 3],
        writable: 0,
        threadgroup_lengths: [0; 8],
        fault: std::ptr::null_mut(),
    };
}

/// `extern "C" void entry(const Launch*, void* arena, uint64_t begin, uint64_t end)`.
///
/// For a plain kernel `begin..end` are linear thread indices (x fastest) and `arena` is unused
/// (null). For a synchronising kernel they are linear threadgroup indices and `arena` is the
/// calling worker's fiber arena: [`ARENA_SIZE`] bytes, aligned to [`ARENA_SIZE`], zeroed once
/// when it was mapped, used by one entry at a time.
pub type Entry = unsafe extern "C" fn(*const Launch, *mut c_void, u64, u64);

/// Size and alignment of a fiber arena: stacks of 1024 threads, threadgroup memory, bookkeeping.
/// Reserved, not committed: only the pages in use are resident.
pub const ARENA_SIZE: usize = 1 << 27;

/// How an entry walks its grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchMode {
    /// A vectorised loop over threads: the kernel does not synchronise.
    Plain,
    /// One fiber per thread of a threadgroup.
    Fibers,
}
