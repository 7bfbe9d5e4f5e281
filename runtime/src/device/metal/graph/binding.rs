//! Operands as MPSGraph takes them: without gaps, from the first byte of a buffer or, on newer
//! systems, from any. Others are packed into a buffer of their own first; results that lie
//! otherwise are copied to their place afterwards.

use objc2::rc::Retained;
use objc2::{AnyThread, available};
use objc2_foundation::{NSArray, NSNumber};
use objc2_metal_performance_shaders::{MPSDataType, MPSNDArray, MPSNDArrayDescriptor, MPSShape};
use objc2_metal_performance_shaders_graph::MPSGraphTensorData;
use smallvec::SmallVec;

use super::super::buffer::MetalBuffer;
use super::super::command::MetalCommandBuffer;
use super::super::submission::Kept;
use crate::Result;
use crate::device::Operand;
use crate::tensor::{DType, Layout};

/// How an operand is bound to a graph.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Which of the op's operands.
    pub operand: usize,
    /// Whether it is bound with its last two dimensions swapped, which the graph swaps back.
    pub transposed: bool,
    /// What MPSGraph takes its elements for.
    pub data_type: MPSDataType,
}

/// A result as it is bound.
pub struct Output {
    /// What the graph writes to.
    pub data: Retained<MPSGraphTensorData>,
    /// The packed result, to be copied to its place.
    packed: Option<Operand>,
}

impl Slot {
    /// What the graph reads.
    ///
    /// # Errors
    /// Out of memory.
    pub fn input(
        &self,
        commands: &mut MetalCommandBuffer,
        operand: &Operand,
    ) -> Result<Retained<MPSGraphTensorData>> {
        let operand = self.bound(operand);
        if let Some(data) = self.direct(commands, &operand)? {
            return Ok(data);
        }
        let packed = packed(commands, &operand)?;
        commands.copy_strided(&packed, &operand)?;
        self.whole(commands, &packed)
    }

    /// What the graph writes to.
    ///
    /// # Errors
    /// Out of memory.
    pub fn output(&self, commands: &mut MetalCommandBuffer, operand: &Operand) -> Result<Output> {
        let operand = self.bound(operand);
        if let Some(data) = self.direct(commands, &operand)? {
            return Ok(Output { data, packed: None });
        }
        let packed = packed(commands, &operand)?;
        Ok(Output { data: self.whole(commands, &packed)?, packed: Some(packed) })
    }

    /// The operand as it is bound.
    fn bound(&self, operand: &Operand) -> Operand {
        let mut operand = operand.clone();
        if self.transposed {
            let last = operand.sizes.len() - 1;
            operand.sizes.swap(last, last - 1);
            operand.strides.swap(last, last - 1);
        }
        operand
    }

    /// The operand itself, if MPSGraph can take it as it lies.
    fn direct(
        &self,
        commands: &MetalCommandBuffer,
        operand: &Operand,
    ) -> Result<Option<Retained<MPSGraphTensorData>>> {
        if !Layout::new(&operand.sizes, &operand.strides)?.is_contiguous() {
            return Ok(None);
        }
        let (_, at) = MetalBuffer::of(&operand.buffer)?.bind(operand.offset);
        if at == 0 {
            return self.whole(commands, operand).map(Some);
        }
        if available!(macos = 15.0, ios = 18.0, tvos = 18.0, visionos = 2.0) {
            return self.part(commands, operand).map(Some);
        }
        Ok(None)
    }

    /// An operand that begins with its buffer.
    fn whole(
        &self,
        commands: &MetalCommandBuffer,
        operand: &Operand,
    ) -> Result<Retained<MPSGraphTensorData>> {
        let (buffer, _) = MetalBuffer::of(&operand.buffer)?.bind(0);
        commands.keep(Kept::Buffer(operand.buffer.clone()));
        // SAFETY: the operand lies inside the buffer, which the commands keep.
        Ok(unsafe {
            MPSGraphTensorData::initWithMTLBuffer_shape_dataType(
                MPSGraphTensorData::alloc(),
                buffer,
                &shape(&operand.sizes),
                self.data_type,
            )
        })
    }

    /// An operand that begins somewhere in its buffer.
    fn part(
        &self,
        commands: &MetalCommandBuffer,
        operand: &Operand,
    ) -> Result<Retained<MPSGraphTensorData>> {
        let (buffer, at) = MetalBuffer::of(&operand.buffer)?.bind(operand.offset);
        commands.keep(Kept::Buffer(operand.buffer.clone()));
        // SAFETY: the operand lies inside the buffer, which the commands keep.
        unsafe {
            let descriptor = MPSNDArrayDescriptor::descriptorWithDataType_shape(
                self.data_type,
                &shape(&operand.sizes),
            );
            descriptor.setPreferPackedRows(true);
            let array = MPSNDArray::initWithBuffer_offset_descriptor(
                MPSNDArray::alloc(),
                buffer,
                at,
                &descriptor,
            );
            Ok(MPSGraphTensorData::initWithMPSNDArray(MPSGraphTensorData::alloc(), &array))
        }
    }
}

impl Output {
    /// Copies a packed result to its place.
    ///
    /// # Errors
    /// It has more elements than can be numbered.
    pub fn finish(&self, commands: &mut MetalCommandBuffer, operand: &Operand) -> Result<()> {
        match &self.packed {
            Some(packed) => commands.copy_strided(operand, packed),
            None => Ok(()),
        }
    }
}

/// A buffer of its own for the operand's elements.
fn packed(commands: &MetalCommandBuffer, operand: &Operand) -> Result<Operand> {
    let layout = Layout::contiguous(&operand.sizes)?;
    let elements: i64 = operand.sizes.iter().product();
    // The operand lies inside a buffer: its bytes have a number, as those of a broadcast one
    // have that is to be computed with.
    let bytes =
        usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(operand.dtype.size());
    let buffer = commands.device().allocate(bytes)?;
    Ok(Operand { buffer, offset: 0, strides: layout.strides, ..operand.clone() })
}

/// MPSGraph's shape of these sizes; a tensor without dimensions has one of size 1.
pub fn shape(sizes: &[i64]) -> Retained<MPSShape> {
    let sizes = if sizes.is_empty() { &[1] } else { sizes };
    let numbers: SmallVec<[Retained<NSNumber>; 6]> =
        sizes.iter().map(|&size| NSNumber::new_i64(size)).collect();
    NSArray::from_retained_slice(&numbers)
}

/// MPSGraph's name of an element type.
pub const fn data_type(dtype: DType) -> MPSDataType {
    match dtype {
        DType::U8 => MPSDataType::UInt8,
        DType::I8 => MPSDataType::Int8,
        DType::I16 => MPSDataType::Int16,
        DType::I32 => MPSDataType::Int32,
        DType::I64 => MPSDataType::Int64,
        DType::F16 => MPSDataType::Float16,
        DType::F32 => MPSDataType::Float32,
        DType::Bool => MPSDataType::Bool,
        DType::Bf16 => MPSDataType::BFloat16,
        DType::U16 => MPSDataType::UInt16,
        DType::U32 => MPSDataType::UInt32,
        DType::U64 => MPSDataType::UInt64,
    }
}
