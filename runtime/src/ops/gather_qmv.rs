//! `gather_qmv`: rows of activations times the quantised weights of one of several experts each.

use super::matmul::check_dim;
use super::own_kernels::Route;
use super::quantized::{Names, Quantized, contiguous};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

/// The operands of [`gather_qmv`].
#[derive(Debug, Clone, Copy)]
pub struct GatherQmv<'a> {
    /// Activations `[P, K]`.
    pub x: &'a Tensor,
    /// Packed weights of 4 bits `[E, N, K / 2]`.
    pub w: &'a Tensor,
    /// Scales `[E, N, ⌈K / group_size⌉]`.
    pub s: &'a Tensor,
    /// Zeros, as the scales.
    pub z: &'a Tensor,
    /// The expert of each row, `[P]`, int32 or int64; negative ones count from the end.
    pub experts: &'a Tensor,
    /// Weights that share a scale and a zero; any number of them.
    pub group_size: i64,
}

/// `out[p, n] = Σ_k x[p, k] · w[experts[p], n, k]`, with `w` as [`super::quantized`] says. Any
/// strides; all but bytes and indices are of one floating point dtype. Accumulates in float32 and
/// rounds once.
///
/// An expert that there is not is an error of the run on the host, and gives NaN on Metal, where
/// kernels cannot fail.
///
/// # Errors
/// Shapes or dtypes do not fit; out of memory.
pub fn gather_qmv(stream: &Stream, gather: GatherQmv) -> Result<Tensor> {
    gather_qmv_by(Route::of(stream)?, stream, gather)
}

fn gather_qmv_by(route: Route, stream: &Stream, gather: GatherQmv) -> Result<Tensor> {
    let GatherQmv { x, w, s, z, experts, group_size } = gather;
    let op = GraphOp::GatherQmv { group_size };
    let names = Names { op: op.name(), operands: ["x", "w", "scales", "biases"] };
    let quantized = Quantized::new(stream, names, [x, w, s, z], 3, 4, group_size)?;
    check_experts(op.name(), x, experts)?;
    let layout = Layout::contiguous(&[x.sizes()[0], w.sizes()[1]])?;
    let out = Tensor::empty(stream.device(), x.dtype(), layout)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let experts = contiguous(stream, experts)?;
    let Quantized { activations, weights, scales, zeros } = &quantized;
    match route {
        Route::Native => {
            graph::encode(stream, op, &[&out, activations, weights, scales, zeros, &experts])?;
        }
        Route::Msl => quantized.dispatch_gather(stream, &out, &experts, group_size)?,
    }
    Ok(out)
}

fn check_experts(op: &str, x: &Tensor, experts: &Tensor) -> Result<()> {
    check_dim(op, "expert_indices", experts, 1)?;
    if experts.sizes()[0] != x.sizes()[0] {
        return Err(err!(
            InvalidArgument,
            "{op}: expert_indices must have one element for each of the {} rows of x, it has {}",
            x.sizes()[0],
            experts.sizes()[0]
        ));
    }
    if !matches!(experts.dtype(), DType::I32 | DType::I64) {
        return Err(err!(
            InvalidArgument,
            "{op}: expert_indices must be int32 or int64, it is {}",
            experts.dtype()
        ));
    }
    Ok(())
}
