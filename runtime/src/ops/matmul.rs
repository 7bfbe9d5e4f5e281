//! What the matrix products share: checks, and results that alias operands.

use super::copy::copy;
use super::overlap::{check_writable, may_overlap};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

/// Checks that `tensor` has this many dimensions.
pub fn check_dim(op: &str, what: &str, tensor: &Tensor, dim: usize) -> Result<()> {
    if tensor.sizes().len() == dim {
        return Ok(());
    }
    Err(err!(
        InvalidArgument,
        "{op}: {what} must have {dim} dimensions, its sizes are {:?}",
        tensor.sizes()
    ))
}

/// Checks that all have the dtype of `out`, and that matrix products have that dtype.
pub fn check_dtypes(op: &str, out: &Tensor, operands: &[(&str, &Tensor)]) -> Result<()> {
    let dtype = out.dtype();
    for (what, operand) in operands {
        if operand.dtype() != dtype {
            return Err(err!(
                InvalidArgument,
                "{op}: {what} is {}, the result is {dtype}; they must agree",
                operand.dtype()
            ));
        }
    }
    if matches!(dtype, DType::Bool | DType::U16 | DType::U32 | DType::U64) {
        return Err(err!(Unsupported, "{op} is not defined for {dtype}"));
    }
    Ok(())
}

/// Checks the sizes of the result.
pub fn check_out(op: &str, out: &Tensor, expected: &[i64]) -> Result<()> {
    if out.sizes() != expected {
        return Err(err!(
            InvalidArgument,
            "{op}: the result must have sizes {expected:?}, it has {:?}",
            out.sizes()
        ));
    }
    check_writable(op, out)
}

/// The error of inner sizes that differ.
pub fn check_inner(op: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    let (k_a, k_b) = (a.sizes()[a.sizes().len() - 1], b.sizes()[b.sizes().len() - 2]);
    if k_a == k_b {
        return Ok(());
    }
    Err(err!(
        InvalidArgument,
        "{op}: {:?} and {:?} cannot be multiplied: {k_a} columns meet {k_b} rows",
        a.sizes(),
        b.sizes()
    ))
}

/// Encodes a product whose result must not be written while `operands` are read. If the result
/// shares memory with one of them it is computed apart and copied.
pub fn encode(stream: &Stream, op: GraphOp, out: &Tensor, operands: &[&Tensor]) -> Result<()> {
    let aliased = operands.iter().any(|operand| may_overlap(out, operand));
    let target = if aliased {
        Tensor::empty(stream.device(), out.dtype(), Layout::contiguous(out.sizes())?)?
    } else {
        out.clone()
    };
    let mut tensors = smallvec::SmallVec::<[&Tensor; 4]>::from_slice(&[&target]);
    tensors.extend_from_slice(operands);
    graph::encode(stream, op, &tensors)?;
    if aliased { copy(stream, out, &target) } else { Ok(()) }
}
