//! `cumsum` and `cumprod`.

use super::copy::copy;
use super::dimension::{along, new_like, without_added};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp, Scan};
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

/// The sums of all elements along `dim` up to each one, contiguous, of `dtype`: without one,
/// int64 for integers and truth values, else the dtype of `input`. Elements are converted first.
/// Sums of half types accumulate in float32 at least; those of integers wrap.
///
/// # Errors
/// There is no such dimension, PyTorch has no cumulative operators for the dtype (bool and
/// unsigned integers of 16 bits and more), or out of memory.
pub fn cumsum(stream: &Stream, input: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    cumulative(stream, Scan::Sum, input, dim, dtype)
}

/// The products; else as [`cumsum`].
///
/// # Errors
/// As for [`cumsum`].
pub fn cumprod(stream: &Stream, input: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    cumulative(stream, Scan::Product, input, dim, dtype)
}

fn cumulative(
    stream: &Stream,
    scan: Scan,
    input: &Tensor,
    dim: i64,
    dtype: Option<DType>,
) -> Result<Tensor> {
    let op = GraphOp::Cumulative { scan, dim: 0 }.name();
    let (rows, dim) = along(op, input, dim)?;
    let of_input = if input.dtype().is_float() { input.dtype() } else { DType::I64 };
    let dtype = dtype.unwrap_or(of_input);
    if matches!(dtype, DType::Bool | DType::U16 | DType::U32 | DType::U64) {
        return Err(err!(Unsupported, "{op} is not defined for {dtype}"));
    }
    let out = new_like(&rows, dtype, Layout::contiguous(rows.sizes())?)?;
    if input.sizes().is_empty() {
        copy(stream, &out, &rows)?;
    } else if out.numel() != 0 {
        let rows = converted(stream, rows, dtype)?;
        graph::encode(stream, GraphOp::Cumulative { scan, dim }, &[&out, &rows])?;
    }
    without_added(out, input)
}

