//! The device trait: what the rest of the runtime asks of a device, and nothing more.
//!
//! # Contract
//!
//! * All memory is *shared*: a [`Buffer`] has an address that the CPU can read and write, as on
//!   Apple silicon. The CPU may touch a buffer only while no committed work uses it; the layers
//!   above see to that with [`CommandBuffer::commit`] and [`Submission::wait`].
//! * A command buffer keeps what its commands use (buffers, pipelines, executables) alive until
//!   its work has completed. Dropping the last reference to a pooled buffer returns it to the
//!   pool, so a buffer is reused only after the work that uses it.
//! * Commands of one command buffer run in order, each seeing the writes of those before it;
//!   command buffers of one queue run in the order of their commits.
//! * Limits are checked here, by the device, as Metal's own validation does: a violation is an
//!   [`Error`](crate::Error) at encode time and the command is not encoded.
//!
//! Two devices implement it: [`host`] runs the same shaders on CPU cores, everywhere; `metal`
//! drives an Apple GPU, on Apple's systems. What both of a GPU's libraries lack is in `kernels`.

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::Result;
use crate::graph::GraphKey;
use crate::profile::Work;
use crate::tensor::DType;

mod arguments;
pub mod host;
#[cfg(any(test, target_vendor = "apple", metal_standin))]
pub(crate) mod kernels;
#[cfg(any(target_vendor = "apple", metal_standin))]
pub mod metal;
mod per_device;

pub use arguments::{Argument, ArgumentTable};
pub use per_device::PerDevice;

/// Which implementation a device is. The value of `ETMETAL_DEVICE` that selects it is its name
/// in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The CPU cores of this machine.
    Host,
    /// An Apple GPU.
    Metal,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::Host => "host",
            DeviceKind::Metal => "metal",
        })
    }
}

/// What a device can do. The values of the host device are those of Apple GPUs, so that what
/// runs on it stays within what a Mac accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Threads of one threadgroup, at most.
    pub max_threads_per_threadgroup: u32,
    /// Bytes of threadgroup memory of one threadgroup, static and dynamic together.
    pub max_threadgroup_memory: u32,
    /// Threads of a SIMD group.
    pub simd_width: u32,
    /// Buffer arguments of a kernel: indices `0..max_buffer_arguments`.
    pub max_buffer_arguments: u32,
    /// Bytes of one `set_bytes` argument.
    pub max_inline_bytes: u32,
    /// Bytes of one buffer.
    pub max_buffer_length: usize,
}

/// One device. Shared by every model in the process; all methods may be called from any thread.
pub trait Device: Send + Sync + fmt::Debug {
    /// Which implementation this is.
    fn kind(&self) -> DeviceKind;

    /// A name to show to people, such as the processor's.
    fn name(&self) -> String;

    /// What it can do.
    fn limits(&self) -> Limits;

    /// A buffer of at least `len` bytes from the device's pool; its contents are unspecified.
    /// `len` 0 is ordinary and gives a buffer with a valid, aligned address.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory), naming the bytes asked for and in use.
    fn allocate(&self, len: usize) -> Result<BufferRef>;

    /// A buffer over memory that somebody else owns, without a copy. `keep` is dropped when the
    /// last user of the buffer is gone.
    ///
    /// # Safety
    /// `ptr..ptr + len` must stay readable, and writable if any command writes to it, until the
    /// buffer and all work that uses it are gone.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the device cannot use the range where
    /// it lies, so that it has to be copied; the range is none.
    unsafe fn wrap(&self, ptr: *mut u8, len: usize, keep: Option<Keep>) -> Result<BufferRef>;

    /// Compiles MSL source. What Apple's compiler refuses is refused.
    ///
    /// # Errors
    /// [`Error::ShaderCompile`](crate::Error::ShaderCompile) with the compiler's messages.
    fn compile(&self, source: &str) -> Result<Arc<dyn DeviceLibrary>>;

