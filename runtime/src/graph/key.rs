//! What identifies an op graph.

use std::fmt;

use smallvec::SmallVec;

use crate::tensor::{DType, Layout, Tensor};

/// An operator and its scalars. Float scalars are kept as bits so that keys can be compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GraphOp {
    /// `out[m, n] = Σ_k a[m, k] · b[k, n]`; operands out, a, b.
    Mm,
    /// The same for each of a batch; operands out, a, b of three dimensions.
    Bmm,
    /// `out = beta · input + alpha · a @ b`; operands out, input (expanded to `[m, n]`), a, b.
    Addmm {
        /// `f64::to_bits` of beta. A beta of 0 ignores the input, NaN or not.
        beta: u64,
        /// `f64::to_bits` of alpha.
        alpha: u64,
    },
    /// `out = input`, converted to out's dtype; operands out, input of the same sizes (a
    /// broadcast input has strides of 0).
    Copy,
    /// Cross-correlation over one to three spatial dimensions:
    /// `out[n, o, y] = bias[o] + Σ_c,k input[n, c, y · stride - padding + k · dilation] ·
    /// weight[o, c, k]`, or its gradient; operands out `[n, o, …]`, input `[n, c, …]`, weight,
    /// and bias `[o]` if there is one. Parameters are one a spatial dimension.
    Convolution {
        /// Input elements from a result to the next, or results from an input to the next.
        stride: SmallVec<[i64; 3]>,
        /// Zeros before the input, or results that are left out.
        padding: SmallVec<[i64; 3]>,
        /// Elements from a tap of the kernel to the next.
        dilation: SmallVec<[i64; 3]>,
        /// Whether it is the gradient: each input element is spread over `out` at
        /// `y · stride - padding + k · dilation`, and the weight is `[c, o / groups, …]` instead of
        /// `[o, c / groups, …]`. Padding of the output shows in the sizes of `out` only.
        transposed: bool,
        /// Channels are in this many groups that know nothing of each other.
        groups: i64,
    },
    /// `out = softmax(scale · query keyᵀ + mask) value`; operands out, query, key, value, then the
    /// weights (the softmax) and the mask if they are there; `[batch, heads, rows, columns]` each.
    /// Heads of key and value are shared by groups of query heads. A row that is masked all over
    /// has weights of 0.
    Attention {
        /// `f32::to_bits` of the scale.
        scale: u32,
        /// Query `i` attends to keys `0..=i` only.
        causal: bool,
        /// Whether the weights are a second result.
        weights: bool,
        /// Whether there is a mask: bool, or float to add to the scores.
        mask: bool,
    },
    /// The first elements of each row along a dimension in its order, and where in the row they
    /// were (int64); operands values, indices, input. The row of a result is as long as its size
    /// along the dimension says. NaN counts as greater than all numbers, 0 as equal to -0, and of
    /// equal elements the one with the lower index comes first.
    TopK {
        /// The dimension.
        dim: usize,
        /// Whether the greatest come first, else the least.
        largest: bool,
    },
    /// The same for whole rows.
    Sort {
        /// The dimension.
        dim: usize,
        /// Whether the greatest come first, else the least.
        descending: bool,
    },
    /// What comes of all elements of a row up to each one; operands out, input of the same sizes
    /// and dtype. Half types accumulate in float32 at least and round each result; integers wrap.
    Cumulative {
        /// What is done with the elements.
        scan: Scan,
        /// The dimension.
        dim: usize,
    },
    /// `out[m, n] = Σ_k a[m, k] · w[n, k]` with `w` in groups of weights of a few bits; operands
    /// out, a `[M, K]`, packed weights `[N, bytes]`, scales and zeros `[N, groups]`, all
    /// contiguous. What the packing is, says [`crate::ops::quantized`].
    LinearNbit {
        /// Bits of a weight, 1 to 7.
        bits: u8,
        /// Weights that share a scale and a zero.
        group_size: i64,
    },
    /// `out[p, n] = Σ_k x[p, k] · w[expert(p), n, k]` with weights of 4 bits as above, each
    /// rounded to the dtype of the scales; operands
    /// out, x `[P, K]`, packed weights `[E, N, bytes]`, scales and zeros `[E, N, groups]`,
    /// experts `[P]` (int32 or int64), all contiguous.
    GatherQmv {
        /// Weights that share a scale and a zero.
        group_size: i64,
    },
    /// The gated delta rule; operands y, q, k, v, g, beta, state, all contiguous. The state is
    /// read *and written*; it shares no memory with the others.
    GatedDeltaRule,
}

