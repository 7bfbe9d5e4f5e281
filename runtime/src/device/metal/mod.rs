//! The Metal device: an Apple GPU, driven through Metal, Metal Performance Shaders and MPSGraph.
//!
//! | module | what it knows |
//! |---|---|
//! | [`command`], [`submission`] | command buffers, lazily opened encoders; waiting, failures |
//! | [`checks`] | the limits of a kernel call |
//! | [`graph`] | op graphs lowered to MPSGraph |
//! | [`library`], [`pipeline`], [`archive`] | shader libraries, kernels, their code on disk |
//! | [`buffer`] | shared storage, pooled or wrapped without a copy |
//! | [`errors`] | Objective-C's errors and exceptions |
//! | [`owned`], [`shared`] | objects that outlive an entry; which of them may cross threads |
//!
//! Every entry runs in an autorelease pool of its own and lets no exception out; objects that are
//! kept go in a pool too.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLCommandQueue, MTLCreateSystemDefaultDevice, MTLDevice};
use parking_lot::Mutex;

use self::buffer::{Block, MetalBuffer};
use self::errors::guarded;
use self::owned::Owned;
use crate::Result;
use crate::device::host::pool::Pool;
use crate::device::host::{self, Options};
use crate::device::kernels::{products, strided_copy};
use crate::device::{
    BufferRef, CommandBuffer, Device, DeviceKind, DeviceLibrary, Executable, Keep, Limits,
    Pipeline, PoolStats,
};
use crate::error::err;
use crate::graph::GraphKey;
use crate::tensor::DType;

pub mod archive;
pub mod buffer;
pub mod checks;
pub mod command;
pub mod errors;
pub mod graph;
pub mod library;
pub mod owned;
pub mod pipeline;
pub mod shared;
pub mod submission;

// Without CoreGraphics in the process there is no default device on macOS.
#[cfg(target_vendor = "apple")]
#[link(name = "CoreGraphics", kind = "framework")]
unsafe extern "C" {}

/// An Apple GPU as a [`Device`].
#[derive(Debug)]
pub struct MetalDevice {
    inner: Arc<Inner>,
}

/// What the device and its command buffers share.
#[derive(Debug)]
pub struct Inner {
    raw: Owned<ProtocolObject<dyn MTLDevice>>,
    queue: Owned<ProtocolObject<dyn MTLCommandQueue>>,
    limits: Limits,
    pool: Arc<Pool<Block>>,
    libraries: library::Libraries,
    /// The device's own kernels that were asked for.
    kernels: Mutex<HashMap<OwnKernel, Arc<dyn Pipeline>>>,
}

/// A kernel of the device's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum OwnKernel {
    /// Copies elements of the second dtype to ones of the first, between any strides.
    Copy(DType, DType),
    /// A product that MPSGraph lacks.
    Product(DType),
}

impl MetalDevice {
    /// The system's GPU with a pool of its own that keeps so many bytes; `None` if there is no
    /// GPU.
    ///
    /// # Errors
    /// Metal cannot be used.
    pub fn new(pool_bytes: usize) -> Result<Option<MetalDevice>> {
        MetalDevice::with_archives(pool_bytes, archive_folder())
    }

    /// The same with compiled pipelines kept in a folder, or nowhere. Others must not be able to
    /// write to it.
    ///
    /// # Errors
    /// Metal cannot be used.
    pub fn with_archives(
        pool_bytes: usize,
        archives: Option<PathBuf>,
    ) -> Result<Option<MetalDevice>> {
        guarded("opening the GPU", || {
            let Some(raw) = MTLCreateSystemDefaultDevice().map(Owned::from) else {
                return Ok(None);
            };
            let queue = raw
                .newCommandQueue()
                .ok_or_else(|| err!(System, "{} gives no command queue", raw.name()))?;
            let limits = limits(&raw);
            let inner = Inner {
                limits,
                pool: Arc::new(Pool::with_largest(pool_bytes, limits.max_buffer_length)),
                libraries: library::Libraries::new(raw.clone(), archives),
                kernels: Mutex::default(),
                queue: queue.into(),
                raw,
            };
            Ok(Some(MetalDevice { inner: Arc::new(inner) }))
        })
    }

