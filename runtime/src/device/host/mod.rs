//! The host device: the same MSL, compiled by clang and run on CPU cores.

use std::sync::Arc;

pub mod msl;

/// The CPU cores of this machine as a [`Device`](super::Device).
#[derive(Debug)]
pub struct HostDevice {}

impl HostDevice {
    /// The process's host device, created on first use.
    pub fn shared() -> Arc<HostDevice> {
        todo!()
    }
}

impl super::Device for HostDevice {
    fn kind(&self) -> super::DeviceKind {
        super::DeviceKind::Host
    }
    fn name(&self) -> String {
        todo!()
    }
    fn limits(&self) -> super::Limits {
        todo!()
    }
    fn allocate(&self, _len: usize) -> crate::Result<super::BufferRef> {
        todo!()
    }
    unsafe fn wrap(
        &self,
        _ptr: *mut u8,
        _len: usize,
        _keep: Option<super::Keep>,
    ) -> crate::Result<super::BufferRef> {
        todo!()
    }
    fn compile(&self, _source: &str) -> crate::Result<Arc<dyn super::DeviceLibrary>> {
        todo!()
    }
    fn lower(&self, _key: &crate::graph::GraphKey) -> crate::Result<Arc<dyn super::Executable>> {
        todo!()
    }
    fn command_buffer(&self) -> crate::Result<Box<dyn super::CommandBuffer>> {
        todo!()
    }
    fn pool_stats(&self) -> super::PoolStats {
        todo!()
    }
    fn trim_pool(&self) {
        todo!()
    }
}
