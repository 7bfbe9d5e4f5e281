//! `gated_delta_rule`: the recurrence of linear attention with a gated delta rule.

use super::copy::copy;
use super::fill::zero;
use super::matmul::check_dim;
use super::overlap::{check_writable, may_overlap};
use super::own_kernels::{self, GATED_DELTA_RULE, Route};
use super::quantized::{check_float, contiguous, converted, size_32};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::kernel::Arguments;
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
    let packed_rule = GatedDeltaRule { q: &q, k: &k, v: &v, g: &g, beta: &beta, state: &packed };
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
    for (name, tensor) in [("q", q), ("k", k), ("v", v), ("g", g), ("beta", beta), ("state", state)]
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

/// `Sizes` of `msl/gated_delta_rule.metal`.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::NoUninit)]
struct KernelSizes {
    steps: u32,
    key_heads: u32,
    key: u32,
    heads: u32,
    value: u32,
}

/// Elements of a row of the state that a lane keeps: the kernels that there are.
const SHARES: [i64; 4] = [2, 4, 8, 32];

/// Encodes the kernel. The operands are contiguous and have elements.
fn dispatch(stream: &Stream, y: &Tensor, rule: GatedDeltaRule) -> Result<()> {
    let GatedDeltaRule { q, k, v, g, beta, state } = rule;
    let (&[batch, steps, key_heads, key], &[.., heads, value]) = (q.sizes(), v.sizes()) else {
        unreachable!("both have four dimensions")
    };
    let share = SHARES.into_iter().find(|share| share * 32 >= key).ok_or_else(|| {
        err!(Unsupported, "{OP}: keys have at most 1024 elements on Metal, these have {key}")
    })?;
    // The kernels have gates and, unless it is as the other operands, the state in float32.
    let float = |tensor: &Tensor| match tensor.dtype() {
        DType::F32 => Ok(tensor.clone()),
        _ => converted(stream, tensor, DType::F32),
    };
    let (g, beta) = (float(g)?, float(beta)?);
    let as_it_is = state.dtype() == q.dtype();
    let kernel_state = if as_it_is { state.clone() } else { float(state)? };
    let state_type = kernel_state.dtype().msl_name();
    let base = format!("{OP}_{share}_{state_type}");
    let kernel = own_kernels::kernel(stream, &GATED_DELTA_RULE, &base, q.dtype())?;
    let sizes = KernelSizes {
        steps: size_32("steps", steps)?,
        key_heads: size_32("heads", key_heads)?,
        key: size_32("elements of a key", key)?,
        heads: size_32("heads", heads)?,
        value: size_32("elements of a value", value)?,
    };
    let mut arguments = Arguments::new();
    for (index, tensor) in [y, q, k, v, &g, &beta, &kernel_state].into_iter().enumerate() {
        arguments.tensor(index, tensor)?;
    }
    arguments.bytes(7, bytemuck::bytes_of(&sizes))?;
    let groups = [(value as u64).div_ceil(4), (batch * heads) as u64];
    stream.dispatch(&kernel, &arguments, kernel.grid_of_groups(&groups, &[32, 4])?)?;
    if kernel_state.dtype() == state.dtype() { Ok(()) } else { copy(stream, state, &kernel_state) }
}

#[cfg(test)]
mod tests {
    use super::super::quantized::testing::{FLOATS, noise, rounding};
    use super::super::testing::{contiguous, gaps, stream, strides_of, tensor, values};
    use super::*;
    use proptest::prelude::*;

    /// Batch, steps, key heads, heads, elements of keys and of values.
    type Sizes = [i64; 6];

    /// Sizes of q, k, v, g, beta and state.
    fn operand_sizes([b, t, key_heads, heads, key, value]: Sizes) -> [Vec<i64>; 6] {
        let keys = vec![b, t, key_heads, key];
        let gates = vec![b, t, heads];
        let state = vec![b, heads, value, key];
        [keys.clone(), keys, vec![b, t, heads, value], gates.clone(), gates, state]
    }

