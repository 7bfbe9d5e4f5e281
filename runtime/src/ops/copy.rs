//! `copy_`: any strides, broadcast, dtype conversion, overlapping operands.

use super::overlap::{check_writable, may_overlap, same_view};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{Layout, Tensor};

/// `dst = src`, with `src` broadcast to the sizes of `dst` and converted to its dtype as
/// PyTorch does. The operands may overlap in any way.
///
/// # Errors
/// `src` does not broadcast to `dst`, elements of `dst` share memory, or out of memory.
pub fn copy(stream: &Stream, dst: &Tensor, src: &Tensor) -> Result<()> {
    let src = broadcast_to("copy_", src, dst.sizes())?;
    if dst.numel() == 0 || same_view(dst, &src) {
        return Ok(());
    }
    check_writable("copy_", dst)?;
    if may_overlap(dst, &src) {
        // Elements could be overwritten before they are read: go through a packed copy.
        let layout = Layout::contiguous(src.sizes())?;
        let packed = Tensor::empty(stream.device(), src.dtype(), layout)?;
        copy_apart(stream, &packed, &src)?;
        return copy_apart(stream, dst, &packed);
    }
    copy_apart(stream, dst, &src)
}

/// `dst = src` for operands of equal sizes that share no memory.
fn copy_apart(stream: &Stream, dst: &Tensor, src: &Tensor) -> Result<()> {
    let same_bytes = dst.dtype() == src.dtype()
        && dst.layout().is_dense()
        && src.layout().is_dense()
        && dst
            .sizes()
            .iter()
            .zip(dst.strides().iter().zip(src.strides()))
            .all(|(&size, (d, s))| size <= 1 || d == s);
    if same_bytes {
        return stream.copy(
            (src.storage().buffer(), src.buffer_offset()),
            (dst.storage().buffer(), dst.buffer_offset()),
            dst.numel() * dst.dtype().size(),
        );
    }
    graph::encode(stream, GraphOp::Copy, &[dst, src])
}