/// What [`GraphOp::Cumulative`] does with the elements of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scan {
    /// Adds them.
    Sum,
    /// Multiplies them.
    Product,
}

impl GraphOp {
    /// PyTorch's name.
    pub fn name(&self) -> &'static str {
        match self {
            GraphOp::Mm => "mm",
            GraphOp::Bmm => "bmm",
            GraphOp::Addmm { .. } => "addmm",
            GraphOp::Copy => "copy_",
            GraphOp::Attention { .. } => "scaled_dot_product_attention",
            GraphOp::Convolution { .. } => "convolution",
            GraphOp::TopK { .. } => "topk",
            GraphOp::Sort { .. } => "sort",
            GraphOp::Cumulative { scan: Scan::Sum, .. } => "cumsum",
            GraphOp::Cumulative { scan: Scan::Product, .. } => "cumprod",
            GraphOp::LinearNbit { bits: 1, .. } => "_linear_fp_act_1bit_weight",
            GraphOp::LinearNbit { bits: 2, .. } => "_linear_fp_act_2bit_weight",
            GraphOp::LinearNbit { bits: 3, .. } => "_linear_fp_act_3bit_weight",
            GraphOp::LinearNbit { bits: 4, .. } => "_linear_fp_act_4bit_weight",
            GraphOp::LinearNbit { bits: 5, .. } => "_linear_fp_act_5bit_weight",
            GraphOp::LinearNbit { bits: 6, .. } => "_linear_fp_act_6bit_weight",
            GraphOp::LinearNbit { .. } => "_linear_fp_act_7bit_weight",
            GraphOp::GatherQmv { .. } => "gather_qmv",
            GraphOp::GatedDeltaRule => "gated_delta_rule",
        }
    }
}

impl fmt::Display for GraphOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How an operand lies in memory, as far as it changes the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StrideClass {
    /// Row-major without gaps.
    Contiguous,
    /// The last two dimensions swapped, else row-major without gaps.
    Transposed,
    /// Anything else.
    Strided,
}

impl StrideClass {
    /// The class of a layout.
    pub fn of(layout: &Layout) -> Self {
        if layout.is_contiguous() {
            return StrideClass::Contiguous;
        }
        let mut swapped = layout.clone();
        let dim = swapped.dim();
        if dim >= 2 {
            swapped.sizes.swap(dim - 1, dim - 2);
            swapped.strides.swap(dim - 1, dim - 2);
            if swapped.is_contiguous() {
                return StrideClass::Transposed;
            }
        }
        StrideClass::Strided
    }
}

/// One operand's part of the key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperandKey {
    /// Element type.
    pub dtype: DType,
    /// Sizes, in elements.
    pub sizes: SmallVec<[i64; 6]>,
    /// How it lies in memory.
    pub strides: StrideClass,
}

/// What identifies an op graph: the operator, and of each operand the dtype, sizes and stride
/// class. Outputs first, then inputs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GraphKey {
    /// The operator and its scalars.
    pub op: GraphOp,
    /// Outputs first, then inputs.
    pub operands: SmallVec<[OperandKey; 4]>,
}

impl GraphKey {
    /// The key of `op` on these tensors, outputs first.
    pub fn new(op: GraphOp, operands: &[&Tensor]) -> Self {
        let operands = operands
            .iter()
            .map(|tensor| OperandKey {
                dtype: tensor.dtype(),
                sizes: tensor.layout().sizes.clone(),
                strides: StrideClass::of(tensor.layout()),
            })
            .collect();
        GraphKey { op, operands }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stride_classes() {
        let class =
            |sizes: &[i64], strides: &[i64]| StrideClass::of(&Layout::new(sizes, strides).unwrap());
        assert_eq!(class(&[2, 3], &[3, 1]), StrideClass::Contiguous);
        assert_eq!(class(&[2, 3], &[1, 2]), StrideClass::Transposed);
        assert_eq!(class(&[4, 2, 3], &[6, 1, 2]), StrideClass::Transposed);
        assert_eq!(class(&[2, 3], &[4, 1]), StrideClass::Strided);
        assert_eq!(class(&[2, 3], &[0, 1]), StrideClass::Strided);
        assert_eq!(class(&[3], &[2]), StrideClass::Strided);
        assert_eq!(class(&[], &[]), StrideClass::Contiguous);
        assert_eq!(class(&[0, 3], &[7, 7]), StrideClass::Contiguous);
    }
}
