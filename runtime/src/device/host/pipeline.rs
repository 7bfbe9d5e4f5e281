//! Pipelines: one native kernel and what its source declares.

use std::any::Any;
use std::fmt;

use super::cost::Cost;
use super::msl::{Entry, LaunchMode};
use crate::device::Pipeline;

/// One kernel of the host device.
pub struct HostPipeline {
    pub(super) name: String,
    pub(super) entry: Entry,
    pub(super) mode: LaunchMode,
    /// Buffer parameters, by ascending index.
    pub(super) buffers: Vec<Parameter>,
    /// Threadgroup memory parameters, by ascending index.
    pub(super) threadgroups: Vec<Parameter>,
    pub(super) max_threads: u32,
    pub(super) static_memory: u32,
    pub(super) cost: Cost,
    /// What keeps the code that `entry` points to.
    pub(super) code: Option<Box<dyn Any + Send + Sync>>,
}

/// A parameter that a dispatch must bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The index that the source gives it.
    pub index: u32,
    /// Its name in the source.
    pub name: String,
}

impl fmt::Debug for HostPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostPipeline({:?}, {:?})", self.name, self.mode)
    }
}

impl Pipeline for HostPipeline {
    fn name(&self) -> &str {
        &self.name
    }
    fn max_threads_per_threadgroup(&self) -> u32 {
        self.max_threads
    }
    fn simd_width(&self) -> u32 {
        super::LIMITS.simd_width
    }
    fn static_threadgroup_memory(&self) -> u32 {
        self.static_memory
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