/// `tensor` in another dtype: a new tensor unless it has that dtype.
fn converted(stream: &Stream, tensor: Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return Ok(tensor);
    }
    let converted = new_like(&tensor, dtype, Layout::contiguous(tensor.sizes())?)?;
    copy(stream, &converted, &tensor)?;
    Ok(converted)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ARITHMETIC, contiguous, stream, strides_of, tensor, values};
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    struct Case {
        input: DType,
        dtype: Option<DType>,
        sizes: Vec<i64>,
        strides: Vec<i64>,
        dim: i64,
        numbers: Vec<f64>,
    }

    fn numbers(dtype: DType, count: usize) -> BoxedStrategy<Vec<f64>> {
        let number = match dtype {
            DType::Bool => (0..2i32).prop_map(f64::from).boxed(),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
                (0..100i32).prop_map(f64::from).boxed()
            }
            _ if dtype.is_float() => prop_oneof![
                // Not exact in the half types when summed.
                40 => (-500..500i32).prop_map(|v| f64::from(v) / 64.0),
                1 => Just(f64::NAN),
                1 => Just(f64::INFINITY),
            ]
            .boxed(),
            _ => (-100..100i32).prop_map(f64::from).boxed(),
        };
        prop::collection::vec(number, count).boxed()
    }

    fn case() -> impl Strategy<Value = Case> {
        (
            prop::sample::select(DType::ALL.to_vec()),
            prop::option::of(prop::sample::select(ARITHMETIC.to_vec())),
            prop::collection::vec(prop_oneof![0..7i64, 15..36i64], 0..4),
            any::<prop::sample::Index>(),
        )
            .prop_flat_map(|(input, dtype, sizes, dim)| {
                let count = sizes.len().max(1);
                let dim = dim.index(2 * count) as i64 - count as i64;
                // Truncating NaN and infinity is what the conversion's own tests are about.
                let numbers = numbers(
                    if dtype.is_some_and(|d| !d.is_float()) && input.is_float() {
                        DType::U8
                    } else {
                        input
                    },
                    sizes.iter().product::<i64>() as usize,
                );
                (Just((input, dtype, sizes.clone(), dim)), strides_of(sizes), numbers)
            })
            .prop_map(|((input, dtype, sizes, dim), strides, numbers)| Case {
                input,
                dtype,
                sizes,
                strides,
                dim,
                numbers,
            })
    }

    /// Numbers as a dtype holds them.
    fn stored(dtype: DType, numbers: &[f64]) -> Vec<f64> {
        values(&contiguous(dtype, &[numbers.len() as i64], numbers))
    }

    /// One row, as PyTorch's CPU computes it.
    fn scan_row(scan: Scan, dtype: DType, row: &[f64]) -> Vec<f64> {
        let product = scan == Scan::Product;
        let start = if product { 1.0 } else { 0.0 };
        match dtype {
            DType::F32 => row
                .iter()
                .scan(start, |total: &mut f64, v| {
                    *total = if product { *total * v } else { *total + v };
                    Some(f64::from(*total as f32))
                })
                .collect(),
            DType::F16 | DType::Bf16 => {
                // From float32: `half` looks at the upper bits of a float64 only, and so takes
                // numbers near the middle between two for the middle.
                let rounded = |v: f32| match dtype {
                    DType::F16 => half::f16::from_f32(v).to_f64(),
                    _ => half::bf16::from_f32(v).to_f64(),
                };
                row.iter()
                    .scan(start as f32, |total, &v| {
                        *total = if product { *total * v as f32 } else { *total + v as f32 };
                        Some(rounded(*total))
                    })
                    .collect()
            }
            _ => row
                .iter()
                .scan(start as i64, |total, &v| {
                    *total = if product {
                        total.wrapping_mul(v as i64)
                    } else {
                        total.wrapping_add(v as i64)
                    };
                    Some(match dtype {
                        DType::U8 => f64::from(*total as u8),
                        DType::I8 => f64::from(*total as i8),
                        DType::I16 => f64::from(*total as i16),
                        DType::I32 => f64::from(*total as i32),
                        _ => *total as f64,
                    })
                })
                .collect(),
        }
    }

    fn expected(scan: Scan, case: &Case) -> (DType, Vec<f64>) {
        let default = if case.input.is_float() { case.input } else { DType::I64 };
        let dtype = case.dtype.unwrap_or(default);
        let numbers = stored(dtype, &stored(case.input, &case.numbers));
        if case.sizes.is_empty() {
            return (dtype, numbers);
        }
        let dim = case.dim.rem_euclid(case.sizes.len() as i64) as usize;
        let inner = case.sizes[dim + 1..].iter().product::<i64>() as usize;
        let len = case.sizes[dim] as usize;
        let mut results = vec![0.0; numbers.len()];
        for row in 0..numbers.len().checked_div(len).unwrap_or(0) {
            let at = |i: usize| (row / inner * len + i) * inner + row % inner;
            let elements: Vec<f64> = (0..len).map(|i| numbers[at(i)]).collect();
            for (i, value) in scan_row(scan, dtype, &elements).into_iter().enumerate() {
                results[at(i)] = value;
            }
        }
        (dtype, results)
    }

    fn check(scan: Scan, case: &Case) {
        let input = tensor(case.input, &case.sizes, &case.strides, 2, &case.numbers);
        let stream = stream();
        let out = match scan {
            Scan::Sum => cumsum(&stream, &input, case.dim, case.dtype).unwrap(),
            Scan::Product => cumprod(&stream, &input, case.dim, case.dtype).unwrap(),
        };
        stream.commit_and_wait().unwrap();
        let (dtype, expected) = expected(scan, case);
        assert_eq!((out.dtype(), out.sizes()), (dtype, &case.sizes[..]));
        assert!(out.layout().is_contiguous());
        let got = values(&out);
        assert_eq!(got.len(), expected.len());
        let same = |g: &f64, e: &f64| g == e || g.is_nan() && e.is_nan();
        let wrong = got.iter().zip(&expected).position(|(g, e)| !same(g, e));
        if let Some(i) = wrong {
            panic!("element {i} of {}: {} for {}", got.len(), got[i], expected[i]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn cumsum_of_any_strides_and_dtypes(case in case()) {
            check(Scan::Sum, &case);
        }

        #[test]
        fn cumprod_of_any_strides_and_dtypes(case in case()) {
            check(Scan::Product, &case);
        }
    }

    #[test]
    fn many_rows_are_shared_out() {
        for (sizes, dim) in [([700, 90], 0), ([700, 90], 1), ([3, 40_000], 1), ([40_000, 3], 0)] {
            let count = sizes.iter().product::<i64>() as usize;
            let case = Case {
                input: DType::F32,
                dtype: None,
                sizes: sizes.to_vec(),
                strides: Layout::contiguous(&sizes).unwrap().strides.to_vec(),
                dim,
                numbers: (0..count).map(|i| (i * 31 % 97) as f64 / 8.0).collect(),
            };
            check(Scan::Sum, &case);
        }
    }

    #[test]
    fn sums_are_rounded_only_when_they_are_stored() {
        // In bfloat16 256 + 1 is 256; a sum that accumulates there would stay.
        for (dtype, ones) in [(DType::Bf16, 260), (DType::F16, 2060)] {
            let input = contiguous(dtype, &[ones], &vec![1.0; ones as usize]);
            let stream = stream();
            let out = cumsum(&stream, &input, 0, None).unwrap();
            stream.commit_and_wait().unwrap();
            assert_eq!(values(&out).last(), Some(&(ones as f64)), "{dtype}");
        }
        // Likewise of 2^24 + 1 in float32.
        let input = contiguous(DType::F32, &[4], &[16_777_216.0, 1.0, 1.0, -16_777_216.0]);
        let stream = stream();
        let out = cumsum(&stream, &input, 0, None).unwrap();
        stream.commit_and_wait().unwrap();
        assert_eq!(values(&out), [16_777_216.0, 16_777_216.0, 16_777_218.0, 2.0]);
    }

    #[test]
    fn truth_values_are_counted() {
        let input = contiguous(DType::Bool, &[5], &[1.0, 0.0, 1.0, 1.0, 0.0]);
        let stream = stream();
        let out = cumsum(&stream, &input, -1, None).unwrap();
        stream.commit_and_wait().unwrap();
        assert_eq!(out.dtype(), DType::I64);
        assert_eq!(values(&out), [1.0, 1.0, 2.0, 3.0, 3.0]);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let stream = stream();
        let input = contiguous(DType::F32, &[2, 3], &[0.0; 6]);
        let text = cumsum(&stream, &input, 2, None).unwrap_err().to_string();
        assert!(text.contains("cumsum: dimension 2") && text.contains("-2 to 1"), "{text}");
        let text = cumprod(&stream, &input, 0, Some(DType::Bool)).unwrap_err().to_string();
        assert!(text.contains("cumprod is not defined for bool"), "{text}");
        assert_eq!(stream.pending(), 0, "nothing refused was encoded");
    }
}
