//! MSL kernels that a GPU device uses for op graphs of its own: strided copies, and the products
//! that its libraries lack. They know no device: each module gives a source and the calls of it,
//! so that the host device, which compiles the same MSL, tests them.

pub mod products;
pub mod strided_copy;

use smallvec::SmallVec;

use super::{Argument, Grid, Operand};
use crate::tensor::DType;

/// One call of a kernel.
#[derive(Debug)]
pub struct Call {
    /// Arguments by buffer index.
    pub arguments: SmallVec<[Option<Argument>; 8]>,
    /// How many threads.
    pub grid: Grid,
}

/// The buffer argument of an operand.
fn buffer(operand: &Operand) -> Option<Argument> {
    Some(Argument::Buffer {
        buffer: operand.buffer.clone(),
        offset: operand.offset,
        extent: None,
        dtype: Some(operand.dtype),
    })
}

/// The argument that carries a struct by value.
fn by_value<T: bytemuck::NoUninit>(value: &T) -> Option<Argument> {
    Some(Argument::Bytes(SmallVec::from_slice(bytemuck::bytes_of(value))))
}

/// MSL's type of an element. Truth values are bytes, of which any but 0 is true.
const fn msl_type(dtype: DType) -> &'static str {
    if matches!(dtype, DType::Bool) { DType::U8.msl_name() } else { dtype.msl_name() }
}

#[cfg(test)]
mod testing {
    //! Runs calls on the host device, next to the host's own operators.

    use std::sync::Arc;

    use super::*;
    use crate::device::host::HostDevice;
    use crate::device::{Device, Dispatch, Pipeline};
    use crate::graph::{GraphKey, GraphOp};
    use crate::tensor::Tensor;

    /// Runs a call of the only kernel of a source.
    pub fn run(source: &str, call: &Call) {
        let device = HostDevice::shared();
        let library = device.compile(source).unwrap_or_else(|error| panic!("{error}"));
        let name = &library.function_names()[0];
        let pipeline: Arc<dyn Pipeline> =
            library.pipeline(name).unwrap_or_else(|error| panic!("{error}"));
        let mut commands = device.command_buffer().unwrap();
        commands
            .dispatch(&Dispatch {
                pipeline: &pipeline,
                library: None,
                arguments: &call.arguments,
                threadgroup_memory: &[],
                grid: call.grid,
            })
            .unwrap_or_else(|error| panic!("{error}"));
        commands.commit().unwrap().wait().unwrap();
    }

    /// Runs an op of the host's own.
    pub fn run_native(op: GraphOp, tensors: &[&Tensor]) {
        let device = HostDevice::shared();
        let executable = device.lower(&GraphKey::new(op, tensors)).unwrap();
        let operands: Vec<Operand> = tensors.iter().map(|tensor| tensor.operand()).collect();
        let mut commands = device.command_buffer().unwrap();
        commands.run(&executable, &operands).unwrap();
        commands.commit().unwrap().wait().unwrap();
    }

    /// The bytes of a tensor's storage.
    pub fn bytes(tensor: &Tensor) -> &[u8] {
        let storage = tensor.storage();
        // SAFETY: tests fill their storages, and no work is under way.
        unsafe { std::slice::from_raw_parts(storage.as_ptr(), storage.len()) }
    }
}
