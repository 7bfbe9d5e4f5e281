//! Pipelines, and what Metal's reflection says that a kernel wants bound.

use std::any::Any;
use std::sync::Arc;

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLBinding, MTLBindingType, MTLBufferBinding, MTLComputePipelineDescriptor,
    MTLComputePipelineReflection, MTLComputePipelineState, MTLDevice, MTLFunction,
    MTLPipelineOption,
};

use super::archive::Archive;
use super::errors::text;
use super::owned::Owned;
use crate::Result;
use crate::device::Pipeline;
use crate::error::err;

/// One kernel of the Metal device.
#[derive(Debug)]
pub struct MetalPipeline {
    pub(super) name: Arc<str>,
    pub(super) raw: Owned<ProtocolObject<dyn MTLComputePipelineState>>,
    /// Buffer parameters that the kernel uses, by ascending index.
    pub(super) buffers: Vec<Parameter>,
    /// Threadgroup memory parameters that it uses, by ascending index.
    pub(super) threadgroups: Vec<Parameter>,
}

/// A parameter that a dispatch must bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The index that the source gives it.
    pub index: usize,
    /// Its name in the source.
    pub name: String,
    /// What the offset of its buffer must be a multiple of.
    pub alignment: usize,
    /// Bytes of one element.
    pub bytes: usize,
}

impl MetalPipeline {
    /// The pipeline of a function: from the archive if it has it, else compiled and added to it.
    ///
    /// # Errors
    /// Metal cannot make it.
    pub fn new(
        device: &ProtocolObject<dyn MTLDevice>,
        function: &ProtocolObject<dyn MTLFunction>,
        name: &str,
        archive: Option<&Archive>,
    ) -> Result<MetalPipeline> {
        let descriptor = MTLComputePipelineDescriptor::new();
        descriptor.setComputeFunction(Some(function));
        let mut reflection = None;
        let mut make = |options: MTLPipelineOption| {
            let options = options | MTLPipelineOption::BindingInfo;
            device.newComputePipelineStateWithDescriptor_options_reflection_error(
                &descriptor,
                options | MTLPipelineOption::BufferTypeInfo,
                Some(&mut reflection),
            )
        };
        let found = archive.and_then(|archive| {
            archive.search(&descriptor, || make(MTLPipelineOption::FailOnBinaryArchiveMiss).ok())
        });
        let raw = match found {
            Some(raw) => raw,
            None => {
                let raw = make(MTLPipelineOption::None)
                    .map_err(|error| err!(ShaderCompile, "{}", text(&error)))?;
                if let Some(archive) = archive {
                    archive.add(&descriptor);
                }
                raw
            }
        };
        let (buffers, threadgroups) = reflection.as_deref().map(parameters).unwrap_or_default();
        Ok(MetalPipeline { name: name.into(), raw: raw.into(), buffers, threadgroups })
    }

    /// The Metal device's pipeline behind `pipeline`.
    ///
    /// # Errors
    /// Another device made it.
    pub fn of(pipeline: &Arc<dyn Pipeline>) -> Result<&MetalPipeline> {
        pipeline.as_any().downcast_ref().ok_or_else(|| {
            err!(
                InvalidArgument,
                "the pipeline of kernel {:?} was made by another device",
                pipeline.name()
            )
        })
    }
}

/// The buffer and threadgroup parameters of a kernel.
fn parameters(reflection: &MTLComputePipelineReflection) -> (Vec<Parameter>, Vec<Parameter>) {
    let (mut buffers, mut threadgroups) = (Vec::new(), Vec::new());
    for binding in reflection.bindings().to_vec() {
        if !binding.isUsed() {
            continue;
        }
        let (index, name) = (binding.index(), binding.name().to_string());
        match binding.r#type() {
            MTLBindingType::Buffer => {
                // SAFETY: bindings of this type conform to this protocol.
                let binding: Retained<ProtocolObject<dyn MTLBufferBinding>> =
                    unsafe { Retained::cast_unchecked(binding) };
                let alignment = binding.bufferAlignment().max(1);
                let bytes = binding.bufferDataSize();
                buffers.push(Parameter { index, name, alignment, bytes });
            }
            MTLBindingType::ThreadgroupMemory => {
                threadgroups.push(Parameter { index, name, alignment: 1, bytes: 0 });
            }
            _ => {}
        }
    }
    for parameters in [&mut buffers, &mut threadgroups] {
        parameters.sort_by_key(|parameter| parameter.index);
    }
    (buffers, threadgroups)
}

impl Pipeline for MetalPipeline {
    fn name(&self) -> &str {
        &self.name
    }
    fn max_threads_per_threadgroup(&self) -> u32 {
        u32::try_from(self.raw.maxTotalThreadsPerThreadgroup()).unwrap_or(u32::MAX)
    }
    fn simd_width(&self) -> u32 {
        u32::try_from(self.raw.threadExecutionWidth()).unwrap_or(u32::MAX)
    }
    fn static_threadgroup_memory(&self) -> u32 {
        u32::try_from(self.raw.staticThreadgroupMemoryLength()).unwrap_or(u32::MAX)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