    /// [`Device::compile`] for many sources at once, kernels included where a device compiles
    /// those late: what loading a model does, so that its first run need not wait. A device
    /// that can does it in parallel. The result of each source stands at its place.
    fn precompile(&self, sources: &[&str]) -> Vec<Result<Arc<dyn DeviceLibrary>>> {
        sources.iter().map(|source| self.compile(source)).collect()
    }

    /// Builds the executable of an op graph (see [`crate::graph`], which caches it).
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported), naming the op and its dtypes.
    fn lower(&self, key: &GraphKey) -> Result<Arc<dyn Executable>>;

    /// An empty command buffer.
    ///
    /// # Errors
    /// The device is lost.
    fn command_buffer(&self) -> Result<Box<dyn CommandBuffer>>;

    /// Counters of the buffer pool.
    fn pool_stats(&self) -> PoolStats;

    /// Gives the pool's unused memory back to the system.
    fn trim_pool(&self);
}

/// What a borrowed buffer keeps alive.
pub type Keep = Arc<dyn Any + Send + Sync>;

/// A shared reference to a buffer; the last one returns or frees it.
pub type BufferRef = Arc<dyn Buffer>;

/// One range of memory that commands can use.
pub trait Buffer: Send + Sync + fmt::Debug {
    /// The CPU address of the first byte; never null, aligned to 64 bytes unless borrowed.
    fn contents(&self) -> *mut u8;
    /// Bytes that were asked for.
    fn len(&self) -> usize;
    /// Whether `len` is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The implementation's own type, for the device that made it.
    fn as_any(&self) -> &dyn Any;
}

/// A compiled shader library.
pub trait DeviceLibrary: Send + Sync + fmt::Debug {
    /// Names of its kernels (`host_name` where the source gives one), in source order.
    fn function_names(&self) -> Vec<String>;
    /// The pipeline of the named kernel.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound), listing the names there are;
    /// [`Error::ShaderCompile`](crate::Error::ShaderCompile) where pipelines compile late.
    fn pipeline(&self, name: &str) -> Result<Arc<dyn Pipeline>>;
}

/// One kernel, ready to dispatch.
pub trait Pipeline: Send + Sync + fmt::Debug {
    /// The kernel's name.
    fn name(&self) -> &str;
    /// Threads of a threadgroup, at most, for this kernel.
    fn max_threads_per_threadgroup(&self) -> u32;
    /// Threads of a SIMD group.
    fn simd_width(&self) -> u32;
    /// Bytes of threadgroup memory that the kernel declares itself.
    fn static_threadgroup_memory(&self) -> u32;
    /// The implementation's own type.
    fn as_any(&self) -> &dyn Any;
}

/// The executable of an op graph.
pub trait Executable: Send + Sync + fmt::Debug {
    /// The implementation's own type.
    fn as_any(&self) -> &dyn Any;
}

/// Sizes of a grid or of a threadgroup: x, y, z.
pub type Extent = [u32; 3];

/// How many threads a dispatch runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// `dispatchThreads`: exactly these threads; groups at the edges may be smaller.
    Threads {
        /// Threads of the whole grid.
        threads: Extent,
        /// Threads of a full threadgroup.
        group: Extent,
    },
    /// `dispatchThreadgroups`: this many full threadgroups.
    Threadgroups {
        /// Threadgroups of the grid.
        groups: Extent,
        /// Threads of each threadgroup.
        group: Extent,
    },
}

/// One kernel call.
#[derive(Debug)]
pub struct Dispatch<'a> {
    /// The kernel.
    pub pipeline: &'a Arc<dyn Pipeline>,
    /// Name of its shader library, for messages.
    pub library: Option<&'a Arc<str>>,
    /// Arguments by buffer index; `None` for an index that is not bound.
    pub arguments: &'a [Option<Argument>],
    /// Bytes of each `threadgroup` argument, by threadgroup index.
    pub threadgroup_memory: &'a [u32],
    /// How many threads.
    pub grid: Grid,
}

