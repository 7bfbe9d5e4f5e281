//! `gated_delta_rule`: the recurrence of linear attention with a gated delta rule.

use super::copy::copy;
use super::fill::zero;
use super::matmul::check_dim;
use super::overlap::{check_writable, may_overlap};
use super::own_kernels::Route;
use super::quantized::{check_float, contiguous, converted};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

/// The operands of [`gated_delta_rule`].
#[derive(Debug, Clone, Copy)]
pub struct GatedDeltaRule<'a> {
    /// Queries `[B, T, Hk, Dk]`.
    pub q: &'a Tensor,
    /// Keys `[B, T, Hk, Dk]`.
    pub k: &'a Tensor,
    /// Values `[B, T, Hv, Dv]`, with `Hv` a multiple of `Hk`.
    pub v: &'a Tensor,
    /// What decays to how much in each step, `[B, T, Hv]`: factors, the exponential is taken.
    pub g: &'a Tensor,
    /// How much is learnt in each step, `[B, T, Hv]`.
    pub beta: &'a Tensor,
    /// The state `[B, Hv, Dv, Dk]`, which is updated.
    pub state: &'a Tensor,
}

/// For each batch, head of values and time step, with `S` the state of `[Dv, Dk]`:
///
/// ```text
/// S ← g · S
/// S ← S + ((v - S k) · beta) kᵀ
/// y = S q
/// ```
///
/// The state advances through all steps in float32; it and each `y` are rounded once. Any
/// strides; `q`, `k` and `v` share a dtype, which is that of the result, while `g`, `beta` and
/// the state may be of any floating point dtype.
///
/// # Errors
/// Shapes or dtypes do not fit; elements of the state share memory; out of memory.
pub fn gated_delta_rule(stream: &Stream, rule: GatedDeltaRule) -> Result<Tensor> {
    gated_delta_rule_by(Route::of(stream)?, stream, rule)
}

/// The operator's name.
const OP: &str = "gated_delta_rule";

fn gated_delta_rule_by(route: Route, stream: &Stream, rule: GatedDeltaRule) -> Result<Tensor> {
    check(&rule)?;
    let GatedDeltaRule { q, k, v, g, beta, state } = rule;
    let y = Tensor::empty(stream.device(), q.dtype(), Layout::contiguous(v.sizes())?)?;
    if y.numel() == 0 {
        // No step, or no value: the state stays as it is.
        return Ok(y);
    }
    if state.numel() == 0 {
        zero(stream, &y)?;
        return Ok(y);
    }
    // What is read must not change while the state is written.
    let apart = |tensor: &Tensor| {
        if may_overlap(tensor, state) {
            converted(stream, tensor, tensor.dtype())
        } else {
            contiguous(stream, tensor)
        }
    };
    let (q, k, v, g, beta) = (apart(q)?, apart(k)?, apart(v)?, apart(g)?, apart(beta)?);
    let packed = contiguous(stream, state)?;
    let packed_rule =
        GatedDeltaRule { q: &q, k: &k, v: &v, g: &g, beta: &beta, state: &packed };
    match route {
        Route::Native => {
            graph::encode(stream, GraphOp::GatedDeltaRule, &[&y, &q, &k, &v, &g, &beta, &packed])?;
        }
        Route::Msl => dispatch(stream, &y, packed_rule)?,
    }
    if !state.layout().is_contiguous() {
        copy(stream, state, &packed)?;
    }
    Ok(y)
}

fn check(rule: &GatedDeltaRule) -> Result<()> {
    let GatedDeltaRule { q, k, v, g, beta, state } = rule;
    check_dim(OP, "q", q, 4)?;
    check_dim(OP, "v", v, 4)?;
    let (&[b, t, key_heads, key], &[.., heads, value]) = (q.sizes(), v.sizes()) else {
        unreachable!("both have four dimensions")
    };
    let expected: [(&str, &Tensor, &[i64]); 5] = [
        ("k", k, &[b, t, key_heads, key]),
        ("v", v, &[b, t, heads, value]),
        ("g", g, &[b, t, heads]),
        ("beta", beta, &[b, t, heads]),
        ("state", state, &[b, heads, value, key]),
    ];
    for (name, tensor, sizes) in expected {
        if tensor.sizes() != sizes {
            return Err(err!(
                InvalidArgument,
                "{OP}: with q of sizes {:?} and v of {:?}, {name} must have sizes {sizes:?}, it \
                 has {:?}",
                q.sizes(),
                v.sizes(),
                tensor.sizes()
            ));
        }
    }
    if heads > 0 && (key_heads == 0 || heads % key_heads != 0) {
        return Err(err!(
            InvalidArgument,
            "{OP}: the {heads} heads of v must be a multiple of the {key_heads} heads of q and k"
        ));
    }
    for (name, tensor) in
        [("q", q), ("k", k), ("v", v), ("g", g), ("beta", beta), ("state", state)]
    {
        check_float(OP, name, tensor)?;
    }
    for (name, tensor) in [("k", k), ("v", v)] {
        if tensor.dtype() != q.dtype() {
            return Err(err!(
                InvalidArgument,
                "{OP}: {name} is {}, q is {}; they must agree",
                tensor.dtype(),
                q.dtype()
            ));
        }
    }
    check_writable(OP, state)
}