    /// The process's Metal device, opened on first use and kept; `None` if there is no GPU. Its
    /// pool has the bound that `ETMETAL_POOL_BYTES` gives.
    ///
    /// # Errors
    /// As for [`MetalDevice::new`]; or a variable of the environment cannot be used.
    pub fn shared() -> Result<Option<Arc<MetalDevice>>> {
        static SHARED: OnceLock<Result<Option<Arc<MetalDevice>>>> = OnceLock::new();
        let open = || Ok(MetalDevice::new(Options::from_env()?.pool_bytes)?.map(Arc::new));
        SHARED.get_or_init(open).clone()
    }
}

/// What the GPU can do. The argument table and the bytes that travel inline are the same for all.
fn limits(device: &ProtocolObject<dyn MTLDevice>) -> Limits {
    let most = device.maxThreadsPerThreadgroup();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Limits {
        max_threads_per_threadgroup: number(most.width),
        max_threadgroup_memory: number(device.maxThreadgroupMemoryLength()),
        simd_width: 32,
        max_buffer_arguments: 31,
        max_inline_bytes: 4096,
        max_buffer_length: device.maxBufferLength(),
    }
}

/// Where compiled pipelines are kept across runs; `None` if there is no private folder for them.
fn archive_folder() -> Option<PathBuf> {
    host::msl::private_folder(&host::msl::cache_dir().join("metal"))
}

impl Inner {
    /// A buffer of the pool.
    fn allocate(&self, len: usize) -> Result<BufferRef> {
        Ok(Arc::new(MetalBuffer::allocate(&self.raw, &self.pool, len)?))
    }

    /// The pipeline of a kernel of the device's own, compiled when it is first asked for.
    fn kernel(&self, kernel: OwnKernel) -> Result<Arc<dyn Pipeline>> {
        if let Some(pipeline) = self.kernels.lock().get(&kernel) {
            return Ok(pipeline.clone());
        }
        // Compiled without the lock: other commands must not wait for it.
        let (source, name) = match kernel {
            OwnKernel::Copy(dst, src) => (strided_copy::source(dst, src), strided_copy::KERNEL),
            OwnKernel::Product(dtype) => (products::source(dtype), products::KERNEL),
        };
        let pipeline = self.libraries.get(&source)?.pipeline(name)?;
        Ok(self.kernels.lock().entry(kernel).or_insert(pipeline).clone())
    }
}

impl Device for MetalDevice {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Metal
    }

    fn name(&self) -> String {
        objc2::rc::autoreleasepool(|_| self.inner.raw.name().to_string())
    }

    fn limits(&self) -> Limits {
        self.inner.limits
    }

    fn allocate(&self, len: usize) -> Result<BufferRef> {
        guarded("allocating a buffer", || self.inner.allocate(len))
    }

    unsafe fn wrap(&self, ptr: *mut u8, len: usize, keep: Option<Keep>) -> Result<BufferRef> {
        guarded("wrapping memory", || {
            if len == 0 {
                return Ok(Arc::new(MetalBuffer::empty(ptr, self.inner.allocate(0)?)) as BufferRef);
            }
            // SAFETY: the caller's promise is the same.
            let buffer = unsafe { MetalBuffer::borrow(&self.inner.raw, ptr, len, keep) }?;
            Ok(Arc::new(buffer) as BufferRef)
        })
    }

    fn compile(&self, source: &str) -> Result<Arc<dyn DeviceLibrary>> {
        Ok(self.inner.libraries.get(source)?)
    }

    fn precompile(&self, sources: &[&str]) -> Vec<Result<Arc<dyn DeviceLibrary>>> {
        let libraries = self.inner.libraries.precompile(sources);
        libraries.into_iter().map(|library| Ok(library? as Arc<dyn DeviceLibrary>)).collect()
    }

    fn lower(&self, key: &GraphKey) -> Result<Arc<dyn Executable>> {
        graph::lower(&self.inner, key)
    }

    fn command_buffer(&self) -> Result<Box<dyn CommandBuffer>> {
        Ok(Box::new(command::MetalCommandBuffer::new(self.inner.clone())?))
    }

    fn pool_stats(&self) -> PoolStats {
        self.inner.pool.stats()
    }

    fn trim_pool(&self) {
        objc2::rc::autoreleasepool(|_| self.inner.pool.trim());
    }
}
