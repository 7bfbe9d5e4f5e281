//! `sort`: whole rows along a dimension in order.

use super::dimension::{along, new_like, without_added};
use crate::Result;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{DType, Tensor};

/// The elements along `dim` in order, and their indices (int64). Equal elements keep their order,
/// in descending order as well; NaN counts as the greatest. Results are dense and have the
/// strides of `input` if it is dense, as in PyTorch.
///
/// # Errors
/// There is no such dimension, or out of memory.
pub fn sort(
    stream: &Stream,
    input: &Tensor,
    dim: i64,
    descending: bool,
) -> Result<(Tensor, Tensor)> {
    let (rows, dim) = along("sort", input, dim)?;
    let layout = rows.layout().dense_like()?;
    let values = new_like(&rows, rows.dtype(), layout.clone())?;
    let indices = new_like(&rows, DType::I64, layout)?;
    if values.numel() != 0 {
        graph::encode(stream, GraphOp::Sort { dim, descending }, &[&values, &indices, &rows])?;
    }
    Ok((without_added(values, input)?, without_added(indices, input)?))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{contiguous, stream, strides_of, tensor, values};
    use super::super::topk;
    use super::*;
    use crate::tensor::Layout;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    #[derive(Debug, Clone)]
    struct Case {
        dtype: DType,
        sizes: Vec<i64>,
        strides: Vec<i64>,
        dim: i64,
        /// For `topk`.
        k: i64,
        descending: bool,
        numbers: Vec<f64>,
    }

    /// Numbers with many equal ones among them; special ones if the dtype has them.
    fn numbers(dtype: DType, count: usize) -> BoxedStrategy<Vec<f64>> {
        let number = match dtype {
            DType::Bool => (0..2i32).prop_map(f64::from).boxed(),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
                (0..6i32).prop_map(f64::from).boxed()
            }
            DType::F16 | DType::F32 | DType::Bf16 => prop_oneof![
                6 => (-3..4i32).prop_map(|v| f64::from(v) / 4.0),
                1 => Just(-0.0),
                1 => Just(f64::NAN),
                1 => Just(-f64::NAN),
                1 => Just(f64::INFINITY),
                1 => Just(f64::NEG_INFINITY),
            ]
            .boxed(),
            _ => (-4..5i32).prop_map(f64::from).boxed(),
        };
        prop::collection::vec(number, count).boxed()
    }

    fn case() -> impl Strategy<Value = Case> {
        let dtype = prop::sample::select(DType::ALL.to_vec());
        (dtype, prop::collection::vec(0..9i64, 0..5), any::<prop::sample::Index>())
            .prop_flat_map(|(dtype, sizes, dim)| {
                let count = sizes.len().max(1);
                let dim = dim.index(2 * count) as i64 - count as i64;
                let at = if dim < 0 { dim + count as i64 } else { dim } as usize;
                let longest = sizes.get(at).copied().unwrap_or(1);
                let elements = sizes.iter().product::<i64>() as usize;
                (
                    Just((dtype, sizes.clone(), dim)),
                    strides_of(sizes),
                    0..=longest,
                    any::<bool>(),
                    numbers(dtype, elements),
                )
            })
            .prop_map(|((dtype, sizes, dim), strides, k, descending, numbers)| Case {
                dtype,
                sizes,
                strides,
                dim,
                k,
                descending,
                numbers,
            })
    }

    fn compare(a: f64, b: f64) -> Ordering {
        match (a.is_nan(), b.is_nan()) {
            (false, false) => a.partial_cmp(&b).unwrap(),
            (a, b) => a.cmp(&b),
        }
    }

    /// Bits of values and indices of a row-major result: the first `k` of each row.
    fn expected(case: &Case, k: usize) -> (Vec<u64>, Vec<f64>) {
        let sizes = if case.sizes.is_empty() { vec![1] } else { case.sizes.clone() };
        let dim = case.dim.rem_euclid(sizes.len() as i64) as usize;
        let inner: i64 = sizes[dim + 1..].iter().product();
        let outer: i64 = sizes[..dim].iter().product();
        let (inner, outer, len) = (inner as usize, outer as usize, sizes[dim] as usize);
        let mut results = (vec![0; outer * k * inner], vec![0.0; outer * k * inner]);
        for row in 0..outer * inner {
            let at = |i: usize, len: usize| (row / inner * len + i) * inner + row % inner;
            let mut order: Vec<usize> = (0..len).collect();
            order.sort_by(|&a, &b| {
                let ordering = compare(case.numbers[at(a, len)], case.numbers[at(b, len)]);
                if case.descending { ordering.reverse() } else { ordering }
            });
            for (i, &from) in order.iter().take(k).enumerate() {
                results.0[at(i, k)] = bits(case.numbers[at(from, len)]);
                results.1[at(i, k)] = from as f64;
            }
        }
        results
    }

    /// The number's bits; tells 0 from -0 but no NaN from another.
    fn bits(number: f64) -> u64 {
        if number.is_nan() { f64::NAN.to_bits() } else { number.to_bits() }
    }

    fn all_bits(tensor: &Tensor) -> Vec<u64> {
        values(tensor).into_iter().map(bits).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn sorts_are_stable_sorts(case in case()) {
            let input = tensor(case.dtype, &case.sizes, &case.strides, 2, &case.numbers);
            let stream = stream();
            let (sorted, indices) = sort(&stream, &input, case.dim, case.descending).unwrap();
            stream.commit_and_wait().unwrap();
            let len = case.sizes.get(case.dim.rem_euclid(case.sizes.len().max(1) as i64) as usize);
            let expected = expected(&case, len.map_or(1, |&len| len as usize));
            prop_assert_eq!(all_bits(&sorted), expected.0);
            prop_assert_eq!(values(&indices), expected.1);
            let layout = input.layout().dense_like().unwrap();
            prop_assert_eq!(sorted.layout(), &layout);
            prop_assert_eq!(indices.layout(), &layout);
            prop_assert_eq!((sorted.dtype(), indices.dtype()), (case.dtype, DType::I64));
        }

        #[test]
        fn topk_is_the_beginning_of_a_stable_sort(case in case()) {
            let input = tensor(case.dtype, &case.sizes, &case.strides, 2, &case.numbers);
            let stream = stream();
            let (top, indices) = topk(&stream, &input, case.k, case.dim, case.descending).unwrap();
            stream.commit_and_wait().unwrap();
            // The element of a tensor without dimensions is there even if none is asked for.
            let k = if case.sizes.is_empty() { 1 } else { case.k };
            let expected = expected(&case, k as usize);
            prop_assert_eq!(all_bits(&top), expected.0);
            prop_assert_eq!(values(&indices), expected.1);
            let mut sizes = case.sizes.clone();
            if !sizes.is_empty() {
                let at = case.dim.rem_euclid(sizes.len() as i64) as usize;
                sizes[at] = k;
            }
            prop_assert_eq!(top.sizes(), &sizes[..]);
            prop_assert_eq!(indices.sizes(), &sizes[..]);
            prop_assert!(top.layout().is_contiguous() && indices.layout().is_contiguous());
        }
    }

    #[test]
    fn long_rows_and_many_rows() {
        // Each value three times, mixed up.
        let (rows, len) = (5i64, 30_011i64);
        let numbers: Vec<f64> =
            (0..rows * len).map(|i| ((i % len * 7919 + i / len) % len / 3) as f64).collect();
        for dtype in [DType::F32, DType::I32, DType::I64] {
            for (sizes, strides, dim) in
                [([rows, len], [len, 1], 1i64), ([rows, len], [1, rows], -1)]
            {
                let input = tensor(dtype, &sizes, &strides, 0, &numbers);
                for (k, descending) in [(1, true), (50, true), (50, false), (len, false)] {
                    let case = Case {
                        dtype,
                        sizes: sizes.to_vec(),
                        strides: strides.to_vec(),
                        dim,
                        k,
                        descending,
                        numbers: numbers.clone(),
                    };
                    let stream = stream();
                    let (top, indices) = topk(&stream, &input, k, dim, descending).unwrap();
                    stream.commit_and_wait().unwrap();
                    let (values_expected, indices_expected) = expected(&case, k as usize);
                    assert!(all_bits(&top) == values_expected, "{dtype} {k} {descending}");
                    assert!(values(&indices) == indices_expected, "{dtype} {k} {descending}");
                }
            }
        }
    }

    /// The element of an `i64` tensor; `values` would round it.
    fn integers(tensor: &Tensor) -> Vec<i64> {
        // SAFETY: a contiguous tensor of `i64`, which only the test uses.
        unsafe { std::slice::from_raw_parts(tensor.as_ptr().cast::<i64>(), tensor.numel()) }
            .to_vec()
    }

    #[test]
    fn integers_are_compared_exactly() {
        let extremes = [0, i64::MAX, i64::MIN, i64::MAX - 1, -1, i64::MIN + 1];
        let input = contiguous(DType::I64, &[6], &[]);
        // SAFETY: the tensor has room for six `i64`.
        unsafe { input.as_ptr().cast::<[i64; 6]>().write(extremes) };
        let unsigned = input.view(0, DType::U64, Layout::contiguous(&[6]).unwrap()).unwrap();
        let stream = stream();
        let (signed, indices) = sort(&stream, &input, 0, false).unwrap();
        let (top, _) = topk(&stream, &unsigned, 3, 0, true).unwrap();
        stream.commit_and_wait().unwrap();
        let ascending = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];
        assert_eq!(integers(&signed), ascending);
        assert_eq!(integers(&indices), [2, 5, 4, 0, 3, 1]);
        assert_eq!(integers(&top), [-1, i64::MIN + 1, i64::MIN], "as unsigned numbers");
    }

    #[test]
    fn repeated_rows_are_sorted_too() {
        let input = tensor(DType::F32, &[2, 3], &[0, 1], 0, &[3.0, 1.0, 2.0]);
        let stream = stream();
        let (sorted, indices) = sort(&stream, &input, -1, false).unwrap();
        stream.commit_and_wait().unwrap();
        assert_eq!(values(&sorted), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        assert_eq!(values(&indices), [1.0, 2.0, 0.0, 1.0, 2.0, 0.0]);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let stream = stream();
        let input = contiguous(DType::F32, &[2, 3], &[0.0; 6]);
        let text = |k, dim| topk(&stream, &input, k, dim, true).unwrap_err().to_string();
        let message = text(4, 1);
        assert!(message.contains("topk: k is 4") && message.contains("3 elements"), "{message}");
        assert!(message.contains("dimension 1") && message.contains("[2, 3]"), "{message}");
        assert!(text(-1, 0).contains("k is -1"));
        let message = text(1, 2);
        assert!(message.contains("dimension 2") && message.contains("-2 to 1"), "{message}");
        assert!(sort(&stream, &input, -3, true).unwrap_err().to_string().contains("sort: "));
        let scalar = contiguous(DType::F32, &[], &[1.0]);
        assert!(topk(&stream, &scalar, 2, 0, true).is_err());
        assert!(topk(&stream, &scalar, 1, 1, true).is_err());
        assert_eq!(stream.pending(), 0, "nothing refused was encoded");
    }
}
