//! Floats of any dtype as float32 and back.

use half::{bf16, f16};

use super::matmul::half::Real;
use crate::device::Operand;
use crate::tensor::DType;

/// The address of an operand's first element, for threads that share out its elements.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    start: *mut u8,
    dtype: DType,
}

// SAFETY: an address; the command keeps the buffer behind it, and threads write disjoint parts.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    /// Of an operand, which must be contiguous for what follows.
    pub fn of(operand: &Operand) -> Address {
        let start = operand.buffer.contents().wrapping_add(operand.offset);
        Address { start, dtype: operand.dtype }
    }

    /// The elements from `first` on as float32.
    ///
    /// # Safety
    /// The elements lie inside the operand, its buffer is alive, and nobody writes them.
    pub unsafe fn load(self, first: usize, to: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.dtype {
                DType::F16 => f16::unpack(self.slice(first, to.len()), to),
                DType::Bf16 => bf16::unpack(self.slice(first, to.len()), to),
                _ => f32::unpack(self.slice(first, to.len()), to),
            }
        }
    }

    /// Writes the elements from `first` on, each rounded once.
    ///
    /// # Safety
    /// The elements lie inside the operand, its buffer is alive, and this call alone uses them.
    pub unsafe fn store(self, first: usize, from: &[f32]) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.dtype {
                DType::F16 => self.store_as::<f16>(first, from),
                DType::Bf16 => self.store_as::<bf16>(first, from),
                _ => self.store_as::<f32>(first, from),
            }
        }
    }

    unsafe fn store_as<T: Real>(self, first: usize, from: &[f32]) {
        for (i, &value) in from.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { self.start.cast::<T>().add(first + i).write(T::from_f32(value)) };
        }
    }

    /// `len` elements from `first` on.
    ///
    /// # Safety
    /// As for [`Address::load`]; `T` is the element type.
    pub unsafe fn slice<'run, T>(self, first: usize, len: usize) -> &'run [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.cast::<T>().add(first), len) }
    }
}

/// All elements of a contiguous operand as float32.
pub fn load_all(operand: &Operand) -> Vec<f32> {
    let mut values = vec![0f32; operand.sizes.iter().product::<i64>() as usize];
    // SAFETY: all elements of an operand that was checked before the run.
    unsafe { Address::of(operand).load(0, &mut values) };
    values
}
