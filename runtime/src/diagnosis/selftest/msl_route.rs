//! The host device as a GPU: operators that have kernels run those, not native code.

use std::sync::Arc;

use crate::Result;
use crate::device::{
    BufferRef, CommandBuffer, Device, DeviceKind, DeviceLibrary, Executable, Keep, Limits,
    PoolStats,
};
use crate::graph::GraphKey;

/// A device that says that it is a GPU.
#[derive(Debug)]
pub struct MslRoute(Arc<dyn Device>);

impl MslRoute {
    /// The device as a GPU.
    pub fn of(device: Arc<dyn Device>) -> MslRoute {
        MslRoute(device)
    }
}

impl Device for MslRoute {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Metal
    }
    fn name(&self) -> String {
        self.0.name()
    }
    fn limits(&self) -> Limits {
        self.0.limits()
    }
    fn allocate(&self, len: usize) -> Result<BufferRef> {
        self.0.allocate(len)
    }
    unsafe fn wrap(&self, ptr: *mut u8, len: usize, keep: Option<Keep>) -> Result<BufferRef> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.wrap(ptr, len, keep) }
    }
    fn compile(&self, source: &str) -> Result<Arc<dyn DeviceLibrary>> {
        self.0.compile(source)
    }
    fn precompile(&self, sources: &[&str]) -> Vec<Result<Arc<dyn DeviceLibrary>>> {
        self.0.precompile(sources)
    }
    fn lower(&self, key: &GraphKey) -> Result<Arc<dyn Executable>> {
        self.0.lower(key)
    }
    fn command_buffer(&self) -> Result<Box<dyn CommandBuffer>> {
        self.0.command_buffer()
    }
    fn pool_stats(&self) -> PoolStats {
        self.0.pool_stats()
    }
    fn trim_pool(&self) {
        self.0.trim_pool();
    }
}
