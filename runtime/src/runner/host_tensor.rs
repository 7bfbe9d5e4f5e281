//! Tensors in ordinary memory, as given to a method and read from it.

use half::{bf16, f16};

use crate::Result;
use crate::error::err;
use crate::tensor::DType;

/// A dense row-major tensor that owns its elements.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTensor {
    dtype: DType,
    sizes: Vec<usize>,
    data: Vec<u8>,
}

/// A Rust type that stands for a [`DType`].
pub trait Element: Copy {
    /// The dtype.
    const DTYPE: DType;
    /// The element as this machine stores it.
    fn to_bytes(self, out: &mut Vec<u8>);
    /// The element stored in `bytes`, which are as many as the dtype's size.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// The nearest element; integers saturate, NaN becomes 0, a bool is whether it is not 0.
    fn from_f64(value: f64) -> Self;
    /// The value; exact but for integers beyond 2^53.
    fn to_f64(self) -> f64;
}

macro_rules! element {
    ($($t:ty, $dtype:ident, |$from:ident| $conv:expr, |$to:ident| $back:expr;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            fn to_bytes(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_ne_bytes());
            }
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$t>()];
                own.copy_from_slice(bytes);
                <$t>::from_ne_bytes(own)
            }
            fn from_f64($from: f64) -> Self { $conv }
            fn to_f64(self) -> f64 { let $to = self; $back }
        }
    )*};
}
element! {
    u8, U8, |v| v as u8, |v| f64::from(v);
    i8, I8, |v| v as i8, |v| f64::from(v);
    i16, I16, |v| v as i16, |v| f64::from(v);
    u16, U16, |v| v as u16, |v| f64::from(v);
    i32, I32, |v| v as i32, |v| f64::from(v);
    u32, U32, |v| v as u32, |v| f64::from(v);
    i64, I64, |v| v as i64, |v| v as f64;
    u64, U64, |v| v as u64, |v| v as f64;
    f16, F16, |v| f16::from_f64(v), |v| f64::from(v);
    bf16, Bf16, |v| bf16::from_f64(v), |v| f64::from(v);
    f32, F32, |v| v as f32, |v| f64::from(v);
}

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn to_bytes(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
    fn from_f64(value: f64) -> Self {
        value != 0.0
    }
    fn to_f64(self) -> f64 {
        f64::from(u8::from(self))
    }
}

/// Runs `$body` with `$t` standing for the Rust type of `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $t:ident => $body:expr) => {{
        macro_rules! arm {
            ($ty:ty) => {{
                type $t = $ty;
                $body
            }};
        }
        match $dtype {
            DType::U8 => arm!(u8),
            DType::I8 => arm!(i8),
            DType::I16 => arm!(i16),
            DType::I32 => arm!(i32),
            DType::I64 => arm!(i64),
            DType::F16 => arm!(half::f16),
            DType::F32 => arm!(f32),
            DType::Bool => arm!(bool),
            DType::Bf16 => arm!(half::bf16),
            DType::U16 => arm!(u16),
            DType::U32 => arm!(u32),
            DType::U64 => arm!(u64),
        }
    }};
}

/// The number of elements of `sizes`, if it can be counted.
pub(crate) fn checked_numel(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s))
}

impl HostTensor {
    /// The tensor with these bytes, which are the elements in row-major order.
    ///
    /// # Errors
    /// The number of bytes is not what dtype and sizes need.
    pub fn new(dtype: DType, sizes: Vec<usize>, data: Vec<u8>) -> Result<Self> {
        let wanted = checked_numel(&sizes).and_then(|n| n.checked_mul(dtype.size()));
        if wanted != Some(data.len()) {
            return Err(err!(
                InvalidArgument,
                "{} bytes are no {dtype} tensor of shape {sizes:?}",
                data.len()
            ));
        }
        Ok(Self { dtype, sizes, data })
    }