    /// The rule in float64: y and the new state.
    fn reference(sizes: Sizes, operands: &[Vec<f64>; 6]) -> (Vec<f64>, Vec<f64>) {
        let [b, t, key_heads, heads, key, value] = sizes.map(|size| size as usize);
        let [q, k, v, g, beta, state] = operands;
        let (mut y, mut state) = (vec![0.0; b * t * heads * value], state.clone());
        for (batch, step, head) in
            (0..b).flat_map(|b| (0..t).flat_map(move |t| (0..heads).map(move |head| (b, t, head))))
        {
            let time = batch * t + step;
            let of_key = (time * key_heads + head / (heads / key_heads)) * key;
            let of_head = time * heads + head;
            for row in 0..value {
                let state = &mut state[((batch * heads + head) * value + row) * key..][..key];
                state.iter_mut().for_each(|s| *s *= g[of_head]);
                let remembered: f64 = state.iter().zip(&k[of_key..]).map(|(s, k)| s * k).sum();
                let delta = (v[of_head * value + row] - remembered) * beta[of_head];
                state.iter_mut().zip(&k[of_key..]).for_each(|(s, k)| *s += k * delta);
                y[of_head * value + row] = state.iter().zip(&q[of_key..]).map(|(s, q)| s * q).sum();
            }
        }
        (y, state)
    }

    #[derive(Debug, Clone)]
    struct Case {
        sizes: Sizes,
        /// Of q, k and v; of the gates; of the state.
        dtypes: [DType; 3],
        strides: [Vec<i64>; 6],
        seed: u64,
    }

    fn case() -> impl Strategy<Value = Case> {
        let dtype = || prop::sample::select(FLOATS.to_vec());
        let sizes = (0i64..3, 0i64..5, 1i64..4, 0i64..4, 0i64..70, 0i64..10);
        (sizes, [dtype(), dtype(), dtype()], any::<u64>()).prop_flat_map(
            |((b, t, key_heads, repeats, key, value), dtypes, seed)| {
                let sizes = [b, t, key_heads, key_heads * repeats, key, value];
                operand_sizes(sizes).map(strides_of).prop_map(move |strides| Case {
                    sizes,
                    dtypes,
                    strides,
                    seed: seed >> 8,
                })
            },
        )
    }

    /// The operands of a case. Keys are about as long as 1, gates lie between 0 and 1.
    fn operands(case: &Case) -> [Tensor; 6] {
        let [data, gates, state] = case.dtypes;
        let dtypes = [data, data, data, gates, gates, state];
        let key = case.sizes[4].max(1) as f64;
        let sizes = operand_sizes(case.sizes);
        std::array::from_fn(|i| {
            let numbers = noise(sizes[i].iter().product::<i64>() as usize, case.seed + i as u64);
            let scaled: Vec<f64> = numbers
                .into_iter()
                .map(|n| match i {
                    0 | 1 => n / key.sqrt(),
                    3 | 4 => n.abs(),
                    _ => n,
                })
                .collect();
            tensor(dtypes[i], &sizes[i], &case.strides[i], i, &scaled)
        })
    }

