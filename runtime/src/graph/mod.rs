//! Op graphs: operators that are not hand-written kernels, described once per shape and dtype,
//! lowered by the device, and kept in a bounded cache.

mod cache;
mod flops;
mod key;

use crate::Result;
use crate::device::Operand;
use crate::stream::Stream;
use crate::tensor::Tensor;

pub use cache::{
    CAPACITY_VARIABLE, CacheStats, DEFAULT_CAPACITY, GraphCache, capacity_of_environment,
};
pub use key::{GraphKey, GraphOp, OperandKey, Scan, StrideClass};

/// Encodes `op` on these tensors, outputs first, on `stream`.
///
/// # Errors
/// The device cannot lower it, or refuses the operands; the message names the op.
pub fn encode(stream: &Stream, op: GraphOp, tensors: &[&Tensor]) -> Result<()> {
    use crate::error::Context as _;

    let name = op.name();
    let key = GraphKey::new(op, tensors);
    let executable =
        GraphCache::of(stream.device())?.get(&**stream.device(), &key).context(|| name)?;
    let operands: smallvec::SmallVec<[Operand; 4]> = tensors.iter().map(|t| t.operand()).collect();
    stream.run(&key, &executable, &operands).context(|| name)
}
