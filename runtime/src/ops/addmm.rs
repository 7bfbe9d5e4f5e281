//! `addmm`: a product of matrices, scaled and added to another.

use super::copy::broadcast_to;
use super::matmul::{check_dim, check_dtypes, check_inner, check_out, encode};
use crate::Result;
use crate::error::err;
use crate::graph::GraphOp;
use crate::stream::Stream;
use crate::tensor::Tensor;

/// `out = beta · input + alpha · a @ b`, with `input` broadcast to `out`. A beta of 0 ignores
/// `input`, NaN or not. See [`mm`](super::mm()) for the rest.
///
/// # Errors
/// Shapes or dtypes do not fit, or a scalar of an integer product is not whole.
pub fn addmm(
    stream: &Stream,
    out: &Tensor,
    input: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: f64,
    alpha: f64,
) -> Result<()> {
    check_dim("addmm", "mat1", a, 2)?;
    check_dim("addmm", "mat2", b, 2)?;
    check_inner("addmm", a, b)?;
    let sizes = [a.sizes()[0], b.sizes()[1]];
    let input = broadcast_to("addmm", input, &sizes)?;
    check_out("addmm", out, &sizes)?;
    check_dtypes("addmm", out, &[("self", &input), ("mat1", a), ("mat2", b)])?;
    if !out.dtype().is_float() && (beta.fract() != 0.0 || alpha.fract() != 0.0) {
        return Err(err!(
            InvalidArgument,
            "addmm: beta {beta} and alpha {alpha} must be whole numbers for {}",
            out.dtype()
        ));
    }
    if out.numel() == 0 {
        return Ok(());
    }
    let op = GraphOp::Addmm { beta: beta.to_bits(), alpha: alpha.to_bits() };
    encode(stream, op, out, &[&input, a, b])
}
