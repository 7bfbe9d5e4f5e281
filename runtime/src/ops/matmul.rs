//! What the matrix products share: checks, and results that alias operands.

use super::copy::copy;
use super::overlap::{check_writable, may_overlap};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

/// Checks that `tensor` has this many dimensions.
pub fn check_dim(op: &str, what: &str, tensor: &Tensor, dim: usize) -> Result<()> {
    if tensor.sizes().len() == dim {
        return Ok(());
    }
    Err(err!(
        InvalidArgument,
        "{op}: {what} must have {dim} dimensions, its sizes are {:?}",
        tensor.sizes()
    ))
}

/// Checks that all have the dtype of `out`, and that matrix products have that dtype.
pub fn check_dtypes(op: &str, out: &Tensor, operands: &[(&str, &Tensor)]) -> Result<()> {
    let dtype = out.dtype();
    for (what, operand) in operands {
        if operand.dtype() != dtype {
            return Err(err!(
                InvalidArgument,
                "{op}: {what} is {}, the result is {dtype}; they must agree",
                operand.dtype()
            ));
        }
    }
    if matches!(dtype, DType::Bool | DType::U16 | DType::U32 | DType::U64) {
        return Err(err!(Unsupported, "{op} is not defined for {dtype}"));
    }
    Ok(())
}

/// Checks the sizes of the result.
pub fn check_out(op: &str, out: &Tensor, expected: &[i64]) -> Result<()> {
    if out.sizes() != expected {
        return Err(err!(
            InvalidArgument,
            "{op}: the result must have sizes {expected:?}, it has {:?}",
            out.sizes()
        ));
    }
    check_writable(op, out)
}

/// The error of inner sizes that differ.
pub fn check_inner(op: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    let (k_a, k_b) = (a.sizes()[a.sizes().len() - 1], b.sizes()[b.sizes().len() - 2]);
    if k_a == k_b {
        return Ok(());
    }
    Err(err!(
        InvalidArgument,
        "{op}: {:?} and {:?} cannot be multiplied: {k_a} columns meet {k_b} rows",
        a.sizes(),
        b.sizes()
    ))
}

