//! Runs kernels directly, for tests: no device, no thread pool.

use std::ffi::c_void;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::toolchain::{Flavor, Search, Toolchain};
use super::{ARENA_SIZE, Launch, LaunchMode, Module, Native};
use crate::Result;

/// The toolchain of the tests, with a cache directory of this process.
pub(crate) fn toolchain() -> &'static Arc<Toolchain> {
    static SHARED: OnceLock<(tempfile::TempDir, Arc<Toolchain>)> = OnceLock::new();
    let (_, toolchain) = SHARED.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let toolchain = toolchain_at(dir.path());
        (dir, toolchain)
    });
    toolchain
}

/// The same for kernels on fibers alone.
pub(crate) fn fibers_toolchain() -> &'static Arc<Toolchain> {
    static SHARED: OnceLock<Arc<Toolchain>> = OnceLock::new();
    let cache = toolchain().cache().dir().unwrap();
    SHARED.get_or_init(|| find(cache, Flavor::Fibers))
}

/// The system's compiler with another cache directory.
pub(crate) fn toolchain_at(cache: &Path) -> Arc<Toolchain> {
    find(cache, Flavor::Loops)
}

/// The same for the checked mode.
pub(crate) fn checked_toolchain_at(cache: &Path) -> Arc<Toolchain> {
    find(cache, Flavor::Checked)
}

fn find(cache: &Path, flavor: Flavor) -> Arc<Toolchain> {
    let search = Search { path: std::env::var_os("PATH"), ..Search::default() };
    Toolchain::find_with(&search, cache, flavor).unwrap()
}

/// A fiber arena of this thread.
pub(crate) struct Arena {
    mapping: *mut c_void,
    base: *mut c_void,
}

impl Arena {
    pub(crate) fn new() -> Arena {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh anonymous mapping.
        let mapping =
            unsafe { libc::mmap(std::ptr::null_mut(), 2 * ARENA_SIZE, protection, flags, -1, 0) };
        assert_ne!(mapping, libc::MAP_FAILED);
        let offset = mapping.align_offset(ARENA_SIZE);
        // SAFETY: the mapping is twice as large as the arena, so the aligned part lies in it.
        let base = unsafe { mapping.byte_add(offset) };
        Arena { mapping, base }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no kernel runs.
        unsafe { libc::munmap(self.mapping, 2 * ARENA_SIZE) };
    }
}

/// Memory with the alignment that buffers of a device have.
#[derive(Clone)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// One argument: memory that the kernel uses in place, or a copy that is written back.
struct Bound {
    address: *mut c_void,
    bytes: usize,
    aligned: Option<Vec<Line>>,
}

/// One dispatch under construction.
pub(crate) struct Dispatch<'a> {
    buffers: Vec<Bound>,
    threadgroup_lengths: [u32; 8],
    grid: [u32; 3],
    group: [u32; 3],
    arena: Option<&'a Arena>,
}

impl<'a> Dispatch<'a> {
    /// A dispatch of `grid` threads in groups of `group`.
    pub(crate) fn new(grid: [u32; 3], group: [u32; 3]) -> Self {
        Dispatch { buffers: Vec::new(), threadgroup_lengths: [0; 8], grid, group, arena: None }
    }

    /// Binds the next buffer.
    pub(crate) fn arg<T>(mut self, data: &'a mut [T]) -> Self {
        let bytes = size_of_val(data);
        let mut aligned = vec![Line([0; 64]); bytes.div_ceil(64)];
        // SAFETY: both are valid for `bytes` bytes and apart from each other.
        unsafe { aligned.as_mut_ptr().cast::<u8>().copy_from(data.as_ptr().cast(), bytes) };
        let address = data.as_mut_ptr().cast();
        self.buffers.push(Bound { address, bytes, aligned: Some(aligned) });
        self
    }

    /// Binds the next buffer to memory that others may use at the same time.
    pub(crate) fn address(mut self, address: usize, bytes: usize) -> Self {
        self.buffers.push(Bound { address: address as *mut c_void, bytes, aligned: None });
        self
    }

    /// Sets the bytes of a threadgroup argument.
    pub(crate) fn threadgroup(mut self, index: usize, bytes: u32) -> Self {
        self.threadgroup_lengths[index] = bytes;
        self
    }

    /// Uses this arena and not one of its own.
    pub(crate) fn arena(mut self, arena: &'a Arena) -> Self {
        self.arena = Some(arena);
        self
    }

    /// Runs the whole grid.
    pub(crate) fn run(mut self, native: &Native) {
        let pointer = |b: &mut Bound| match &mut b.aligned {
            Some(lines) => lines.as_mut_ptr().cast(),
            None => b.address,
        };
        let pointers: Vec<_> = self.buffers.iter_mut().map(pointer).collect();
        let sizes: Vec<_> = self.buffers.iter().map(|b| b.bytes as u64).collect();
        let groups = std::array::from_fn(|i| self.grid[i].div_ceil(self.group[i]));
        let launch = Launch {
            buffers: pointers.as_ptr(),
            sizes: sizes.as_ptr(),
            buffer_count: pointers.len() as u64,
            grid: self.grid,
            group: self.group,
            groups,
            writable: u32::MAX,
            threadgroup_lengths: self.threadgroup_lengths,
            fault: std::ptr::null_mut(),
        };
        let count = |extent: [u32; 3]| extent.iter().map(|&n| u64::from(n)).product::<u64>();
        let own;
        let (arena, total) = match native.mode {
            LaunchMode::Plain => (std::ptr::null_mut(), count(self.grid)),
            LaunchMode::Fibers => {
                let arena = match self.arena {
                    Some(arena) => arena,
                    None => {
                        own = Arena::new();
                        &own
                    }
                };
                (arena.base, count(groups))
            }
        };
        // In two parts, as two workers would take them; the first is the larger one.
        let middle = total - total / 10;
        for (begin, end) in [(0, middle), (middle, total)] {
            // SAFETY: the buffers outlive the call and the tests bind what their kernels use.
            unsafe { native.run(&launch, arena, begin, end) }.unwrap();
        }
        for bound in &self.buffers {
            if let Some(lines) = &bound.aligned {
                let target: *mut u8 = bound.address.cast();
                // SAFETY: the slice is borrowed for as long as the dispatch.
                unsafe { target.copy_from(lines.as_ptr().cast(), bound.bytes) };
            }
        }
    }
}

/// Parses a source with the shared toolchain.
pub(crate) fn module(source: &str) -> Result<Module> {
    Module::parse(source, toolchain())
}

/// Compiles one kernel of a source.
pub(crate) fn kernel(source: &str, name: &str) -> Native {
    module(source).and_then(|m| m.compile(name)).unwrap_or_else(|e| panic!("{e}"))
}