    /// The tensor with these elements.
    ///
    /// # Errors
    /// Their number is not what the sizes need.
    pub fn from_elements<T: Element>(
        sizes: Vec<usize>,
        elements: impl IntoIterator<Item = T>,
    ) -> Result<Self> {
        let mut data = Vec::new();
        elements.into_iter().for_each(|element| element.to_bytes(&mut data));
        Self::new(T::DTYPE, sizes, data)
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of elements along each dimension.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The elements' bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.data.len() / self.dtype.size()
    }

    /// The elements.
    ///
    /// # Errors
    /// `T` is not the type of this tensor's dtype.
    pub fn elements<T: Element>(&self) -> Result<Vec<T>> {
        if T::DTYPE != self.dtype {
            return Err(err!(InvalidArgument, "the tensor holds {}, not {}", self.dtype, T::DTYPE));
        }
        Ok(self.data.chunks_exact(size_of::<T>()).map(T::from_bytes).collect())
    }

    /// The elements as numbers; exact but for integers beyond 2^53.
    pub fn to_f64(&self) -> Vec<f64> {
        with_element!(self.dtype, T => self.data.chunks_exact(size_of::<T>())
            .map(|bytes| T::from_bytes(bytes).to_f64())
            .collect())
    }

    /// The elements of an integer or bool tensor, exactly; `None` for floating point.
    pub fn to_i128(&self) -> Option<Vec<i128>> {
        macro_rules! integers {
            ($t:ty) => {
                Some(
                    self.data
                        .chunks_exact(size_of::<$t>())
                        .map(|bytes| i128::from(<$t>::from_bytes(bytes)))
                        .collect(),
                )
            };
        }
        match self.dtype {
            DType::U8 => integers!(u8),
            DType::I8 => integers!(i8),
            DType::I16 => integers!(i16),
            DType::I32 => integers!(i32),
            DType::I64 => integers!(i64),
            DType::Bool => integers!(bool),
            DType::U16 => integers!(u16),
            DType::U32 => integers!(u32),
            DType::U64 => integers!(u64),
            DType::F16 | DType::F32 | DType::Bf16 => None,
        }
    }

    /// The same values in another dtype, rounded to nearest (see [`Element::from_f64`]).
    /// Between integer types the value is kept where it fits and wraps where it does not.
    #[must_use]
    pub fn convert(&self, dtype: DType) -> Self {
        if dtype == self.dtype {
            return self.clone();
        }
        let mut data = Vec::with_capacity(self.numel() * dtype.size());
        match self.to_i128() {
            Some(values) if !dtype.is_float() && dtype != DType::Bool => {
                for value in values {
                    let bytes = value.to_le_bytes();
                    let mut element = bytes[..dtype.size()].to_vec();
                    if cfg!(target_endian = "big") {
                        element.reverse();
                    }
                    data.extend_from_slice(&element);
                }
            }
            _ => with_element!(dtype, T => {
                self.to_f64().into_iter().for_each(|v| T::from_f64(v).to_bytes(&mut data));
            }),
        }
        Self { dtype, sizes: self.sizes.clone(), data }
    }

    /// The bytes with the dimensions stored in `dim_order`, outermost first.
    ///
    /// # Errors
    /// `dim_order` is no permutation of the dimensions.
    pub fn bytes_in_order(&self, dim_order: &[u8]) -> Result<Vec<u8>> {
        let strides = row_major_strides(&self.sizes);
        let order = permutation(dim_order, self.sizes.len())?;
        let sizes: Vec<usize> = order.iter().map(|&d| self.sizes[d]).collect();
        let strides: Vec<usize> = order.iter().map(|&d| strides[d]).collect();
        Ok(gather(&self.data, self.dtype.size(), &sizes, &strides))
    }