/// One kernel call whose arguments a command buffer may keep as they are.
#[derive(Debug)]
pub struct SharedDispatch<'a> {
    /// The kernel.
    pub pipeline: &'a Arc<dyn Pipeline>,
    /// Name of its shader library, for messages.
    pub library: Option<&'a Arc<str>>,
    /// Its arguments; whoever changes them while a command buffer has them changes a copy.
    pub arguments: &'a Rc<ArgumentTable>,
    /// How many threads.
    pub grid: Grid,
}

impl SharedDispatch<'_> {
    /// The same call, argument by argument.
    pub fn dispatch(&self) -> Dispatch<'_> {
        Dispatch {
            pipeline: self.pipeline,
            library: self.library,
            arguments: self.arguments.buffers(),
            threadgroup_memory: self.arguments.threadgroup_memory(),
            grid: self.grid,
        }
    }
}

/// One operand of an op graph: a view of a buffer.
#[derive(Debug, Clone)]
pub struct Operand {
    /// The buffer.
    pub buffer: BufferRef,
    /// Byte offset of element `[0, …, 0]`.
    pub offset: usize,
    /// Element type.
    pub dtype: DType,
    /// Sizes, in elements.
    pub sizes: SmallVec<[i64; 6]>,
    /// Strides, in elements, not negative.
    pub strides: SmallVec<[i64; 6]>,
}

/// Records commands and submits them. Used by one thread; not `Send`, as on Metal.
pub trait CommandBuffer: fmt::Debug {
    /// Encodes a kernel call.
    ///
    /// # Errors
    /// A limit is exceeded or an argument that the kernel reads is not bound; nothing is encoded.
    fn dispatch(&mut self, dispatch: &Dispatch<'_>) -> Result<()>;

    /// [`CommandBuffer::dispatch`] for a caller that shares its arguments: a device may keep the
    /// table until the work is done, and not each of its buffers.
    ///
    /// # Errors
    /// As for [`CommandBuffer::dispatch`].
    fn dispatch_shared(&mut self, dispatch: &SharedDispatch<'_>) -> Result<()> {
        self.dispatch(&dispatch.dispatch())
    }

    /// An empty table that nobody uses, of those that it has kept: for the arguments of the next
    /// call, so that nothing is allocated.
    fn spare_arguments(&mut self) -> Option<Rc<ArgumentTable>> {
        None
    }

    /// Encodes a copy of `len` bytes. The ranges must not overlap.
    ///
    /// # Errors
    /// A range leaves its buffer.
    fn copy(
        &mut self,
        src: (&BufferRef, usize),
        dst: (&BufferRef, usize),
        len: usize,
    ) -> Result<()>;

    /// Encodes a fill of `len` bytes with `value`.
    ///
    /// # Errors
    /// The range leaves the buffer.
    fn fill(&mut self, dst: (&BufferRef, usize), len: usize, value: u8) -> Result<()>;

    /// Encodes an op graph; operands in the order of its [`GraphKey`].
    ///
    /// # Errors
    /// An operand does not match the key, or leaves its buffer.
    fn run(&mut self, executable: &Arc<dyn Executable>, operands: &[Operand]) -> Result<()>;

    /// Tells what the command encoded last is, for the [profile](crate::profile): a device that
    /// can tell when it worked on each command records that. Called only while profiling.
    fn describe(&mut self, work: Work) {
        drop(work);
    }

    /// Commands encoded so far.
    fn command_count(&self) -> usize;

    /// Submits the commands. The work starts now and may run after the call returns.
    ///
    /// # Errors
    /// The device refused the work.
    fn commit(self: Box<Self>) -> Result<Box<dyn Submission>>;

    /// Submits the commands, and gives back the command buffer, now empty, where a device can go
    /// on with it. Without one the next commands need a new one.
    ///
    /// # Errors
    /// As for [`CommandBuffer::commit`].
    fn commit_and_continue(self: Box<Self>) -> Result<Continued> {
        Ok((self.commit()?, None))
    }

    /// Submits the commands, and gives back the command buffer, now empty, where it costs a device
    /// nothing to have one without commands lying about.
    ///
    /// # Errors
    /// As for [`CommandBuffer::commit`].
    fn commit_and_keep(self: Box<Self>) -> Result<Continued> {
        Ok((self.commit()?, None))
    }
}

/// What [`CommandBuffer::commit_and_continue`] gives.
pub type Continued = (Box<dyn Submission>, Option<Box<dyn CommandBuffer>>);

/// Work that was committed. Dropping it does not wait.
pub trait Submission: Send + fmt::Debug {
    /// Blocks until the work has completed.
    ///
    /// # Errors
    /// [`Error::Execution`](crate::Error::Execution) with what the device reports and the name
    /// of the kernel, if the work failed.
    fn wait(&mut self) -> Result<()>;
    /// Whether the work has completed (or failed) already.
    fn is_done(&self) -> bool;
}

/// Counters of a buffer pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes in buffers that are in use.
    pub in_use: usize,
    /// Bytes kept for reuse.
    pub cached: usize,
    /// The most bytes that were in use at once.
    pub peak: usize,
    /// Allocations served from the pool.
    pub hits: u64,
    /// Allocations that went to the system.
    pub misses: u64,
    /// Buffers given back to the system to stay within the pool's bound.
    pub evictions: u64,
}

