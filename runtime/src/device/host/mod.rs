//! The host device: the same MSL, compiled by clang and run on CPU cores.
//!
//! | module | what it knows |
//! |---|---|
//! | [`command`], [`recording`] | command buffers: recorded, run at commit |
//! | [`launch`], [`cost`] | one kernel call: its checks, how it is spread over threads |
//! | [`graph`] | op graphs lowered to CPU code |
//! | [`library`], [`cache`], [`parallel`] | shader libraries, shared and compiled ahead |
//! | [`pipeline`] | one native kernel and what it declares |
//! | [`msl`] | MSL to native code |
//! | [`checked`] | what the checked mode finds, told to people |
//! | [`threads`], [`board`], [`arenas`] | the thread pool, stacks for synchronising kernels |
//! | [`buffer`], [`pool`], [`memory`] | buffers, their reuse, where they come from |

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::Result;
use crate::device::{
    BufferRef, CommandBuffer, Device, DeviceKind, DeviceLibrary, Executable, Keep, Limits,
    PoolStats,
};
use crate::graph::GraphKey;

pub mod arenas;
pub mod board;
pub mod buffer;
pub mod cache;
pub mod checked;
pub mod command;
pub mod cost;
pub mod graph;
pub mod launch;
pub mod library;
pub mod memory;
pub mod msl;
pub mod options;
pub mod parallel;
pub mod pipeline;
pub mod pool;
pub mod recording;
#[cfg(test)]
pub(crate) mod testing;
pub mod threads;

pub use options::Options;

/// The CPU cores of this machine as a [`Device`].
#[derive(Debug)]
pub struct HostDevice {
    inner: Arc<Inner>,
    libraries: library::Libraries,
}

/// What the device and its command buffers share.
#[derive(Debug)]
struct Inner {
    pool: Arc<pool::Pool>,
    threads: threads::Threads,
    arenas: arenas::Arenas,
    /// Empty recordings, for the next command buffers.
    recordings: Mutex<Vec<recording::Idle>>,
}

/// What Apple GPUs can do; the length of a buffer is the machine's.
const LIMITS: Limits = Limits {
    max_threads_per_threadgroup: 1024,
    max_threadgroup_memory: 32 << 10,
    simd_width: 32,
    max_buffer_arguments: 31,
    max_inline_bytes: 4096,
    max_buffer_length: usize::MAX,
};

impl HostDevice {
    /// A device of its own, with its own pool and threads.
    pub fn new(options: Options) -> HostDevice {
        HostDevice {
            libraries: library::Libraries::new(options.flavor()),
            inner: Arc::new(Inner {
                pool: Arc::new(pool::Pool::new(options.pool_bytes)),
                threads: threads::Threads::new(options.threads),
                arenas: arenas::Arenas::default(),
                recordings: Mutex::default(),
            }),
        }
    }

    /// The process's host device, created on first use from the environment (see
    /// [`Options::from_env`]) and kept.
    ///
    /// # Errors
    /// A variable of the environment has a value that cannot be used.
    pub fn try_shared() -> Result<Arc<HostDevice>> {
        static SHARED: OnceLock<Result<Arc<HostDevice>>> = OnceLock::new();
        SHARED.get_or_init(|| Ok(Arc::new(HostDevice::new(Options::from_env()?)))).clone()
    }

    /// [`HostDevice::try_shared`] where the environment is known to be good.
    ///
    /// # Panics
    /// A variable of the environment has a value that cannot be used.
    pub fn shared() -> Arc<HostDevice> {
        HostDevice::try_shared().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Threads that work on one command.
    pub fn threads(&self) -> usize {
        self.inner.threads.count()
    }

    /// Changes [`HostDevice::threads`] from the next command on; at least 1.
    pub fn set_threads(&self, threads: usize) {
        self.inner.threads.set_count(threads);
    }
}

impl Device for HostDevice {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Host
    }

    fn name(&self) -> String {
        processor_name().unwrap_or_else(|| std::env::consts::ARCH.to_owned())
    }

    fn limits(&self) -> Limits {
        Limits { max_buffer_length: self.inner.pool.largest(), ..LIMITS }
    }

    fn allocate(&self, len: usize) -> Result<BufferRef> {
        Ok(Arc::new(buffer::PooledBuffer::new(&self.inner.pool, len)?))
    }

    unsafe fn wrap(&self, ptr: *mut u8, len: usize, keep: Option<Keep>) -> Result<BufferRef> {
        // SAFETY: the caller's promise is the same.
        Ok(Arc::new(unsafe { buffer::BorrowedBuffer::new(ptr, len, keep) }?))
    }

    fn compile(&self, source: &str) -> Result<Arc<dyn DeviceLibrary>> {
        Ok(self.libraries.get(source)?)
    }

    fn precompile(&self, sources: &[&str]) -> Vec<Result<Arc<dyn DeviceLibrary>>> {
        let libraries = self.libraries.precompile(sources);
        libraries.into_iter().map(|library| Ok(library? as Arc<dyn DeviceLibrary>)).collect()
    }

    fn lower(&self, key: &GraphKey) -> Result<Arc<dyn Executable>> {
        graph::lower(key)
    }

    fn command_buffer(&self) -> Result<Box<dyn CommandBuffer>> {
        Ok(Box::new(command::HostCommandBuffer::new(self.inner.clone())))
    }

    fn pool_stats(&self) -> PoolStats {
        self.inner.pool.stats()
    }

    fn trim_pool(&self) {
        self.inner.pool.trim();
        self.inner.arenas.trim();
    }
}

/// The processor's name as its maker gives it.
#[cfg(target_os = "linux")]
fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The processor's name as its maker gives it.
#[cfg(target_vendor = "apple")]
fn processor_name() -> Option<String> {
    system_text(c"machdep.cpu.brand_string")
}

/// What Apple's systems tell about themselves under this name.
#[cfg(target_vendor = "apple")]
pub(crate) fn system_text(name: &std::ffi::CStr) -> Option<String> {
    let mut text = [0u8; 256];
    let mut len = text.len();
    // SAFETY: the name is a C string, and `len` bytes of `text` may be written.
    let status = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            text.as_mut_ptr().cast(),
            &mut len,
            std::ptr::null_mut(),
            0,
        )
    };
    let text = std::ffi::CStr::from_bytes_until_nul(&text).ok()?;
    (status == 0).then(|| text.to_string_lossy().into_owned())
}

/// What Apple's systems tell about themselves under this name: nothing on others.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn system_text(_: &std::ffi::CStr) -> Option<String> {
    None
}

/// The processor's name as its maker gives it.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn processor_name() -> Option<String> {
    None
}
