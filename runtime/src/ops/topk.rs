//! `topk`: the greatest or least elements along a dimension.

use super::dimension::{along, new_like, without_added};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

/// The `k` greatest (`largest`) or least elements along `dim`, in order, and their indices
/// (int64), both contiguous. NaN counts as the greatest; of equal elements the one with the lower
/// index comes first. Of a tensor without dimensions the results are its element and 0.
///
/// PyTorch's `sorted=False` allows any order, this one included.
///
/// # Errors
/// There is no such dimension, it is shorter than `k`, or out of memory.
pub fn topk(
    stream: &Stream,
    input: &Tensor,
    k: i64,
    dim: i64,
    largest: bool,
) -> Result<(Tensor, Tensor)> {
    let (rows, dim) = along("topk", input, dim)?;
    let available = rows.sizes()[dim];
    if !(0..=available).contains(&k) {
        return Err(err!(
            InvalidArgument,
            "topk: k is {k}, but a tensor of sizes {:?} has {available} elements along dimension \
             {dim}",
            input.sizes()
        ));
    }
    let mut sizes = rows.layout().sizes.clone();
    sizes[dim] = if input.sizes().is_empty() { 1 } else { k };
    let layout = Layout::contiguous(&sizes)?;
    let values = new_like(&rows, rows.dtype(), layout.clone())?;
    let indices = new_like(&rows, DType::I64, layout)?;
    if values.numel() != 0 {
        graph::encode(stream, GraphOp::TopK { dim, largest }, &[&values, &indices, &rows])?;
    }
    Ok((without_added(values, input)?, without_added(indices, input)?))
}
