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

#[cfg(test)]
mod tests {
    use super::super::quantized::testing::{FLOATS, Weights, group_size, noise, unit};
    use super::super::testing::{contiguous, stream, strides_of, tensor, values};
    use super::*;
    use crate::tensor::DType;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    struct Case {
        dtype: DType,
        bits: u8,
        rows: i64,
        sizes: [i64; 2],
        group_size: i64,
        a: Vec<i64>,
        weights: [Vec<i64>; 3],
        seed: u64,
    }

    fn case() -> impl Strategy<Value = Case> {
        let shape = (0i64..14, 0i64..14, 0i64..13);
        let numbers = (prop::sample::select(FLOATS.to_vec()), 1u8..8, group_size(), any::<u64>());
        (shape, numbers)
            .prop_flat_map(|((m, n, k), (dtype, bits, group_size, seed))| {
                let k = k * unit(bits);
                let [b, s, z] = Weights::operand_sizes(&[n, k], bits, group_size);
                let strides = (strides_of(vec![m, k]), strides_of(b), strides_of(s), strides_of(z));
                (Just((dtype, bits, m, [n, k], group_size, seed)), strides)
            })
            .prop_map(|((dtype, bits, rows, sizes, group_size, seed), (a, b, s, z))| Case {
                dtype,
                bits,
                rows,
                sizes,
                group_size,
                a,
                weights: [b, s, z],
                seed: seed >> 8,
            })
    }

    fn check(case: Case, strided: bool) -> Result<(), TestCaseError> {
        let Case { dtype, bits, rows, sizes, group_size, a, weights, seed } = case;
        let strides = strided.then_some(&weights);
        let weights = Weights::new(dtype, bits, &sizes, group_size, strides, seed);
        let numbers = noise((rows * sizes[1]) as usize, seed + 3);
        let a = if strided {
            tensor(dtype, &[rows, sizes[1]], &a, 1, &numbers)
        } else {
            contiguous(dtype, &[rows, sizes[1]], &numbers)
        };
        let Weights { packed, scales, zeros, .. } = &weights;
        let linear = LinearNbit { a: &a, b: packed, s: scales, z: zeros, bits, group_size };
        let stream = stream();
        for route in [Route::Native, Route::Msl] {
            let out = linear_nbit_by(route, &stream, linear).unwrap();
            stream.commit_and_wait().unwrap();
            prop_assert_eq!(out.dtype(), dtype);
            weights.check(&a, &out, |_| 0)?;
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        /// Every width, group size, dtype and stride; odd sizes; few rows and many.
        #[test]
        fn any_width_any_group_any_strides(case in case()) {
            check(case, true)?;
        }
    }

    #[test]
    fn larger_than_a_block_and_a_tile() {
        for (dtype, bits, rows, n, k, group_size) in [
            (DType::F32, 4, 1, 70, 1536, 32),
            (DType::Bf16, 4, 150, 70, 1102, 48),
            (DType::F16, 3, 5, 301, 1040, 100),
            (DType::F32, 7, 9, 65, 520, 256),
            (DType::Bf16, 1, 8, 33, 1032, 7),
            (DType::F32, 6, 129, 3, 516, 64),
        ] {
            let (a, weights, seed) = (vec![], Default::default(), 5);
            let case = Case { dtype, bits, rows, sizes: [n, k], group_size, a, weights, seed };
            check(case, false).unwrap();
        }
    }

    #[test]
    fn infinities_and_nan_pass_through() {
        let weights = Weights::new(DType::F32, 4, &[3, 8], 8, None, 1);
        let Weights { packed, scales, zeros, .. } = &weights;
        let group_size = 8;
        let stream = stream();
        for route in [Route::Native, Route::Msl] {
            for odd in [f64::NAN, f64::INFINITY] {
                let mut numbers = [0.5; 16];
                numbers[3] = odd;
                let a = contiguous(DType::F32, &[2, 8], &numbers);
                let linear =
                    LinearNbit { a: &a, b: packed, s: scales, z: zeros, bits: 4, group_size };
                let out = linear_nbit_by(route, &stream, linear).unwrap();
                stream.commit_and_wait().unwrap();
                let finite: Vec<bool> = values(&out).iter().map(|v| v.is_finite()).collect();
                assert_eq!(finite, [false, false, false, true, true, true]);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let stream = stream();
        let f = |sizes: &[i64]| contiguous(DType::F32, sizes, &[]);
        let bytes = |sizes: &[i64]| contiguous(DType::U8, sizes, &[]);
        let half = contiguous(DType::F16, &[3, 1], &[]);
        let text = |a: &Tensor, b: &Tensor, s: &Tensor, z: &Tensor, bits, group_size| {
            let linear = LinearNbit { a, b, s, z, bits, group_size };
            linear_nbit(&stream, linear).unwrap_err().to_string()
        };
        let (a, b, s) = (f(&[2, 32]), bytes(&[3, 16]), f(&[3, 1]));
        for (said, part) in [
            (text(&f(&[32]), &b, &s, &s, 4, 32), "A must have 2 dimensions"),
            (text(&a, &bytes(&[16]), &s, &s, 4, 32), "B must have 2 dimensions"),
            (text(&bytes(&[2, 32]), &b, &s, &s, 4, 32), "A must be float32, float16 or bfloat16"),
            (text(&a, &f(&[3, 16]), &s, &s, 4, 32), "B must be uint8"),
            (text(&a, &b, &s, &s, 3, 32), "12 bytes, in each row of B, whose rows have 16"),
            (text(&f(&[2, 33]), &b, &s, &s, 3, 32), "do not fill whole bytes"),
            (text(&a, &b, &f(&[1, 3]), &s, 4, 32), "S must have sizes [3, 1]"),
            (text(&a, &b, &s, &f(&[3, 2]), 4, 32), "Z must have sizes [3, 1]"),
            (text(&a, &b, &s, &s, 4, 16), "S must have sizes [3, 2] (2 groups of 16"),
            (text(&a, &b, &half, &s, 4, 32), "S is float16, A is float32"),
            (text(&a, &b, &s, &s, 4, 0), "group size must be positive, it is 0"),
            (text(&a, &b, &s, &s, 8, 32), "1 to 7 bits, not 8"),
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(stream.pending(), 0, "nothing refused was encoded");
    }
}
