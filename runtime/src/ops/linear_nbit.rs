//! `_linear_fp_act_{1…7}bit_weight`: a linear layer with quantised weights.

use super::own_kernels::Route;
use super::quantized::{Names, Quantized};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{Layout, Tensor};

/// The operands of [`linear_nbit`].
#[derive(Debug, Clone, Copy)]
pub struct LinearNbit<'a> {
    /// Activations `[M, K]`.
    pub a: &'a Tensor,
    /// Packed weights `[N, K · bits / 8]`.
    pub b: &'a Tensor,
    /// Scales `[N, ⌈K / group_size⌉]`.
    pub s: &'a Tensor,
    /// Zeros, as the scales.
    pub z: &'a Tensor,
    /// Bits of a weight, 1 to 7.
    pub bits: u8,
    /// Weights that share a scale and a zero; any number of them.
    pub group_size: i64,
}

/// `out[m, n] = Σ_k a[m, k] · w[n, k]`, with `w` as [`super::quantized`] says. Any strides; all
/// but the weights' bytes are of one floating point dtype. Accumulates in float32 and rounds
/// once.
///
/// # Errors
/// Shapes or dtypes do not fit; out of memory.
pub fn linear_nbit(stream: &Stream, linear: LinearNbit) -> Result<Tensor> {
    linear_nbit_by(Route::of(stream)?, stream, linear)
}

fn linear_nbit_by(route: Route, stream: &Stream, linear: LinearNbit) -> Result<Tensor> {
    let LinearNbit { a, b, s, z, bits, group_size } = linear;
    let op = GraphOp::LinearNbit { bits, group_size };
    if !(1..=7).contains(&bits) {
        return Err(err!(InvalidArgument, "a weight has 1 to 7 bits, not {bits}"));
    }
    let names = Names { op: op.name(), operands: ["A", "B", "S", "Z"] };
    let quantized = Quantized::new(stream, names, [a, b, s, z], 2, bits, group_size)?;
    let layout = Layout::contiguous(&[a.sizes()[0], b.sizes()[0]])?;
    let out = Tensor::empty(stream.device(), a.dtype(), layout)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let Quantized { activations, weights, scales, zeros } = &quantized;
    match route {
        Route::Native => {
            graph::encode(stream, op, &[&out, activations, weights, scales, zeros])?;
        }
        Route::Msl => quantized.dispatch_linear(stream, &out, bits, group_size)?,
    }
    Ok(out)
}
