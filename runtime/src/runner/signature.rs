//! What a method takes and gives.

use std::fmt;

use crate::tensor::DType;

/// Whether a tensor's sizes may differ from those exported (`TensorShapeDynamism` of ExecuTorch's
/// schema).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dynamism {
    /// The sizes are as exported.
    Static,
    /// The exported sizes are upper bounds.
    Bounded,
    /// Any sizes.
    Unbounded,
}

/// A tensor at one place of a method's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The `c10::ScalarType` code. A program may use types that [`DType`] lacks.
    pub dtype_code: i32,
    /// Sizes, or their upper bounds.
    pub sizes: Vec<usize>,
    /// The dimensions as they lie in memory, outermost first.
    pub dim_order: Vec<u8>,
    /// Whether the sizes may differ.
    pub dynamism: Dynamism,
}

impl TensorInfo {
    /// The dtype.
    ///
    /// # Errors
    /// The type is not one that Metal tensors have.
    pub fn dtype(&self) -> crate::Result<DType> {
        DType::from_code(self.dtype_code)
    }

    /// Whether a tensor of these sizes may stand here.
    pub fn accepts(&self, sizes: &[usize]) -> bool {
        sizes.len() == self.sizes.len()
            && match self.dynamism {
                Dynamism::Static => sizes == self.sizes,
                Dynamism::Bounded => sizes.iter().zip(&self.sizes).all(|(s, bound)| s <= bound),
                Dynamism::Unbounded => true,
            }
    }

    /// Whether the dimensions lie in memory as they are numbered.
    pub fn is_row_major(&self) -> bool {
        self.dim_order.iter().enumerate().all(|(i, &d)| i == usize::from(d))
    }
}

impl fmt::Display for TensorInfo {
    /// `float32 [2, 8]`; bounds as `[≤2, ≤8]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype() {
            Ok(dtype) => write!(f, "{dtype} [")?,
            Err(_) => write!(f, "dtype {} [", self.dtype_code)?,
        }
        for (i, size) in self.sizes.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            match self.dynamism {
                Dynamism::Static => write!(f, "{comma}{size}")?,
                Dynamism::Bounded => write!(f, "{comma}≤{size}")?,
                Dynamism::Unbounded => write!(f, "{comma}?")?,
            }
        }
        f.write_str("]")
    }
}

/// A value at one place of a method's signature. Scalars carry the value that was exported, where
/// it is known: ExecuTorch accepts no other.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueInfo {
    /// Nothing: an optional input that was not given at export.
    None,
    /// A tensor.
    Tensor(TensorInfo),
    /// An integer.
    Int(Option<i64>),
    /// A floating point number.
    Double(Option<f64>),
    /// A truth value.
    Bool(Option<bool>),
    /// A string or a list, which the runner neither gives nor reads.
    Other,
}

impl fmt::Display for ValueInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn scalar<T: fmt::Display>(
            f: &mut fmt::Formatter<'_>,
            name: &str,
            value: Option<T>,
        ) -> fmt::Result {
            match value {
                Some(value) => write!(f, "{name} {value}"),
                None => f.write_str(name),
            }
        }
        match self {
            ValueInfo::None => f.write_str("none"),
            ValueInfo::Tensor(tensor) => tensor.fmt(f),
            ValueInfo::Int(value) => scalar(f, "int", *value),
            ValueInfo::Double(value) => scalar(f, "double", *value),
            ValueInfo::Bool(value) => scalar(f, "bool", *value),
            ValueInfo::Other => f.write_str("string or list"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dynamism: Dynamism) -> TensorInfo {
        TensorInfo { dtype_code: 15, sizes: vec![2, 8], dim_order: vec![0, 1], dynamism }
    }

    #[test]
    fn bounds_are_upper_bounds() {
        assert!(tensor(Dynamism::Static).accepts(&[2, 8]));
        assert!(!tensor(Dynamism::Static).accepts(&[1, 8]));
        assert!(tensor(Dynamism::Bounded).accepts(&[1, 8]));
        assert!(!tensor(Dynamism::Bounded).accepts(&[3, 8]));
        assert!(!tensor(Dynamism::Bounded).accepts(&[2, 8, 1]));
        assert!(tensor(Dynamism::Unbounded).accepts(&[300, 8]));
    }

    #[test]
    fn signatures_read_well() {
        assert_eq!(tensor(Dynamism::Static).to_string(), "bfloat16 [2, 8]");
        assert_eq!(tensor(Dynamism::Bounded).to_string(), "bfloat16 [≤2, ≤8]");
        assert_eq!(ValueInfo::Int(Some(3)).to_string(), "int 3");
    }
}