/// `tensor` as a view of these sizes: missing leading dimensions and dimensions of size 1 are
/// repeated.
///
/// # Errors
/// The sizes do not broadcast; the message begins with `op`.
pub fn broadcast_to(op: &str, tensor: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if tensor.sizes() == sizes {
        return Ok(tensor.clone());
    }
    let lead = sizes.len().checked_sub(tensor.sizes().len());
    let fits = lead.is_some_and(|lead| {
        tensor.sizes().iter().zip(&sizes[lead..]).all(|(&have, &want)| have == want || have == 1)
    });
    let (Some(lead), true) = (lead, fits) else {
        return Err(err!(
            InvalidArgument,
            "{op}: a tensor of sizes {:?} does not broadcast to {sizes:?}",
            tensor.sizes()
        ));
    };
    let mut strides = smallvec::SmallVec::<[i64; 6]>::from_elem(0, sizes.len());
    for (d, stride) in strides.iter_mut().enumerate().skip(lead) {
        if tensor.sizes()[d - lead] == sizes[d] {
            *stride = tensor.strides()[d - lead];
        }
    }
    tensor.view(tensor.offset(), tensor.dtype(), Layout::new(sizes, &strides)?)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{contiguous, gaps, stream, strides_of, tensor, values};
    use super::*;
    use crate::tensor::DType;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    struct Case {
        dst: DType,
        src: DType,
        sizes: Vec<i64>,
        dst_strides: Vec<i64>,
        /// The source's sizes: some trailing ones of `sizes`, some of them 1.
        src_sizes: Vec<i64>,
        src_strides: Vec<i64>,
    }

    fn dtype() -> impl Strategy<Value = DType> {
        prop::sample::select(DType::ALL.to_vec())
    }

    fn case() -> impl Strategy<Value = Case> {
        prop::collection::vec(0i64..6, 0..5)
            .prop_flat_map(|sizes| {
                let dim = sizes.len();
                (Just(sizes), 0..=dim, prop::collection::vec(any::<bool>(), dim))
            })
            .prop_flat_map(|(sizes, skip, ones)| {
                let src_sizes: Vec<i64> = sizes[skip..]
                    .iter()
                    .zip(&ones)
                    .map(|(&size, &one)| if one { 1 } else { size })
                    .collect();
                (
                    (dtype(), dtype()),
                    Just(sizes.clone()),
                    strides_of(sizes),
                    Just(src_sizes.clone()),
                    strides_of(src_sizes),
                )
            })
            .prop_map(|((dst, src), sizes, dst_strides, src_sizes, src_strides)| Case {
                dst,
                src,
                sizes,
                dst_strides,
                src_sizes,
                src_strides,
            })
    }

    /// The values of a tensor of `src` sizes, broadcast to `sizes`.
    fn broadcast(values: &[f64], src: &[i64], sizes: &[i64]) -> Vec<f64> {
        let lead = sizes.len() - src.len();
        let total: i64 = sizes.iter().product();
        (0..total)
            .map(|index| {
                let mut rest = index;
                let (mut at, mut step) = (0, 1);
                for d in (0..sizes.len()).rev() {
                    let i = rest % sizes[d];
                    rest /= sizes[d];
                    if d >= lead {
                        at += if src[d - lead] == 1 { 0 } else { i } * step;
                        step *= src[d - lead];
                    }
                }
                values[at as usize]
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Every element arrives, converted, and no byte between elements is touched.
        #[test]
        fn any_strides_any_dtypes_any_broadcast(case in case()) {
            let count = case.src_sizes.iter().product::<i64>() as usize;
            // Small whole numbers: every dtype holds them, but `bool`.
            let numbers: Vec<f64> = (0..count).map(|i| (i % 100) as f64).collect();
            let src = tensor(case.src, &case.src_sizes, &case.src_strides, 2, &numbers);
            let dst = tensor(case.dst, &case.sizes, &case.dst_strides, 1, &[]);
            let before = gaps(&dst);
            let stream = stream();
            copy(&stream, &dst, &src).unwrap();
            stream.commit_and_wait().unwrap();
            let as_bool = case.src == DType::Bool || case.dst == DType::Bool;
            let expected: Vec<f64> = broadcast(&numbers, &case.src_sizes, &case.sizes)
                .into_iter()
                .map(|v| if as_bool { f64::from(u8::from(v != 0.0)) } else { v })
                .collect();
            prop_assert_eq!(values(&dst), expected);
            prop_assert_eq!(gaps(&dst), before);
        }

        /// Overlapping operands of one storage: the result is as if the source was read first.
        #[test]
        fn overlapping_operands(shift in 0usize..5, flip in any::<bool>(), n in 1i64..8) {
            let numbers: Vec<f64> = (0..64 + 8).map(f64::from).collect();
            let whole = contiguous(DType::I32, &[72], &numbers);
            let view = |offset: usize, strides: &[i64]| {
                whole.view(offset * 4, DType::I32, Layout::new(&[n, n], strides).unwrap()).unwrap()
            };
            let src = view(0, &[8, 1]);
            let dst = view(shift, if flip { &[1, 8] } else { &[8, 1] });
            let expected = values(&src);
            let stream = stream();
            copy(&stream, &dst, &src).unwrap();
            stream.commit_and_wait().unwrap();
            prop_assert_eq!(values(&dst), expected);
        }
    }

    #[test]
    fn large_copies_are_right_in_every_order() {
        let (a, b) = (211i64, 337i64);
        let numbers: Vec<f64> = (0..a * b).map(|i| (i % 1021) as f64).collect();
        for (dst_strides, src_strides) in
            [([b, 1], [1, a]), ([1, a], [b, 1]), ([b, 1], [b + 3, 1]), ([1, a], [1, a + 1])]
        {
            for dtype in [DType::F32, DType::F16, DType::U8] {
                let src = tensor(dtype, &[a, b], &src_strides, 0, &numbers);
                let dst = tensor(DType::F32, &[a, b], &dst_strides, 0, &[]);
                let stream = stream();
                copy(&stream, &dst, &src).unwrap();
                stream.commit_and_wait().unwrap();
                assert_eq!(values(&dst), values(&src), "{dst_strides:?} {src_strides:?} {dtype}");
            }
        }
    }

    #[test]
    fn conversions_are_pytorchs() {
        // Expected: torch.tensor(src).to(dst) where that is defined; saturation of 32 and 64 bit
        // integers and wrapping into smaller ones is what Arm does with the rest.
        let check = |src: DType, dst: DType, from: &[f64], to: &[f64]| {
            let a = contiguous(src, &[from.len() as i64], from);
            let b = contiguous(dst, &[to.len() as i64], &[]);
            let stream = stream();
            copy(&stream, &b, &a).unwrap();
            stream.commit_and_wait().unwrap();
            let got = values(&b);
            let same = got.iter().zip(to).all(|(g, t)| g == t || g.is_nan() && t.is_nan());
            assert!(same, "{src} {from:?} to {dst}: {got:?}, not {to:?}");
        };
        use DType::*;
        check(F32, I32, &[1.9, -1.9, 0.5, 3e9, f64::NAN], &[1.0, -1.0, 0.0, 2147483647.0, 0.0]);
        check(F32, U8, &[-1.0, 256.0, 255.9], &[255.0, 0.0, 255.0]);
        check(F32, I8, &[200.0, -129.0], &[-56.0, 127.0]);
        check(F32, Bool, &[0.0, -0.0, 0.1, f64::NAN], &[0.0, 0.0, 1.0, 1.0]);
        check(Bool, F32, &[0.0, 7.0], &[0.0, 1.0]);
        check(I32, U8, &[-1.0, 256.0], &[255.0, 0.0]);
        check(I32, Bool, &[256.0, 0.0], &[1.0, 0.0]);
        check(I64, F32, &[16777217.0], &[16777216.0]);
        check(F32, F16, &[65520.0, 1.0 + 1.0 / 2048.0], &[f64::INFINITY, 1.0]);
        check(F32, Bf16, &[1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0], &[1.0, 1.0 + 1.0 / 64.0]);
        check(F32, F32, &[f64::NAN, f64::INFINITY], &[f64::NAN, f64::INFINITY]);
        check(U64, F32, &[-1.0], &[18446744073709551615.0]);
        check(Bf16, F16, &[1e5, 1.5], &[f64::INFINITY, 1.5]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let stream = stream();
        let a = contiguous(DType::F32, &[2, 3], &[0.0; 6]);
        let b = contiguous(DType::F32, &[2], &[0.0; 2]);
        let text = copy(&stream, &a, &b).unwrap_err().to_string();
        assert!(text.contains("[2]") && text.contains("[2, 3]"), "{text}");
        let repeated = tensor(DType::F32, &[2, 3], &[0, 1], 0, &[0.0; 6]);
        let text = copy(&stream, &repeated, &a).unwrap_err().to_string();
        assert!(text.contains("share memory"), "{text}");
        assert_eq!(stream.pending(), 0);
    }
}
