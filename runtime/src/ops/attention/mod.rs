//! Scaled dot product attention: `softmax(scale · Q Kᵀ + mask) V`.
//!
//! PyTorch's `_scaled_dot_product_attention_math_for_mps`, without its limits: any head size, any
//! strides, masks of bool or any float dtype. A row whose keys are all masked gives zeros, as in
//! PyTorch since 2.5 (`_safe_softmax`; `zero_mask` in `operations/Attention.mm`). Products and
//! softmax are computed in float32 and rounded once.

mod msl;
mod shapes;
#[cfg(test)]
mod tests;

use super::own_kernels::Route;
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

use self::shapes::Shapes;

/// Bytes of attention weights up to which they are computed. See [`Attention::weights`].
pub const MOST_WEIGHT_BYTES: usize = 16 << 20;

/// What is attended to, and how.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// `[…, heads, queries, size]`, float32, float16 or bfloat16; any leading dimensions.
    pub query: &'a Tensor,
    /// `[…, heads, keys, size]`. Fewer heads than queries have (a divisor of their number) are
    /// shared by groups of neighbouring query heads; leading dimensions are broadcast.
    pub key: &'a Tensor,
    /// `[…, heads, keys, value size]`.
    pub value: &'a Tensor,
    /// Broadcast to `[…, heads, queries, keys]`: bool, true where a query attends to a key; or
    /// float, added to the scores.
    pub mask: Option<&'a Tensor>,
    /// Query `i` attends to keys `0..=i` only. Goes together with a mask.
    pub causal: bool,
    /// What scores are multiplied by; by default `1 / √size`.
    pub scale: Option<f64>,
}

/// The results.
#[derive(Debug)]
pub struct Attention {
    /// `[…, heads, queries, value size]`, row-major.
    pub out: Tensor,
    /// The attention weights, `[…, heads, queries, keys]`, row-major: the softmax that `value` is
    /// multiplied by. `None` where they would take more than [`MOST_WEIGHT_BYTES`].
    ///
    /// Exported models get them and drop them at the end of their run: what PyTorch returns here
    /// is for most shapes uninitialised, or not even of this shape, so nothing can rely on it.
    /// They are computed, since a caller may look at them - where that costs next to nothing. For
    /// long prompts they would be by far the largest tensors of a model, all kept until its end.
    pub weights: Option<Tensor>,
}

/// Attention by the route of the stream's device.
///
/// # Errors
/// Shapes or dtypes do not fit together; out of memory.
pub fn attention(stream: &Stream, inputs: &Inputs<'_>) -> Result<Attention> {
    attention_by(Route::of(stream)?, stream, inputs)
}

/// Attention by one route.
fn attention_by(route: Route, stream: &Stream, inputs: &Inputs<'_>) -> Result<Attention> {
    check_dtypes(inputs)?;
    let shapes = Shapes::new(inputs)?;
    let dtype = inputs.query.dtype();
    let empty = |sizes: &[i64]| Tensor::empty(stream.device(), dtype, Layout::contiguous(sizes)?);
    let out = empty(&shapes.out())?;
    let weights_sizes = shapes.weights();
    let elements = Layout::contiguous(&weights_sizes)?.numel();
    let wanted = elements.saturating_mul(dtype.size()) <= MOST_WEIGHT_BYTES;
    let weights = if wanted { Some(empty(&weights_sizes)?) } else { None };
    if out.numel() != 0 || weights.as_ref().is_some_and(|weights| weights.numel() != 0) {
        let operands = shapes.operands(stream, inputs, &out, weights.as_ref())?;
        match route {
            Route::Native => encode_native(stream, &operands)?,
            Route::Msl => msl::encode(stream, &operands)?,
        }
    }
    Ok(Attention { out, weights })
}

/// All tensors of an attention, each of four dimensions; see [`Shapes::operands`].
#[derive(Debug)]
struct Operands {
    /// `[batch, heads, queries, value size]`.
    out: Tensor,
    /// `[batch, heads, queries, size]`.
    query: Tensor,
    /// `[batch, key heads, keys, size]`; the number of heads is a multiple of that of key heads.
    key: Tensor,
    /// `[batch, value heads, keys, value size]`; likewise.
    value: Tensor,
    /// `[batch, heads, queries, keys]`.
    weights: Option<Tensor>,
    /// `[batch, heads, queries, keys]`, with strides of 0 where it is broadcast.
    mask: Option<Tensor>,
    causal: bool,
    scale: f32,
}

fn encode_native(stream: &Stream, operands: &Operands) -> Result<()> {
    let Operands { out, query, key, value, weights, mask, causal, scale } = operands;
    let op = GraphOp::Attention {
        scale: scale.to_bits(),
        causal: *causal,
        weights: weights.is_some(),
        mask: mask.is_some(),
    };
    let mut tensors = smallvec::SmallVec::<[&Tensor; 6]>::from_slice(&[out, query, key, value]);
    tensors.extend(weights);
    tensors.extend(mask);
    graph::encode(stream, op, &tensors)
}

fn check_dtypes(inputs: &Inputs<'_>) -> Result<()> {
    let dtype = inputs.query.dtype();
    if !dtype.is_float() {
        return Err(err!(Unsupported, "attention: the query is {dtype}, it must be a float"));
    }
    for (what, tensor) in [("key", inputs.key), ("value", inputs.value)] {
        if tensor.dtype() != dtype {
            return Err(err!(
                InvalidArgument,
                "attention: the {what} is {}, the query {dtype}; they must agree",
                tensor.dtype()
            ));
        }
    }
    match inputs.mask.map(Tensor::dtype) {
        Some(mask) if mask != DType::Bool && !mask.is_float() => Err(err!(
            InvalidArgument,
            "attention: the mask is {mask}, it must be bool (true where a query attends to a key) \
             or a float (added to the scores)"
        )),
        _ => Ok(()),
    }
}