/// Encodes a product whose result must not be written while `operands` are read. If the result
/// shares memory with one of them it is computed apart and copied.
pub fn encode(stream: &Stream, op: GraphOp, out: &Tensor, operands: &[&Tensor]) -> Result<()> {
    let aliased = operands.iter().any(|operand| may_overlap(out, operand));
    let target = if aliased {
        Tensor::empty(stream.device(), out.dtype(), Layout::contiguous(out.sizes())?)?
    } else {
        out.clone()
    };
    let mut tensors = smallvec::SmallVec::<[&Tensor; 4]>::from_slice(&[&target]);
    tensors.extend_from_slice(operands);
    graph::encode(stream, op, &tensors)?;
    if aliased { copy(stream, out, &target) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ARITHMETIC, contiguous, gaps, stream, strides_of, tensor, values};
    use super::super::{addmm, bmm, mm};
    use super::*;
    use proptest::prelude::*;

    /// Numbers that every dtype holds exactly, negative ones where it has them.
    fn numbers(dtype: DType, count: i64, seed: i64) -> Vec<f64> {
        let shift = if dtype == DType::U8 { 0 } else { 8 };
        (0..count).map(|i| ((i * 7 + seed * 5 + i / 11) % 17 - shift) as f64).collect()
    }

    fn product(a: &[f64], b: &[f64], m: i64, k: i64, n: i64) -> Vec<f64> {
        let (m, k, n) = (m as usize, k as usize, n as usize);
        let at = |i: usize| (0..k).map(|t| a[i / n * k + t] * b[t * n + i % n]).sum();
        (0..m * n).map(at).collect()
    }

    /// An exact result as the dtype holds it: rounded once, or wrapped.
    fn stored(dtype: DType, exact: &[f64]) -> Vec<f64> {
        let count = exact.len() as i64;
        values(&contiguous(dtype, &[count], exact))
    }

    #[derive(Debug, Clone)]
    struct Case {
        dtype: DType,
        sizes: [i64; 4],
        out: Vec<i64>,
        input: Vec<i64>,
        a: Vec<i64>,
        b: Vec<i64>,
    }

    /// Batch, m, k, n and strides for the four operands.
    fn case(most: i64) -> impl Strategy<Value = Case> {
        (prop::sample::select(ARITHMETIC.to_vec()), 0..3i64, 0..most, 0..most, 0..most)
            .prop_flat_map(|(dtype, batch, m, k, n)| {
                (
                    strides_of(vec![batch, m, n]),
                    strides_of(vec![batch, m, n]),
                    strides_of(vec![batch, m, k]),
                    strides_of(vec![batch, k, n]),
                )
                    .prop_map(move |(out, input, a, b)| Case {
                        dtype,
                        sizes: [batch, m, k, n],
                        out,
                        input,
                        a,
                        b,
                    })
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn mm_of_any_strides(case in case(20)) {
            let Case { dtype, sizes: [_, m, k, n], out, a, b, .. } = case;
            let (av, bv) = (numbers(dtype, m * k, 1), numbers(dtype, k * n, 2));
            let a = tensor(dtype, &[m, k], &a[1..], 1, &av);
            let b = tensor(dtype, &[k, n], &b[1..], 2, &bv);
            let out = tensor(dtype, &[m, n], &out[1..], 3, &[]);
            let before = gaps(&out);
            let stream = stream();
            mm(&stream, &out, &a, &b).unwrap();
            stream.commit_and_wait().unwrap();
            prop_assert_eq!(values(&out), stored(dtype, &product(&av, &bv, m, k, n)));
            prop_assert_eq!(gaps(&out), before);
        }

        #[test]
        fn bmm_of_any_strides(case in case(9)) {
            let Case { dtype, sizes: [batch, m, k, n], out, a, b, .. } = case;
            let av = numbers(dtype, batch * m * k, 1);
            let bv = numbers(dtype, batch * k * n, 2);
            let a = tensor(dtype, &[batch, m, k], &a, 1, &av);
            let b = tensor(dtype, &[batch, k, n], &b, 2, &bv);
            let out = tensor(dtype, &[batch, m, n], &out, 3, &[]);
            let before = gaps(&out);
            let stream = stream();
            bmm(&stream, &out, &a, &b).unwrap();
            stream.commit_and_wait().unwrap();
            let exact: Vec<f64> = (0..batch as usize)
                .flat_map(|i| {
                    let (ma, mb) = ((m * k) as usize, (k * n) as usize);
                    product(&av[i * ma..][..ma], &bv[i * mb..][..mb], m, k, n)
                })
                .collect();
            prop_assert_eq!(values(&out), stored(dtype, &exact));
            prop_assert_eq!(gaps(&out), before);
        }

        #[test]
        fn addmm_of_any_strides(
            case in case(12),
            beta in -2i32..3,
            alpha in -2i32..3,
            broadcast in 0usize..4,
        ) {
            let Case { dtype, sizes: [_, m, k, n], out, input, a, b } = case;
            let (av, bv) = (numbers(dtype, m * k, 1), numbers(dtype, k * n, 2));
            let iv = numbers(dtype, m * n, 3);
            let a = tensor(dtype, &[m, k], &a[1..], 1, &av);
            let b = tensor(dtype, &[k, n], &b[1..], 2, &bv);
            let out = tensor(dtype, &[m, n], &out[1..], 3, &[]);
            let input_sizes = [vec![m, n], vec![n], vec![m, 1], vec![]][broadcast].clone();
            let input_sizes = &input_sizes[..];
            let input = if broadcast == 0 {
                tensor(dtype, input_sizes, &input[1..], 1, &iv)
            } else {
                contiguous(dtype, input_sizes, &numbers(dtype, input_sizes.iter().product(), 3))
            };
            let iv = values(&crate::ops::broadcast_to("test", &input, &[m, n]).unwrap());
            let stream = stream();
            addmm(&stream, &out, &input, &a, &b, beta.into(), alpha.into()).unwrap();
            stream.commit_and_wait().unwrap();
            let exact: Vec<f64> = product(&av, &bv, m, k, n)
                .iter()
                .zip(&iv)
                .map(|(p, i)| f64::from(beta) * i + f64::from(alpha) * p)
                .collect();
            prop_assert_eq!(values(&out), stored(dtype, &exact));
        }
    }

    #[test]
    fn larger_than_a_tile() {
        // Half sums stay exact in float32; the result rounds once, which a sum in half would not.
        for dtype in ARITHMETIC {
            for (m, k, n) in [(130, 600, 30), (1, 70, 300), (300, 3, 1), (33, 129, 65)] {
                let (av, bv) = (numbers(dtype, m * k, 4), numbers(dtype, k * n, 9));
                let a = contiguous(dtype, &[m, k], &av);
                let b = tensor(dtype, &[k, n], &[1, k], 0, &bv);
                let out = contiguous(dtype, &[m, n], &[]);
                let stream = stream();
                mm(&stream, &out, &a, &b).unwrap();
                stream.commit_and_wait().unwrap();
                let expected = stored(dtype, &product(&av, &bv, m, k, n));
                assert!(values(&out) == expected, "{dtype} {m}x{k}x{n}");
            }
        }
    }

    #[test]
    fn results_may_alias_operands() {
        let numbers: Vec<f64> = (0..9).map(f64::from).collect();
        for dtype in [DType::F32, DType::I32] {
            let a = contiguous(dtype, &[3, 3], &numbers);
            let t = a.view(0, dtype, Layout::new(&[3, 3], &[1, 3]).unwrap()).unwrap();
            let expected = product(&numbers, &values(&t), 3, 3, 3);
            let stream = stream();
            mm(&stream, &a, &a, &t).unwrap();
            stream.commit_and_wait().unwrap();
            assert_eq!(values(&a), expected);

            let a = contiguous(dtype, &[3, 3], &numbers);
            let b = contiguous(dtype, &[3, 3], &numbers);
            let sum: Vec<f64> = product(&numbers, &numbers, 3, 3, 3)
                .iter()
                .zip(&numbers)
                .map(|(p, i)| i - 2.0 * p)
                .collect();
            addmm(&stream, &a, &a, &b, &b, 1.0, -2.0).unwrap();
            stream.commit_and_wait().unwrap();
            assert_eq!(values(&a), sum);
        }
    }

    #[test]
    fn a_beta_of_zero_ignores_nan() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            let nan = contiguous(dtype, &[2, 2], &[f64::NAN; 4]);
            let one = contiguous(dtype, &[2, 2], &[1.0; 4]);
            let out = contiguous(dtype, &[2, 2], &[f64::NAN; 4]);
            let stream = stream();
            addmm(&stream, &out, &nan, &one, &one, 0.0, 1.0).unwrap();
            stream.commit_and_wait().unwrap();
            assert_eq!(values(&out), [2.0; 4]);
            addmm(&stream, &out, &nan, &one, &one, 1.0, 0.0).unwrap();
            stream.commit_and_wait().unwrap();
            assert!(values(&out).iter().all(|v| v.is_nan()));
            let empty = contiguous(dtype, &[2, 0], &[]);
            let empty_t = contiguous(dtype, &[0, 2], &[]);
            addmm(&stream, &out, &one, &empty, &empty_t, 3.0, 1.0).unwrap();
            stream.commit_and_wait().unwrap();
            assert_eq!(values(&out), [3.0; 4]);
            addmm(&stream, &out, &nan, &empty, &empty_t, 0.0, 1.0).unwrap();
            stream.commit_and_wait().unwrap();
            assert_eq!(values(&out), [0.0; 4]);
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let stream = stream();
        let f = |sizes: &[i64]| contiguous(DType::F32, sizes, &[]);
        let i = |sizes: &[i64]| contiguous(DType::I32, sizes, &[]);
        let mm_text =
            |out: &Tensor, a: &Tensor, b: &Tensor| mm(&stream, out, a, b).unwrap_err().to_string();
        let text = mm_text(&f(&[2, 2]), &f(&[2, 3]), &f(&[4, 2]));
        assert!(text.contains("3 columns meet 4 rows"), "{text}");
        let text = mm_text(&f(&[2, 2]), &f(&[3]), &f(&[3, 2]));
        assert!(text.contains("self must have 2 dimensions"), "{text}");
        let text = mm_text(&f(&[2, 1]), &f(&[2, 3]), &f(&[3, 2]));
        assert!(text.contains("must have sizes [2, 2]"), "{text}");
        let text = mm_text(&f(&[2, 2]), &f(&[2, 3]), &i(&[3, 2]));
        assert!(text.contains("mat2 is int32"), "{text}");
        let b = |sizes: &[i64]| contiguous(DType::Bool, sizes, &[]);
        let text = mm_text(&b(&[2, 2]), &b(&[2, 3]), &b(&[3, 2]));
        assert!(text.contains("not defined for bool"), "{text}");
        let text = bmm(&stream, &f(&[1, 2, 2]), &f(&[1, 2, 3]), &f(&[2, 3, 2])).unwrap_err();
        assert!(text.to_string().contains("batches"), "{text}");
        let text = addmm(&stream, &f(&[2, 2]), &f(&[3]), &f(&[2, 3]), &f(&[3, 2]), 1.0, 1.0);
        assert!(text.unwrap_err().to_string().contains("broadcast"));
        let text = addmm(&stream, &i(&[2, 2]), &i(&[2]), &i(&[2, 3]), &i(&[3, 2]), 0.5, 1.0);
        assert!(text.unwrap_err().to_string().contains("whole numbers"));
        assert_eq!(stream.pending(), 0, "nothing refused was encoded");
    }
}
