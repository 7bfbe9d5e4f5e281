//! `bmm`: the products of a batch of matrices.

use super::fill::zero;
use super::matmul::{check_dim, check_dtypes, check_inner, check_out, encode};
use crate::Result;
use crate::error::err;
use crate::graph::GraphOp;
use crate::stream::Stream;
use crate::tensor::Tensor;

/// `out[i] = a[i] @ b[i]` for each `i` of the batch; see [`mm`](super::mm()) for the rest.
///
/// # Errors
/// Shapes or dtypes do not fit.
pub fn bmm(stream: &Stream, out: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    check_dim("bmm", "self", a, 3)?;
    check_dim("bmm", "mat2", b, 3)?;
    if a.sizes()[0] != b.sizes()[0] {
        return Err(err!(
            InvalidArgument,
            "bmm: the batches of {:?} and {:?} differ",
            a.sizes(),
            b.sizes()
        ));
    }
    check_inner("bmm", a, b)?;
    check_out("bmm", out, &[a.sizes()[0], a.sizes()[1], b.sizes()[2]])?;
    check_dtypes("bmm", out, &[("self", a), ("mat2", b)])?;
    if out.numel() == 0 {
        return Ok(());
    }
    if a.sizes()[2] == 0 {
        return zero(stream, out);
    }
    encode(stream, GraphOp::Bmm, out, &[a, b])
}
