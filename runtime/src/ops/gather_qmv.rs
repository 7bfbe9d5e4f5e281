//! `gather_qmv`: rows of activations times the quantised weights of one of several experts each.

use super::matmul::check_dim;
use super::own_kernels::Route;
use super::quantized::{Names, Quantized, contiguous};
use crate::Result;
use crate::error::err;
use crate::graph::{self, GraphOp};
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

/// The operands of [`gather_qmv`].
#[derive(Debug, Clone, Copy)]
pub struct GatherQmv<'a> {
    /// Activations `[P, K]`.
    pub x: &'a Tensor,
    /// Packed weights of 4 bits `[E, N, K / 2]`.
    pub w: &'a Tensor,
    /// Scales `[E, N, ⌈K / group_size⌉]`.
    pub s: &'a Tensor,
    /// Zeros, as the scales.
    pub z: &'a Tensor,
    /// The expert of each row, `[P]`, int32 or int64; negative ones count from the end.
    pub experts: &'a Tensor,
    /// Weights that share a scale and a zero; any number of them.
    pub group_size: i64,
}

/// `out[p, n] = Σ_k x[p, k] · w[experts[p], n, k]`, with `w` as [`super::quantized`] says. Any
/// strides; all but bytes and indices are of one floating point dtype. As in the
/// operator's definition the weights are rounded to that dtype; sums are rounded once.
///
/// An expert that there is not is an error of the run on the host, and gives NaN on Metal, where
/// kernels cannot fail.
///
/// # Errors
/// Shapes or dtypes do not fit; out of memory.
pub fn gather_qmv(stream: &Stream, gather: GatherQmv) -> Result<Tensor> {
    gather_qmv_by(Route::of(stream)?, stream, gather)
}

fn gather_qmv_by(route: Route, stream: &Stream, gather: GatherQmv) -> Result<Tensor> {
    let GatherQmv { x, w, s, z, experts, group_size } = gather;
    let op = GraphOp::GatherQmv { group_size };
    let names = Names { op: op.name(), operands: ["x", "w", "scales", "biases"] };
    let quantized = Quantized::new(stream, names, [x, w, s, z], 3, 4, group_size)?;
    check_experts(op.name(), x, experts)?;
    let layout = Layout::contiguous(&[x.sizes()[0], w.sizes()[1]])?;
    let out = Tensor::empty(stream.device(), x.dtype(), layout)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let experts = contiguous(stream, experts)?;
    let Quantized { activations, weights, scales, zeros } = &quantized;
    match route {
        Route::Native => {
            graph::encode(stream, op, &[&out, activations, weights, scales, zeros, &experts])?;
        }
        Route::Msl => quantized.dispatch_gather(stream, &out, &experts, group_size)?,
    }
    Ok(out)
}

