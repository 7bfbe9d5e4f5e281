//! Dimensions as callers count them.

use crate::Result;
use crate::error::err;
use crate::tensor::{DType, Layout, Tensor};

/// `tensor` with at least one dimension, and the index of `dim`, which counts from the end if it
/// is negative. A tensor without dimensions becomes one of size 1, as PyTorch has it.
///
/// # Errors
/// There is no such dimension; the message begins with `op`.
pub fn along(op: &str, tensor: &Tensor, dim: i64) -> Result<(Tensor, usize)> {
    let count = tensor.sizes().len().max(1) as i64;
    if !(-count..count).contains(&dim) {
        return Err(err!(
            InvalidArgument,
            "{op}: dimension {dim} is out of range for a tensor of sizes {:?}: expected {} to {}",
            tensor.sizes(),
            -count,
            count - 1
        ));
    }
    let index = if dim < 0 { dim + count } else { dim } as usize;
    if !tensor.sizes().is_empty() {
        return Ok((tensor.clone(), index));
    }
    let row = tensor.view(tensor.offset(), tensor.dtype(), Layout::contiguous(&[1])?)?;
    Ok((row, index))
}

/// `result` without the dimension that [`along`] has given `input`, if it has.
pub fn without_added(result: Tensor, input: &Tensor) -> Result<Tensor> {
    if input.sizes().is_empty() {
        return result.view(result.offset(), result.dtype(), Layout::contiguous(&[])?);
    }
    Ok(result)
}

/// A new tensor of the device and the placement of `like`.
pub fn new_like(like: &Tensor, dtype: DType, layout: Layout) -> Result<Tensor> {
    Ok(Tensor::empty(like.storage().device(), dtype, layout)?.placed(like.placement()))
}
