//! Op graphs on Metal: lowered to MPSGraph executables, and to kernels where MPSGraph has no such
//! operator.
//!
//! | module | what it lowers |
//! |---|---|
//! | [`matmul`] | mm, bmm, addmm |
//! | [`convolution`] | convolutions and transposed convolutions |
//! | [`sort`] | topk and sort |
//! | [`cumulative`] | cumsum and cumprod |
//! | [`builder`] | what they build graphs with |
//! | [`binding`] | operands as MPSGraph takes them |

mod binding;
mod builder;
mod convolution;
mod cumulative;
mod matmul;
mod sort;

use std::any::Any;
use std::sync::Arc;

use objc2_foundation::NSArray;
use objc2_metal_performance_shaders_graph::{
    MPSGraphExecutable, MPSGraphExecutableExecutionDescriptor,
};

use self::binding::{Output, Slot};
use self::builder::Builder;
use super::command::MetalCommandBuffer;
use super::errors::guarded;
use super::owned::Owned;
use super::{Inner, OwnKernel};
use crate::Result;
use crate::device::host::graph::check_operands;
use crate::device::kernels::products;
use crate::device::{Executable, Operand};
use crate::error::{Context, err};
use crate::graph::{GraphKey, GraphOp};

/// The Metal device's executable: what a key was lowered to.
#[derive(Debug)]
pub struct MetalExecutable {
    key: GraphKey,
    name: Arc<str>,
    code: Code,
}

/// How an op is carried out.
#[derive(Debug)]
enum Code {
    /// There is nothing to compute.
    Nothing,
    /// By the kernel for strided copies.
    Copy,
    /// By the kernel for products.
    Product,
    /// By MPSGraph.
    Graph(Compiled),
}

/// A compiled graph, and which operands it takes, each in the executable's order.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) raw: Owned<MPSGraphExecutable>,
    pub(super) feeds: Vec<Slot>,
    pub(super) targets: Vec<Slot>,
}

/// Builds the executable of `key`.
///
/// # Errors
/// [`Error::Unsupported`](crate::Error::Unsupported), naming the op and its dtypes; MPSGraph
/// refuses the graph, with its reason.
pub fn lower(device: &Inner, key: &GraphKey) -> Result<Arc<dyn Executable>> {
    let code = code(device, key).context(|| key.op.name())?;
    Ok(Arc::new(MetalExecutable { key: key.clone(), name: key.op.name().into(), code }))
}

fn code(device: &Inner, key: &GraphKey) -> Result<Code> {
    if key.operands[0].sizes.contains(&0) {
        return Ok(Code::Nothing);
    }
    let build: fn(&mut Builder<'_>) -> Result<()> = match key.op {
        GraphOp::Copy => return Ok(Code::Copy),
        GraphOp::Mm | GraphOp::Bmm | GraphOp::Addmm { .. } => {
            matmul::check(key)?;
            if matmul::wants_kernel(key) {
                return Ok(Code::Product);
            }
            matmul::build
        }
        GraphOp::Convolution { .. } => convolution::build,
        GraphOp::TopK { .. } | GraphOp::Sort { .. } => sort::build,
        GraphOp::Cumulative { .. } => cumulative::build,
        GraphOp::Attention { .. }
        | GraphOp::LinearNbit { .. }
        | GraphOp::GatherQmv { .. }
        | GraphOp::GatedDeltaRule => {
            return Err(err!(Unsupported, "Metal runs its kernels, it has no graph"));
        }
    };
    guarded("building a graph", || {
        let mut builder = Builder::new(key);
        build(&mut builder)?;
        builder.compile(&device.raw).map(Code::Graph)
    })
}

impl MetalExecutable {
    /// The Metal device's executable behind `executable`.
    ///
    /// # Errors
    /// Another device built it.
    pub fn of(executable: &Arc<dyn Executable>) -> Result<&MetalExecutable> {
        executable.as_any().downcast_ref().ok_or_else(|| {
            err!(InvalidArgument, "the executable {executable:?} was built by another device")
        })
    }

    /// The op's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Encodes the op.
    ///
    /// # Errors
    /// The operands are not those of the key; out of memory; MPSGraph refuses them.
    pub fn encode(&self, commands: &mut MetalCommandBuffer, operands: &[Operand]) -> Result<()> {
        check_operands(&self.key, operands)?;
        match &self.code {
            Code::Nothing => Ok(()),
            Code::Copy => {
                let [dst, src] = operands else { unreachable!("checked against the key") };
                commands.copy_strided(dst, src)
            }
            Code::Product => {
                let Some(call) = products::call(&self.key.op, operands)? else { return Ok(()) };
                let pipeline = commands.device().kernel(OwnKernel::Product(operands[0].dtype))?;
                commands.call(&pipeline, &call)
            }
            Code::Graph(compiled) => compiled.encode(commands, operands),
        }
    }
}

impl Executable for MetalExecutable {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Compiled {
    fn encode(&self, commands: &mut MetalCommandBuffer, operands: &[Operand]) -> Result<()> {
        // Operands that MPSGraph cannot take as they lie are packed before it runs, and results
        // unpacked after it.
        let feed = |slot: &Slot, commands: &mut _| slot.input(commands, &operands[slot.operand]);
        let mut inputs = Vec::with_capacity(self.feeds.len());
        for slot in &self.feeds {
            inputs.push(feed(slot, commands)?);
        }
        let mut outputs: Vec<Output> = Vec::with_capacity(self.targets.len());
        for slot in &self.targets {
            outputs.push(slot.output(commands, &operands[slot.operand])?);
        }
        let results: Vec<_> = outputs.iter().map(|output| output.data.clone()).collect();
        let (inputs, results) =
            (NSArray::from_retained_slice(&inputs), NSArray::from_retained_slice(&results));
        let raw = commands.for_graph();
        // SAFETY: inputs and results are those of the executable, in its order; their memory is
        // kept by the commands.
        unsafe {
            let descriptor = MPSGraphExecutableExecutionDescriptor::new();
            descriptor.setWaitUntilCompleted(false);
            self.raw.encodeToCommandBuffer_inputsArray_resultsArray_executionDescriptor(
                raw,
                &inputs,
                Some(&results),
                Some(&descriptor),
            );
        }
        outputs
            .iter()
            .zip(&self.targets)
            .try_for_each(|(output, slot)| output.finish(commands, &operands[slot.operand]))
    }
}
