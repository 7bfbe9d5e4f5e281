//! A device whose second command buffer fails, as a GPU may.

use super::*;
use crate::device::{
    BufferRef, DeviceKind, DeviceLibrary, Dispatch, Executable, Keep, Limits, Operand, PoolStats,
};
use crate::error::err;
use crate::graph::GraphKey;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
struct Failing {
    host: Arc<HostDevice>,
    commits: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Commands(usize, Arc<AtomicUsize>);

#[derive(Debug)]
struct Work(Result<()>);

impl Device for Failing {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Host
    }
    fn name(&self) -> String {
        "failing".to_owned()
    }
    fn limits(&self) -> Limits {
        self.host.limits()
    }
    fn allocate(&self, len: usize) -> Result<BufferRef> {
        self.host.allocate(len)
    }
    unsafe fn wrap(&self, _: *mut u8, _: usize, _: Option<Keep>) -> Result<BufferRef> {
        unimplemented!()
    }
    fn compile(&self, _: &str) -> Result<Arc<dyn DeviceLibrary>> {
        unimplemented!()
    }
    fn lower(&self, _: &GraphKey) -> Result<Arc<dyn Executable>> {
        unimplemented!()
    }
    fn command_buffer(&self) -> Result<Box<dyn CommandBuffer>> {
        Ok(Box::new(Commands(0, self.commits.clone())))
    }
    fn pool_stats(&self) -> PoolStats {
        self.host.pool_stats()
    }
    fn trim_pool(&self) {}
}

impl CommandBuffer for Commands {
    fn dispatch(&mut self, _: &Dispatch<'_>) -> Result<()> {
        unimplemented!()
    }
    fn copy(&mut self, _: (&BufferRef, usize), _: (&BufferRef, usize), _: usize) -> Result<()> {
        unimplemented!()
    }
    fn fill(&mut self, _: (&BufferRef, usize), _: usize, _: u8) -> Result<()> {
        self.0 += 1;
        Ok(())
    }
    fn run(&mut self, _: &Arc<dyn Executable>, _: &[Operand]) -> Result<()> {
        unimplemented!()
    }
    fn command_count(&self) -> usize {
        self.0
    }
    fn commit(self: Box<Self>) -> Result<Box<dyn Submission>> {
        let number = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        let failed = Err(err!(Execution, "command buffer {number} failed"));
        Ok(Box::new(Work(if number == 1 { Ok(()) } else { failed })))
    }
}

impl Submission for Work {
    fn wait(&mut self) -> Result<()> {
        self.0.clone()
    }
    fn is_done(&self) -> bool {
        true
    }
}

#[test]
fn the_first_failure_comes_back_from_the_next_wait() {
    let host = HostDevice::shared();
    let device: Arc<dyn Device> = Arc::new(Failing { host, commits: Arc::default() });
    let stream = Stream::with_flush_interval(device.clone(), 1);
    let buffer = device.allocate(16).unwrap();
    for _ in 0..4 {
        stream.fill((&buffer, 0), 16, 0).unwrap();
    }
    let text = stream.commit_and_wait().unwrap_err().to_string();
    assert_eq!(text, "command buffer 2 failed");
    stream.commit_and_wait().unwrap();
    stream.fill((&buffer, 0), 16, 0).unwrap();
    assert!(stream.commit_and_wait().is_err(), "later failures are not lost");
}
