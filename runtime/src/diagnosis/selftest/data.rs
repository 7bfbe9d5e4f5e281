//! Tensors of numbers.

use std::sync::Arc;

use crate::Result;
use crate::device::Device;
use crate::runner::HostTensor;
use crate::tensor::{DType, Layout, Storage, Tensor};

/// The floating point dtypes.
pub const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// An operand of a check.
#[derive(Debug, Clone)]
pub struct Given {
    /// Its dtype.
    pub dtype: DType,
    /// Its sizes.
    pub sizes: Vec<i64>,
    /// Its strides; row-major without.
    pub strides: Option<Vec<i64>>,
    /// Its elements in row-major order.
    pub values: Vec<f64>,
}

impl Given {
    /// A row-major operand.
    pub fn new(dtype: DType, sizes: &[i64], values: Vec<f64>) -> Given {
        Given { dtype, sizes: sizes.to_vec(), strides: None, values }
    }

    /// A row-major operand of numbers between -1 and 1.
    pub fn noise(dtype: DType, sizes: &[i64], seed: u64) -> Given {
        Given::new(dtype, sizes, noise(sizes.iter().product::<i64>() as usize, seed))
    }

    /// The same elements with these strides.
    pub fn strided(mut self, strides: &[i64]) -> Given {
        self.strides = Some(strides.to_vec());
        self
    }

    /// The elements as the dtype holds them.
    ///
    /// # Errors
    /// The values are not as many as the sizes say.
    pub fn rounded(&self) -> Result<Vec<f64>> {
        let sizes: Vec<usize> = self.sizes.iter().map(|&size| size as usize).collect();
        Ok(rounded(self.dtype, &sizes, &self.values)?.to_f64())
    }

    /// The tensor on a device, some elements behind the start of its storage.
    ///
    /// # Errors
    /// Out of memory; the values are not as many as the sizes say.
    pub fn on(&self, device: &Arc<dyn Device>) -> Result<Tensor> {
        let layout = match &self.strides {
            Some(strides) => Layout::new(&self.sizes, strides)?,
            None => Layout::contiguous(&self.sizes)?,
        };
        let size = self.dtype.size();
        let lead = 16 / size;
        let storage = Storage::allocate(device, (lead + layout.extent()) * size)?;
        let places = offsets(&self.sizes, &layout.strides);
        let tensor = Tensor::new(storage, lead * size, self.dtype, layout)?;
        let sizes: Vec<usize> = self.sizes.iter().map(|&size| size as usize).collect();
        let elements = rounded(self.dtype, &sizes, &self.values)?;
        for (element, at) in elements.bytes().chunks_exact(size).zip(places) {
            // SAFETY: the element lies inside the tensor, which nobody else uses.
            unsafe {
                let to = tensor.as_ptr().add(at * size);
                std::ptr::copy_nonoverlapping(element.as_ptr(), to, size);
            }
        }
        Ok(tensor)
    }
}

/// A tensor of these numbers, rounded.
///
/// # Errors
/// They are not as many as the sizes say.
pub fn rounded(dtype: DType, sizes: &[usize], values: &[f64]) -> Result<HostTensor> {
    if dtype.is_float() || dtype == DType::Bool {
        let narrow = values.iter().map(|&value| value as f32);
        return Ok(HostTensor::from_elements(sizes.to_vec(), narrow)?.convert(dtype));
    }
    let whole = values.iter().map(|&value| value as i64);
    Ok(HostTensor::from_elements(sizes.to_vec(), whole)?.convert(dtype))
}

/// The elements of a tensor that no work uses.
///
/// # Errors
/// It is too large.
pub fn read(tensor: &Tensor) -> Result<HostTensor> {
    let size = tensor.dtype().size();
    let mut bytes = Vec::with_capacity(tensor.numel() * size);
    for at in offsets(tensor.sizes(), tensor.strides()) {
        // SAFETY: the element lies inside the tensor.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(tensor.as_ptr().add(at * size), size)
        });
    }
    let sizes = tensor.sizes().iter().map(|&size| size as usize).collect();
    HostTensor::new(tensor.dtype(), sizes, bytes)
}

/// Offsets of all elements in row-major order, in elements.
fn offsets(sizes: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut all = vec![0];
    for (&size, &stride) in sizes.iter().zip(strides) {
        let along = |base: usize| (0..size).map(move |i| base + (i * stride) as usize);
        all = all.into_iter().flat_map(along).collect();
    }
    all
}

/// Numbers between -1 and 1 that look random.
pub fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Whole numbers from -8 to 8, or from 0 for unsigned dtypes.
pub fn whole(dtype: DType, count: usize, seed: u64) -> Vec<f64> {
    let unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
    noise(count, seed)
        .into_iter()
        .map(|n| (n * 8.0).round())
        .map(|n| if unsigned { n.abs() } else { n })
        .collect()
}
