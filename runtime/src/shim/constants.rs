//! Codes: device types, dtypes, layouts, memory formats.
//!
//! The values are PyTorch's enumerations: `c10::DeviceType`, `c10::ScalarType`, `c10::Layout`,
//! `c10::MemoryFormat`. They are given for every member, supported or not: a model may compare
//! with a code that it never uses.

use super::abi::c_functions;
use crate::Result;
use crate::error::err;
use crate::tensor::{DType, Placement};

/// `c10::DeviceType::CPU`.
pub const DEVICE_CPU: i32 = 0;
/// `c10::DeviceType::MPS`.
pub const DEVICE_MPS: i32 = 13;
/// `c10::Layout::Strided`.
pub const LAYOUT_STRIDED: i32 = 0;

/// The PyTorch version whose C ABI this is: major, minor, patch, from the highest byte down.
const ABI_VERSION: u64 = 2 << 56 | 15 << 48;

/// The placement with this device type.
///
/// # Errors
/// It is neither `cpu` nor `mps`.
pub fn placement_of_code(device_type: i32) -> Result<Placement> {
    match device_type {
        DEVICE_CPU => Ok(Placement::Cpu),
        DEVICE_MPS => Ok(Placement::Mps),
        other => Err(err!(
            Unsupported,
            "device type {other} is not supported: tensors of a Metal model live on cpu (0) or \
             mps (13)"
        )),
    }
}

/// The device type of a placement.
pub fn code_of_placement(placement: Placement) -> i32 {
    match placement {
        Placement::Cpu => DEVICE_CPU,
        Placement::Mps => DEVICE_MPS,
    }
}

/// Bytes of one element of the dtype with this `c10::ScalarType` code, also of those that no
/// tensor here can have.
fn element_size(code: i32) -> Result<usize> {
    Ok(match code {
        7 | 9 => 8,   // float64, complex64
        8 => 4,       // complex32
        10 => 16,     // complex128
        12 | 13 => 1, // qint8, quint8
        14 => 4,      // qint32
        16..=21 => 1, // quint4x2, quint2x4, bits1x8, bits2x4, bits4x2, bits8
        22 => 2,      // bits16
        23..=26 => 1, // float8
        30..=45 => 1, // uint1..7, int1..7, float8_e8m0fnu, float4_e2m1fn_x2
        _ => DType::from_code(code)?.size(),
    })
}

macro_rules! codes {
    ($($name:ident = $code:expr),* $(,)?) => {
        c_functions! {
            $(
                #[doc = concat!("The code ", stringify!($code), ".")]
                fn $name() -> i32 = 0; { Ok($code) }
            )*

            /// Bytes of one element of a dtype; 0 for a code that is none.
            fn aoti_torch_dtype_element_size(dtype: i32) -> usize = 0; { element_size(dtype) }

            /// The PyTorch version whose C ABI this is.
            fn aoti_torch_abi_version() -> u64 = 0; { Ok(ABI_VERSION) }
        }
    };
}

codes! {
    aoti_torch_device_type_cpu = DEVICE_CPU,
    aoti_torch_device_type_cuda = 1,
    aoti_torch_device_type_xpu = 12,
    aoti_torch_device_type_mps = DEVICE_MPS,
    aoti_torch_device_type_meta = 14,
    aoti_torch_device_type_privateuse1 = 20,

    aoti_torch_dtype_uint8 = DType::U8.code(),
    aoti_torch_dtype_int8 = DType::I8.code(),
    aoti_torch_dtype_int16 = DType::I16.code(),
    aoti_torch_dtype_int32 = DType::I32.code(),
    aoti_torch_dtype_int64 = DType::I64.code(),
    aoti_torch_dtype_float16 = DType::F16.code(),
    aoti_torch_dtype_float32 = DType::F32.code(),
    aoti_torch_dtype_float64 = 7,
    aoti_torch_dtype_complex32 = 8,
    aoti_torch_dtype_complex64 = 9,
    aoti_torch_dtype_complex128 = 10,
    aoti_torch_dtype_bool = DType::Bool.code(),
    aoti_torch_dtype_bfloat16 = DType::Bf16.code(),
    aoti_torch_dtype_float8_e5m2 = 23,
    aoti_torch_dtype_float8_e4m3fn = 24,
    aoti_torch_dtype_float8_e5m2fnuz = 25,
    aoti_torch_dtype_float8_e4m3fnuz = 26,
    aoti_torch_dtype_uint16 = DType::U16.code(),
    aoti_torch_dtype_uint32 = DType::U32.code(),
    aoti_torch_dtype_uint64 = DType::U64.code(),
    aoti_torch_dtype_float8_e8m0fnu = 44,
    aoti_torch_dtype_float4_e2m1fn_x2 = 45,

    aoti_torch_layout_strided = LAYOUT_STRIDED,
    aoti_torch_layout_sparse_coo = 1,
    aoti_torch_layout_sparse_csr = 2,
    aoti_torch_layout__mkldnn = 3,
    aoti_torch_layout_sparse_csc = 4,
    aoti_torch_layout_sparse_bsr = 5,
    aoti_torch_layout_sparse_bsc = 6,
    aoti_torch_layout_jagged = 7,

    aoti_torch_memory_format_contiguous_format = 0,
    aoti_torch_memory_format_preserve_format = 1,
    aoti_torch_memory_format_channels_last = 2,
    aoti_torch_memory_format_channels_last_3d = 3,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_pytorchs() {
        assert_eq!(aoti_torch_device_type_cpu(), 0);
        assert_eq!(aoti_torch_device_type_mps(), 13);
        assert_eq!(aoti_torch_dtype_float32(), 6);
        assert_eq!(aoti_torch_dtype_bfloat16(), 15);
        assert_eq!(aoti_torch_dtype_bool(), 11);
        assert_eq!(aoti_torch_dtype_uint16(), 27);
        assert_eq!(aoti_torch_layout_strided(), 0);
        assert_eq!(aoti_torch_memory_format_channels_last(), 2);
        assert_eq!(aoti_torch_abi_version() >> 48, 0x020f);
    }

    #[test]
    fn element_sizes_are_known_for_all_dtypes() {
        for dtype in DType::ALL {
            assert_eq!(aoti_torch_dtype_element_size(dtype.code()), dtype.size());
        }
        assert_eq!(aoti_torch_dtype_element_size(aoti_torch_dtype_float64()), 8);
        assert_eq!(aoti_torch_dtype_element_size(aoti_torch_dtype_complex128()), 16);
        assert_eq!(aoti_torch_dtype_element_size(aoti_torch_dtype_float8_e4m3fn()), 1);
        assert_eq!(aoti_torch_dtype_element_size(99), 0);
    }
}