thread_local! {
    /// What [`use_on_this_thread`] chose.
    static CHOSEN: std::cell::RefCell<Option<Arc<dyn Device>>> =
        const { std::cell::RefCell::new(None) };
}

/// Makes `device` the default device of the calling thread, for the models that it loads from now
/// on; `None` takes that back.
pub fn use_on_this_thread(device: Option<Arc<dyn Device>>) {
    CHOSEN.set(device);
}

/// The calling thread's device ([`use_on_this_thread`]), else the process's: `ETMETAL_DEVICE`
/// (`metal` or `host`), else Metal where there is a GPU, else the host. Created on first use and
/// kept.
///
/// # Errors
/// `ETMETAL_DEVICE` names no device of this build, or there is no GPU for it.
pub fn default_device() -> Result<Arc<dyn Device>> {
    if let Some(chosen) = CHOSEN.with_borrow(Clone::clone) {
        return Ok(chosen);
    }
    static DEFAULT: std::sync::OnceLock<Result<Arc<dyn Device>>> = std::sync::OnceLock::new();
    DEFAULT.get_or_init(|| device_named(std::env::var("ETMETAL_DEVICE").ok().as_deref())).clone()
}

/// The shared device of a name; without one, the best there is.
///
/// # Errors
/// It names no device of this build, or there is no GPU for it.
pub fn device_named(name: Option<&str>) -> Result<Arc<dyn Device>> {
    let host = || host::HostDevice::try_shared().map(|device| device as Arc<dyn Device>);
    match name {
        None | Some("") => metal_device()?.map_or_else(host, Ok),
        Some("host") => host(),
        #[cfg(any(target_vendor = "apple", metal_standin))]
        Some("metal") => metal_device()?.ok_or_else(|| {
            crate::error::err!(NotFound, "ETMETAL_DEVICE=metal, but this machine has no GPU")
        }),
        Some(other) => {
            let names = if cfg!(any(target_vendor = "apple", metal_standin)) {
                "\"metal\" or \"host\""
            } else {
                "\"host\""
            };
            Err(crate::error::err!(
                InvalidArgument,
                "ETMETAL_DEVICE={other:?} names no device of this build; use {names}"
            ))
        }
    }
}

/// The GPU, if there is one.
#[cfg(any(target_vendor = "apple", metal_standin))]
fn metal_device() -> Result<Option<Arc<dyn Device>>> {
    Ok(metal::MetalDevice::shared()?.map(|device| device as Arc<dyn Device>))
}

/// The GPU: only Apple's systems have Metal.
#[cfg(not(any(target_vendor = "apple", metal_standin)))]
fn metal_device() -> Result<Option<Arc<dyn Device>>> {
    Ok(None)
}
