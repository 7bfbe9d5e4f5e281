//! `mm`: the product of two matrices.

use super::fill::zero;
use super::matmul::{check_dim, check_dtypes, check_inner, check_out, encode};
use crate::Result;
use crate::graph::GraphOp;
use crate::stream::Stream;
use crate::tensor::Tensor;

/// `out[m, n] = Σ_k a[m, k] · b[k, n]`, any strides, `out` may alias an operand. Half types
/// accumulate in float32 and round once; integers wrap. Without terms (`k` = 0) the result is 0.
///
/// # Errors
/// Shapes or dtypes do not fit.
pub fn mm(stream: &Stream, out: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    check_dim("mm", "self", a, 2)?;
    check_dim("mm", "mat2", b, 2)?;
    check_inner("mm", a, b)?;
    check_out("mm", out, &[a.sizes()[0], b.sizes()[1]])?;
    check_dtypes("mm", out, &[("self", a), ("mat2", b)])?;
    if out.numel() == 0 {
        return Ok(());
    }
    if a.sizes()[1] == 0 {
        return zero(stream, out);
    }
    encode(stream, GraphOp::Mm, out, &[a, b])
}
