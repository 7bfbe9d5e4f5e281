//! Element types.

use std::fmt;

use crate::error::err;
use crate::{Error, Result};

/// An element type. The discriminants are PyTorch's `c10::ScalarType` codes
/// (`torch/headeronly/core/ScalarType.h`), which ExecuTorch shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum DType {
    U8 = 0,
    I8 = 1,
    I16 = 2,
    I32 = 3,
    I64 = 4,
    F16 = 5,
    F32 = 6,
    Bool = 11,
    Bf16 = 15,
    U16 = 27,
    U32 = 28,
    U64 = 29,
}

impl DType {
    /// All of them.
    pub const ALL: [DType; 12] = [
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::F32,
        DType::Bool,
        DType::Bf16,
        DType::U16,
        DType::U32,
        DType::U64,
    ];

    /// The dtype with this `c10::ScalarType` code.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a code that no Metal tensor can have (float64, complex, …).
    pub fn from_code(code: i32) -> Result<Self> {
        DType::ALL.into_iter().find(|d| d.code() == code).ok_or_else(|| {
            let name = match code {
                7 => " (float64, which Metal lacks: export the model in float32)",
                8..=10 => " (complex)",
                12..=14 | 16..=18 => " (quantised)",
                23..=26 => " (float8)",
                _ => "",
            };
            err!(Unsupported, "dtype code {code}{name} is not supported")
        })
    }

    /// The `c10::ScalarType` code.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::U8 | DType::I8 | DType::Bool => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::Bf16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 => 8,
        }
    }

    /// PyTorch's name, without `torch.`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::U8 => "uint8",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::F16 => "float16",
            DType::F32 => "float32",
            DType::Bool => "bool",
            DType::Bf16 => "bfloat16",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
        }
    }

    /// Metal's name of the type, as in the Metal Shading Language.
    pub const fn msl_name(self) -> &'static str {
        match self {
            DType::U8 => "uchar",
            DType::I8 => "char",
            DType::I16 => "short",
            DType::I32 => "int",
            DType::I64 => "long",
            DType::U16 => "ushort",
            DType::U32 => "uint",
            DType::U64 => "ulong",
            DType::F16 => "half",
            DType::Bf16 => "bfloat",
            DType::F32 => "float",
            DType::Bool => "bool",
        }
    }

    /// Whether elements are floating point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::F32 | DType::Bf16)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for DType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.strip_prefix("torch.").unwrap_or(text);
        DType::ALL.into_iter().find(|d| d.name() == name).ok_or_else(|| {
            err!(InvalidArgument, "{text:?} is no dtype; known: uint8 … float32, bfloat16, bool")
        })
    }
}

/// A number given to an operator beside its tensors (`alpha`, a fill value).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// A floating point number.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_match_pytorch() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_code(dtype.code()).unwrap(), dtype);
            assert_eq!(dtype.name().parse::<DType>().unwrap(), dtype);
        }
        assert_eq!(DType::from_code(15).unwrap(), DType::Bf16);
        assert_eq!(DType::from_code(11).unwrap(), DType::Bool);
    }

    #[test]
    fn foreign_codes_are_refused_by_name() {
        let message = DType::from_code(7).unwrap_err().to_string();
        assert!(message.contains("float64") && message.contains("float32"), "{message}");
        assert!(DType::from_code(-1).is_err());
    }
}