fn check_experts(op: &str, x: &Tensor, experts: &Tensor) -> Result<()> {
    check_dim(op, "expert_indices", experts, 1)?;
    if experts.sizes()[0] != x.sizes()[0] {
        return Err(err!(
            InvalidArgument,
            "{op}: expert_indices must have one element for each of the {} rows of x, it has {}",
            x.sizes()[0],
            experts.sizes()[0]
        ));
    }
    if !matches!(experts.dtype(), DType::I32 | DType::I64) {
        return Err(err!(
            InvalidArgument,
            "{op}: expert_indices must be int32 or int64, it is {}",
            experts.dtype()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::quantized::testing::{FLOATS, Weights, group_size, noise};
    use super::super::testing::{contiguous, stream, strides_of, tensor, values};
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    struct Case {
        dtype: DType,
        index: DType,
        sizes: [i64; 3],
        experts: Vec<i64>,
        group_size: i64,
        x: Vec<i64>,
        weights: [Vec<i64>; 3],
        stride: i64,
        seed: u64,
    }

    fn case() -> impl Strategy<Value = Case> {
        let dtype = prop::sample::select(FLOATS.to_vec());
        let index = prop::sample::select(vec![DType::I32, DType::I64]);
        (1i64..5, 0i64..14, 0i64..40, 0usize..20, (dtype, index), group_size(), any::<u64>())
            .prop_flat_map(|(e, n, k, rows, dtypes, group_size, seed)| {
                let sizes = [e, n, k * 2];
                let [w, s, z] = Weights::operand_sizes(&sizes, 4, group_size);
                (
                    Just((dtypes, sizes, group_size, seed)),
                    prop::collection::vec(-e..e, rows),
                    strides_of(vec![rows as i64, k * 2]),
                    (strides_of(w), strides_of(s), strides_of(z)),
                    1i64..3,
                )
            })
            .prop_map(|(fixed, experts, x, (w, s, z), stride)| {
                let ((dtype, index), sizes, group_size, seed) = fixed;
                let weights = [w, s, z];
                let seed = seed >> 8;
                Case { dtype, index, sizes, experts, group_size, x, weights, stride, seed }
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        /// Every expert, group size, dtype and stride; odd sizes; few rows and many.
        #[test]
        fn any_experts_any_group_any_strides(case in case()) {
            let Case { dtype, index, sizes, experts, group_size, .. } = case.clone();
            let rows = experts.len() as i64;
            let weights =
                Weights::new(dtype, 4, &sizes, group_size, Some(&case.weights), case.seed);
            let numbers = noise((rows * sizes[2]) as usize, case.seed + 3);
            let x = tensor(dtype, &[rows, sizes[2]], &case.x, 1, &numbers);
            let indices: Vec<f64> = experts.iter().map(|&e| e as f64).collect();
            let indices = tensor(index, &[rows], &[case.stride], 2, &indices);
            let Weights { packed, scales, zeros, .. } = &weights;
            let gather =
                GatherQmv { x: &x, w: packed, s: scales, z: zeros, experts: &indices, group_size };
            let stream = stream();
            for route in [Route::Native, Route::Msl] {
                let out = gather_qmv_by(route, &stream, gather).unwrap();
                stream.commit_and_wait().unwrap();
                prop_assert_eq!(out.dtype(), dtype);
                weights.check(&x, &out, |row| experts[row].rem_euclid(sizes[0]) as usize)?;
            }
        }
    }

    #[test]
    fn an_expert_that_is_not_there_is_no_read_outside() {
        let weights = Weights::new(DType::F32, 4, &[2, 5, 8], 8, None, 1);
        let x = contiguous(DType::F32, &[2, 8], &[1.0; 16]);
        let Weights { packed, scales, zeros, .. } = &weights;
        let stream = stream();
        for (dtype, odd) in
            [(DType::I32, 2i64), (DType::I32, -3), (DType::I64, 1 << 40), (DType::I64, i64::MIN)]
        {
            let experts = contiguous(dtype, &[2], &[1.0, odd as f64]);
            let gather = GatherQmv {
                x: &x,
                w: packed,
                s: scales,
                z: zeros,
                experts: &experts,
                group_size: 8,
            };
            gather_qmv_by(Route::Native, &stream, gather).unwrap();
            let text = stream.commit_and_wait().unwrap_err().to_string();
            let part = format!("expert_indices[1] is {odd}, but there are 2 experts");
            assert!(text.contains(&part) && text.contains("gather_qmv"), "{text}");
            let out = gather_qmv_by(Route::Msl, &stream, gather).unwrap();
            stream.commit_and_wait().unwrap();
            let nan: Vec<bool> = values(&out).iter().map(|v| v.is_nan()).collect();
            assert_eq!(nan, [[false; 5], [true; 5]].concat());
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let stream = stream();
        let f = |sizes: &[i64]| contiguous(DType::F32, sizes, &[]);
        let (x, w, s) = (f(&[2, 8]), contiguous(DType::U8, &[3, 5, 4], &[]), f(&[3, 5, 1]));
        let index = |dtype, sizes: &[i64]| contiguous(dtype, sizes, &[0.0; 4]);
        let text = |x: &Tensor, w: &Tensor, z: &Tensor, experts: &Tensor| {
            let gather = GatherQmv { x, w, s: &s, z, experts, group_size: 8 };
            gather_qmv(&stream, gather).unwrap_err().to_string()
        };
        let good = index(DType::I32, &[2]);
        for (said, part) in [
            (text(&f(&[8]), &w, &s, &good), "x must have 2 dimensions"),
            (text(&x, &contiguous(DType::U8, &[5, 4], &[]), &s, &good), "w must have 3 dim"),
            (text(&f(&[2, 10]), &w, &s, &good), "5 bytes, in each row of w, whose rows have 4"),
            (text(&x, &w, &f(&[3, 1, 5]), &good), "biases must have sizes [3, 5, 1]"),
            (text(&x, &w, &s, &index(DType::I32, &[3])), "one element for each of the 2 rows"),
            (text(&x, &w, &s, &index(DType::I32, &[2, 1])), "must have 1 dimensions"),
            (text(&x, &w, &s, &index(DType::F32, &[2])), "must be int32 or int64, it is float32"),
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(stream.pending(), 0, "nothing refused was encoded");
    }
}