    /// The tensor whose bytes are stored with the dimensions in `dim_order`, outermost first.
    ///
    /// # Errors
    /// `dim_order` is no permutation of the dimensions, or the number of bytes is wrong.
    pub fn from_order(
        dtype: DType,
        sizes: Vec<usize>,
        dim_order: &[u8],
        bytes: &[u8],
    ) -> Result<Self> {
        let order = permutation(dim_order, sizes.len())?;
        let stored: Vec<usize> = order.iter().map(|&d| sizes[d]).collect();
        let mut strides = vec![0; sizes.len()];
        for (&d, stride) in order.iter().zip(row_major_strides(&stored)) {
            strides[d] = stride;
        }
        // Checks the number of bytes before anything is read by it.
        let tensor = Self::new(dtype, sizes, bytes.to_vec())?;
        let data = gather(bytes, dtype.size(), &tensor.sizes, &strides);
        Ok(Self { data, ..tensor })
    }
}

fn row_major_strides(sizes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d].max(1);
    }
    strides
}

fn permutation(dim_order: &[u8], dim: usize) -> Result<Vec<usize>> {
    let order: Vec<usize> = dim_order.iter().map(|&d| usize::from(d)).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..dim) {
        return Err(err!(
            InvalidArgument,
            "dim order {dim_order:?} does not order {dim} dimensions"
        ));
    }
    Ok(order)
}

/// The elements of a strided view in row-major order. Strides are in elements.
fn gather(data: &[u8], element: usize, sizes: &[usize], strides: &[usize]) -> Vec<u8> {
    let count: usize = sizes.iter().product();
    let mut out = Vec::with_capacity(count * element);
    let mut index = vec![0usize; sizes.len()];
    let mut offset = 0;
    for _ in 0..count {
        out.extend_from_slice(&data[offset * element..][..element]);
        for d in (0..sizes.len()).rev() {
            index[d] += 1;
            offset += strides[d];
            if index[d] < sizes[d] {
                break;
            }
            offset -= index[d] * strides[d];
            index[d] = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_bytes_must_agree() {
        assert!(HostTensor::new(DType::F32, vec![2, 3], vec![0; 24]).is_ok());
        assert!(HostTensor::new(DType::F32, vec![2, 3], vec![0; 23]).is_err());
        assert!(HostTensor::new(DType::F32, vec![usize::MAX, 2], vec![]).is_err());
        assert!(HostTensor::new(DType::F32, vec![0, 5], vec![]).is_ok());
        assert_eq!(HostTensor::new(DType::I64, vec![], vec![0; 8]).unwrap().numel(), 1);
    }

    #[test]
    fn conversions_round_and_keep_integers_exact() {
        let floats = HostTensor::from_elements(vec![3], [1.0f32, 1.0 + 1.0 / 256.0, -2.5]).unwrap();
        let narrow = floats.convert(DType::Bf16);
        assert_eq!(narrow.to_f64(), [1.0, 1.0, -2.5]); // ties to even
        assert_eq!(floats.convert(DType::I32).to_f64(), [1.0, 1.0, -2.0]);
        assert_eq!(floats.convert(DType::Bool).to_f64(), [1.0, 1.0, 1.0]);

        let big = (1i64 << 53) + 1;
        let wide = HostTensor::from_elements(vec![1], [big]).unwrap();
        assert_eq!(wide.convert(DType::U64).elements::<u64>().unwrap(), [big as u64]);
        assert_eq!(wide.to_i128().unwrap(), [i128::from(big)]);
    }

    #[test]
    fn dim_orders_round_trip() {
        let values: Vec<i32> = (0..24).collect();
        let tensor = HostTensor::from_elements(vec![2, 3, 4], values).unwrap();
        let channels_last = tensor.bytes_in_order(&[0, 2, 1]).unwrap();
        assert_eq!(i32::from_bytes(&channels_last[4..8]), 4); // [0, 1, 0]
        let back =
            HostTensor::from_order(DType::I32, vec![2, 3, 4], &[0, 2, 1], &channels_last).unwrap();
        assert_eq!(back, tensor);
        assert_eq!(tensor.bytes_in_order(&[0, 1, 2]).unwrap(), tensor.bytes());
        assert!(tensor.bytes_in_order(&[0, 1, 1]).is_err());
        assert!(tensor.bytes_in_order(&[0, 1]).is_err());
    }
}
