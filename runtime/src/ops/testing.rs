//! What the tests of the operators share: tensors of any strides and their values as `f64`.

use std::sync::Arc;

use half::{bf16, f16};
use proptest::prelude::*;

use crate::device::Device;
use crate::device::host::HostDevice;
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

/// The dtypes that products and sums may have.
pub const ARITHMETIC: [DType; 8] =
    [DType::F32, DType::F16, DType::Bf16, DType::U8, DType::I8, DType::I16, DType::I32, DType::I64];

/// A stream on a host device.
pub fn stream() -> Stream {
    let device: Arc<dyn Device> = HostDevice::shared();
    Stream::with_flush_interval(device, 7)
}

/// Addresses (in elements) of all elements in row-major order.
pub fn offsets(sizes: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut all = vec![0];
    for (&size, &stride) in sizes.iter().zip(strides) {
        all = all
            .iter()
            .flat_map(|&base| (0..size).map(move |i| base + (i * stride) as usize))
            .collect();
    }
    all
}

/// A tensor whose elements are `values` in row-major order; its storage begins `lead` elements
/// before it and ends some after, and the bytes between elements are 0xA5.
pub fn tensor(dtype: DType, sizes: &[i64], strides: &[i64], lead: usize, values: &[f64]) -> Tensor {
    let device: Arc<dyn Device> = HostDevice::shared();
    let layout = Layout::new(sizes, strides).unwrap();
    let elements = lead + layout.extent() + 3;
    let storage = crate::tensor::Storage::allocate(&device, elements * dtype.size()).unwrap();
    // SAFETY: the storage is new and has these bytes.
    unsafe { storage.as_ptr().write_bytes(0xA5, storage.len()) };
    let tensor = Tensor::new(storage, lead * dtype.size(), dtype, layout).unwrap();
    for (at, &value) in offsets(sizes, strides).into_iter().zip(values) {
        write(&tensor, at, value);
    }
    tensor
}

/// A row-major tensor.
pub fn contiguous(dtype: DType, sizes: &[i64], values: &[f64]) -> Tensor {
    let layout = Layout::contiguous(sizes).unwrap();
    tensor(dtype, sizes, &layout.strides, 0, values)
}

fn write(tensor: &Tensor, at: usize, value: f64) {
    let start = tensor.as_ptr();
    macro_rules! put {
        ($type:ty, $value:expr) => {
            // SAFETY: the element lies inside the tensor, which only the test uses.
            unsafe { start.cast::<$type>().add(at).write($value) }
        };
    }
    match tensor.dtype() {
        DType::U8 => put!(u8, value as i64 as u8),
        DType::I8 => put!(i8, value as i64 as i8),
        DType::I16 => put!(i16, value as i64 as i16),
        DType::I32 => put!(i32, value as i64 as i32),
        DType::I64 => put!(i64, value as i64),
        DType::U16 => put!(u16, value as i64 as u16),
        DType::U32 => put!(u32, value as i64 as u32),
        DType::U64 => put!(u64, value as i64 as u64),
        DType::F16 => put!(f16, f16::from_f64(value)),
        DType::Bf16 => put!(bf16, bf16::from_f64(value)),
        DType::F32 => put!(f32, value as f32),
        DType::Bool => put!(u8, u8::from(value != 0.0)),
    }
}

/// All elements in row-major order.
pub fn values(tensor: &Tensor) -> Vec<f64> {
    offsets(tensor.sizes(), tensor.strides()).into_iter().map(|at| read(tensor, at)).collect()
}

fn read(tensor: &Tensor, at: usize) -> f64 {
    let start = tensor.as_ptr();
    macro_rules! get {
        ($type:ty) => {
            // SAFETY: the element lies inside the tensor, which only the test uses.
            unsafe { start.cast::<$type>().add(at).read() }
        };
    }
    match tensor.dtype() {
        DType::U8 => get!(u8).into(),
        DType::I8 => get!(i8).into(),
        DType::I16 => get!(i16).into(),
        DType::I32 => get!(i32).into(),
        DType::I64 => get!(i64) as f64,
        DType::U16 => get!(u16).into(),
        DType::U32 => get!(u32).into(),
        DType::U64 => get!(u64) as f64,
        DType::F16 => get!(f16).into(),
        DType::Bf16 => get!(bf16).into(),
        DType::F32 => get!(f32).into(),
        DType::Bool => get!(u8).into(),
    }
}

/// The storage's bytes that belong to no element.
pub fn gaps(tensor: &Tensor) -> Vec<u8> {
    let size = tensor.dtype().size();
    let taken: std::collections::HashSet<usize> = offsets(tensor.sizes(), tensor.strides())
        .into_iter()
        .flat_map(|at| tensor.offset() + at * size..tensor.offset() + (at + 1) * size)
        .collect();
    let storage = tensor.storage();
    // SAFETY: the storage has these bytes and only the test uses it.
    let bytes = unsafe { std::slice::from_raw_parts(storage.as_ptr(), storage.len()) };
    (0..bytes.len()).filter(|at| !taken.contains(at)).map(|at| bytes[at]).collect()
}

/// Strides for these sizes in which no elements share memory: some order of the dimensions, each
/// with some padding.
pub fn strides_of(sizes: Vec<i64>) -> impl Strategy<Value = Vec<i64>> {
    let dim = sizes.len();
    let order = Just((0..dim).collect::<Vec<_>>()).prop_shuffle();
    let padding = prop::collection::vec(0i64..3, dim);
    (order, padding).prop_map(move |(order, padding)| {
        let mut strides = vec![0; dim];
        let mut next = 1;
        for (d, pad) in order.into_iter().zip(padding) {
            strides[d] = next;
            next = next * sizes[d].max(1) + pad;
        }
        strides
    })
}
