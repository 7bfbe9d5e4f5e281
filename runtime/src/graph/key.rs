//! What identifies an op graph.

use smallvec::SmallVec;

use crate::tensor::DType;

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
/// class. Output first, then inputs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GraphKey {
    /// The operator and its scalars.
    pub op: GraphOp,
    /// Output first, then inputs.
    pub operands: SmallVec<[OperandKey; 4]>,
}