    fn close(dtype: DType, got: &[f64], want: &[f64]) -> Result<(), TestCaseError> {
        prop_assert_eq!(got.len(), want.len());
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            let slack = 2e-5 + want.abs() * rounding(dtype) * 1.01;
            prop_assert!((got - want).abs() <= slack, "{}: {} for {}", i, got, want);
        }
        Ok(())
    }

    fn check(case: &Case) -> Result<(), TestCaseError> {
        let stream = stream();
        for route in [Route::Native, Route::Msl] {
            let tensors = operands(case);
            let (want_y, want_state) = reference(case.sizes, &tensors.each_ref().map(values));
            let [q, k, v, g, beta, state] = &tensors;
            let before = gaps(state);
            let rule = GatedDeltaRule { q, k, v, g, beta, state };
            let y = gated_delta_rule_by(route, &stream, rule).unwrap();
            stream.commit_and_wait().unwrap();
            prop_assert_eq!((y.dtype(), y.sizes()), (q.dtype(), v.sizes()));
            close(y.dtype(), &values(&y), &want_y)?;
            close(state.dtype(), &values(state), &want_state)?;
            prop_assert_eq!(gaps(state), before);
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        /// Every dtype, stride and number of heads; odd sizes.
        #[test]
        fn any_sizes_any_dtypes_any_strides(case in case()) {
            check(&case)?;
        }
    }

    #[test]
    fn larger_than_a_block() {
        for (sizes, data, state) in [
            ([1, 20, 2, 4, 128, 70], DType::F32, DType::F32),
            ([2, 3, 1, 3, 257, 33], DType::Bf16, DType::F32),
            ([1, 2, 1, 1, 1024, 5], DType::F16, DType::F16),
        ] {
            let strides =
                operand_sizes(sizes).map(|s| Layout::contiguous(&s).unwrap().strides.to_vec());
            check(&Case { sizes, dtypes: [data, data, state], strides, seed: 3 }).unwrap();
        }
    }

    #[test]
    fn the_state_may_be_what_is_read() {
        let stream = stream();
        let numbers = noise(16, 9);
        for route in [Route::Native, Route::Msl] {
            // q, k and v are views of the state itself.
            let state = contiguous(DType::F32, &[1, 1, 4, 4], &numbers);
            let view = |row: usize| {
                let layout = Layout::contiguous(&[1, 1, 1, 4]).unwrap();
                state.view(row * 16, DType::F32, layout).unwrap()
            };
            let one = contiguous(DType::F32, &[1, 1, 1], &[0.5]);
            let (q, k, v) = (view(0), view(1), view(2));
            let inputs = [&q, &k, &v, &one, &one, &state].map(values);
            let (want_y, want_state) = reference([1, 1, 1, 1, 4, 4], &inputs);
            let rule = GatedDeltaRule { q: &q, k: &k, v: &v, g: &one, beta: &one, state: &state };
            let y = gated_delta_rule_by(route, &stream, rule).unwrap();
            stream.commit_and_wait().unwrap();
            close(DType::F32, &values(&y), &want_y).unwrap();
            close(DType::F32, &values(&state), &want_state).unwrap();
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let stream = stream();
        let sizes = [2, 3, 2, 4, 8, 5];
        let good = operand_sizes(sizes).map(|sizes| contiguous(DType::F32, &sizes, &[]));
        let text = |change: usize, tensor: Tensor| {
            let mut tensors = good.clone();
            tensors[change] = tensor;
            let [q, k, v, g, beta, state] = &tensors;
            let rule = GatedDeltaRule { q, k, v, g, beta, state };
            gated_delta_rule(&stream, rule).unwrap_err().to_string()
        };
        let f = |sizes: &[i64]| contiguous(DType::F32, sizes, &[]);
        let broadcast =
            good[5].view(0, DType::F32, Layout::new(&[2, 4, 5, 8], &[0, 40, 8, 1]).unwrap());
        for (said, part) in [
            (text(0, f(&[2, 3, 2])), "q must have 4 dimensions"),
            (text(1, f(&[2, 3, 2, 9])), "k must have sizes [2, 3, 2, 8]"),
            (text(2, f(&[2, 4, 4, 5])), "v must have sizes [2, 3, 4, 5]"),
            (text(3, f(&[2, 3, 2])), "g must have sizes [2, 3, 4]"),
            (text(4, f(&[2, 3])), "beta must have sizes [2, 3, 4]"),
            (text(5, f(&[2, 4, 8, 5])), "state must have sizes [2, 4, 5, 8]"),
            (text(1, contiguous(DType::F16, &[2, 3, 2, 8], &[])), "k is float16, q is float32"),
            (text(3, contiguous(DType::I32, &[2, 3, 4], &[])), "g must be float32"),
            (text(5, broadcast.unwrap()), "share memory"),
        ] {
            assert!(said.contains(part), "{said}");
        }
        let odd = operand_sizes([1, 1, 2, 3, 4, 4]).map(|sizes| f(&sizes));
        let [q, k, v, g, beta, state] = &odd;
        let text = gated_delta_rule(&stream, GatedDeltaRule { q, k, v, g, beta, state });
        assert!(text.unwrap_err().to_string().contains("3 heads of v must be a multiple of the 2"));
        assert_eq!(stream.pending(), 0, "nothing refused was encoded");
    }
}
