//! Numbers out of tensors, and tensors out of numbers.

use half::{bf16, f16};

use super::abi::{Out, c_functions};
use super::context::{current, lend, wait_for_device};
use super::registry::tensor;
use crate::Result;
use crate::error::err;
use crate::tensor::{DType, Layout, Placement, RawHandle, Scalar, Tensor};

/// `c10::complex<float>`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(8))]
pub struct Complex64 {
    /// Real part.
    pub re: f32,
    /// Imaginary part.
    pub im: f32,
}

macro_rules! scalar_functions {
    (
        items { $($item:ident: $item_type:ty, $convert:expr;)* }
        tensors { $($(#[$note:meta])* $make:ident: $make_type:ty, $dtype:ident, $bytes:expr;)* }
    ) => {
        c_functions! {
            $(
                /// The value of a tensor of one element. Waits for the stream.
                fn $item(handle: RawHandle, ret_value: Out<$item_type>) {
                    ret_value.check("ret_value")?;
                    ret_value.set("ret_value", $convert(item(handle)?)?)
                }
            )*
            $(
                /// A CPU tensor without dimensions that holds `value`.
                $(#[$note])*
                fn $make(value: $make_type, ret_new_tensor: Out<RawHandle>) {
                    ret_new_tensor.check("ret_new_tensor")?;
                    let tensor = scalar_tensor(DType::$dtype, &$bytes(value))?;
                    ret_new_tensor.set("ret_new_tensor", lend(tensor))
                }
            )*
        }
    };
}

scalar_functions! {
    items {
        aoti_torch_item_float16: f16, |v| Ok(f16::from_f64(float(v)));
        aoti_torch_item_bfloat16: bf16, |v| Ok(bf16::from_f64(float(v)));
        aoti_torch_item_float32: f32, |v| Ok(float(v) as f32);
        aoti_torch_item_float64: f64, |v| Ok(float(v));
        aoti_torch_item_uint8: u8, integer;
        aoti_torch_item_uint16: u16, integer;
        aoti_torch_item_uint32: u32, integer;
        aoti_torch_item_uint64: u64, integer;
        aoti_torch_item_int8: i8, integer;
        aoti_torch_item_int16: i16, integer;
        aoti_torch_item_int32: i32, integer;
        aoti_torch_item_int64: i64, integer;
        aoti_torch_item_bool: bool, |v| Ok(truth(v));
        aoti_torch_item_complex64: Complex64,
            |v| Ok(Complex64 { re: float(v) as f32, im: 0.0 });
    }
    tensors {
        aoti_torch_scalar_to_tensor_float32: f32, F32, f32::to_ne_bytes;
        ///
        /// Metal has no float64: the tensor is float32, as PyTorch makes it where a kernel takes
        /// such a tensor.
        aoti_torch_scalar_to_tensor_float64: f64, F32, |v: f64| (v as f32).to_ne_bytes();
        aoti_torch_scalar_to_tensor_uint8: u8, U8, u8::to_ne_bytes;
        aoti_torch_scalar_to_tensor_uint16: u16, U16, u16::to_ne_bytes;
        aoti_torch_scalar_to_tensor_uint32: u32, U32, u32::to_ne_bytes;
        aoti_torch_scalar_to_tensor_uint64: u64, U64, u64::to_ne_bytes;
        aoti_torch_scalar_to_tensor_int8: i8, I8, i8::to_ne_bytes;
        aoti_torch_scalar_to_tensor_int16: i16, I16, i16::to_ne_bytes;
        aoti_torch_scalar_to_tensor_int32: i32, I32, i32::to_ne_bytes;
        aoti_torch_scalar_to_tensor_int64: i64, I64, i64::to_ne_bytes;
        aoti_torch_scalar_to_tensor_bool: bool, Bool, |v| [u8::from(v)];
    }
}

/// The one value of a tensor, once the work that makes it is done.
fn item(handle: RawHandle) -> Result<Value> {
    let tensor = tensor(handle)?;
    if tensor.numel() != 1 {
        return Err(err!(
            InvalidArgument,
            "a tensor of sizes {:?} has {} elements, not the one that becomes a number",
            tensor.sizes(),
            tensor.numel()
        ));
    }
    wait_for_device()?;
    // SAFETY: the element lies inside the storage, and nothing is writing it: the stream is idle.
    Ok(unsafe { read_element(&tensor, 0) })
}

/// A number read from a tensor: [`Scalar`], or a `uint64` beyond `i64`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    /// Any other number.
    Scalar(Scalar),
    /// An unsigned one.
    Unsigned(u64),
}

/// Reads the element `offset` elements from the tensor's first.
///
/// # Safety
/// The element lies inside the storage and is not being written.
pub(super) unsafe fn read_element(tensor: &Tensor, offset: usize) -> Value {
    let at = tensor.as_ptr();
    // Borrowed memory may lie anywhere, hence unaligned reads.
    macro_rules! read {
        ($type:ty) => {
            // SAFETY: the caller's promise.
            unsafe { at.cast::<$type>().add(offset).read_unaligned() }
        };
    }
    Value::Scalar(match tensor.dtype() {
        DType::U8 => Scalar::Int(read!(u8).into()),
        DType::I8 => Scalar::Int(read!(i8).into()),
        DType::I16 => Scalar::Int(read!(i16).into()),
        DType::I32 => Scalar::Int(read!(i32).into()),
        DType::I64 => Scalar::Int(read!(i64)),
        DType::U16 => Scalar::Int(read!(u16).into()),
        DType::U32 => Scalar::Int(read!(u32).into()),
        DType::U64 => return Value::Unsigned(read!(u64)),
        DType::F16 => Scalar::Float(read!(f16).into()),
        DType::F32 => Scalar::Float(read!(f32).into()),
        DType::Bf16 => Scalar::Float(read!(bf16).into()),
        DType::Bool => Scalar::Bool(read!(u8) != 0),
    })
}

pub(super) fn float(value: Value) -> f64 {
    match value {
        Value::Scalar(Scalar::Float(v)) => v,
        Value::Scalar(Scalar::Int(v)) => v as f64,
        Value::Scalar(Scalar::Bool(v)) => f64::from(u8::from(v)),
        Value::Unsigned(v) => v as f64,
    }
}

fn truth(value: Value) -> bool {
    match value {
        Value::Scalar(Scalar::Bool(v)) => v,
        other => float(other) != 0.0,
    }
}

/// The value as an integer type, as PyTorch's `Scalar::to` has it: truncated, and refused if it
/// does not fit.
fn integer<T: TryFrom<i128>>(value: Value) -> Result<T> {
    let whole = match value {
        Value::Scalar(Scalar::Int(v)) => Some(i128::from(v)),
        Value::Scalar(Scalar::Bool(v)) => Some(i128::from(v)),
        Value::Unsigned(v) => Some(i128::from(v)),
        Value::Scalar(Scalar::Float(v)) => v.is_finite().then_some(v as i128),
    };
    whole.and_then(|v| T::try_from(v).ok()).ok_or_else(|| {
        err!(
            InvalidArgument,
            "the value {} does not fit into {}",
            float(value),
            std::any::type_name::<T>()
        )
    })
}

fn scalar_tensor(dtype: DType, bytes: &[u8]) -> Result<Tensor> {
    let model = current()?;
    let tensor = Tensor::empty(model.device(), dtype, Layout::contiguous(&[])?)?;
    // SAFETY: the tensor is new, nobody else uses it, and it has `bytes.len()` bytes, those of
    // one element.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), tensor.as_ptr(), bytes.len()) };
    Ok(tensor.placed(Placement::Cpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::copies::aoti_torch_copy_;
    use crate::shim::testing::{call, empty, get, model, read, write};

    #[test]
    fn an_item_is_what_the_encoded_work_makes_it() {
        let (model, _guard) = model();
        let target = empty(&[1, 1], &[1, 1], DType::F32.code(), DEVICE_MPS);
        let source = get!(aoti_torch_scalar_to_tensor_int32, 7).unwrap();
        call!(aoti_torch_copy_, target, source, 1).unwrap();
        assert_eq!(get!(aoti_torch_item_float32, target).unwrap(), 7.0);
        assert_eq!(get!(aoti_torch_item_int8, target).unwrap(), 7);
        assert!(get!(aoti_torch_item_bool, target).unwrap());
        assert_eq!(model.release(), 2);
    }

    #[test]
    fn every_dtype_comes_back() {
        let (model, _guard) = model();
        macro_rules! round_trip {
            ($($make:ident $item:ident $value:expr;)*) => {$(
                let tensor = get!($make, $value).unwrap();
                assert_eq!(get!($item, tensor).unwrap(), $value, stringify!($item));
            )*};
        }
        round_trip! {
            aoti_torch_scalar_to_tensor_uint8 aoti_torch_item_uint8 200u8;
            aoti_torch_scalar_to_tensor_int8 aoti_torch_item_int8 -7i8;
            aoti_torch_scalar_to_tensor_int16 aoti_torch_item_int16 -30000i16;
            aoti_torch_scalar_to_tensor_uint16 aoti_torch_item_uint16 60000u16;
            aoti_torch_scalar_to_tensor_int32 aoti_torch_item_int32 i32::MIN;
            aoti_torch_scalar_to_tensor_uint32 aoti_torch_item_uint32 u32::MAX;
            aoti_torch_scalar_to_tensor_int64 aoti_torch_item_int64 i64::MIN;
            aoti_torch_scalar_to_tensor_uint64 aoti_torch_item_uint64 u64::MAX;
            aoti_torch_scalar_to_tensor_float32 aoti_torch_item_float32 1.25f32;
            aoti_torch_scalar_to_tensor_float64 aoti_torch_item_float64 1.25f64;
            aoti_torch_scalar_to_tensor_bool aoti_torch_item_bool true;
        }
        for (dtype, bits) in [(DType::F16, 0x3e00u16), (DType::Bf16, 0x3fc0)] {
            let half = empty(&[1], &[1], dtype.code(), DEVICE_MPS);
            write(half, &[bits]);
            assert_eq!(get!(aoti_torch_item_float64, half).unwrap(), 1.5);
            assert_eq!(get!(aoti_torch_item_float16, half).unwrap(), f16::from_f32(1.5));
            assert_eq!(get!(aoti_torch_item_bfloat16, half).unwrap(), bf16::from_f32(1.5));
            let complex = get!(aoti_torch_item_complex64, half).unwrap();
            assert_eq!(complex, Complex64 { re: 1.5, im: 0.0 });
        }
        assert_eq!(model.release(), 13);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (model, _guard) = model();
        let big = get!(aoti_torch_scalar_to_tensor_float32, 300.0).unwrap();
        assert!(get!(aoti_torch_item_uint8, big).unwrap_err().contains("300"));
        let negative = get!(aoti_torch_scalar_to_tensor_int64, -1).unwrap();
        assert!(get!(aoti_torch_item_uint64, negative).is_err());
        let nan = get!(aoti_torch_scalar_to_tensor_float32, f32::NAN).unwrap();
        assert!(get!(aoti_torch_item_int64, nan).is_err());
        let pair = empty(&[2], &[1], DType::F32.code(), DEVICE_MPS);
        assert!(get!(aoti_torch_item_float32, pair).unwrap_err().contains("2 elements"));
        let scalar = get!(aoti_torch_scalar_to_tensor_float32, 2.5).unwrap();
        assert_eq!(read::<f32>(scalar, 1), [2.5]);
        assert_eq!(get!(aoti_torch_item_int32, scalar).unwrap(), 2);
        assert_eq!(model.release(), 5);
    }
}
