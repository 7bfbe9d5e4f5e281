//! Masks of any dtype as numbers to add to scores.

use half::{bf16, f16};

use super::heads::{Heads, load_line};
use crate::device::Operand;
use crate::tensor::DType;

/// What is added to a block of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bias {
    /// Nothing is added.
    None,
    /// Numbers are.
    Some,
    /// All scores are masked: nothing is left of the block.
    Nothing,
}

/// A mask `[batch, heads, queries, keys]`.
#[derive(Debug)]
pub struct Mask {
    heads: Heads,
    dtype: DType,
}

impl Mask {
    pub fn new(operand: &Operand) -> Mask {
        Mask { heads: Heads::new(operand), dtype: operand.dtype }
    }

    /// Numbers to add to the scores of a query, from key `first` on.
    ///
    /// # Safety
    /// The elements lie inside a live buffer.
    pub unsafe fn load_line(
        &self,
        batch: usize,
        head: usize,
        query: usize,
        first: usize,
        to: &mut [f32],
    ) {
        let matrix = self.heads.matrix(batch, head);
        // SAFETY: the caller's promise.
        unsafe {
            match self.dtype {
                DType::F16 => load_line::<f16>(&matrix, query, first, to),
                DType::Bf16 => load_line::<bf16>(&matrix, query, first, to),
                DType::F32 => load_line::<f32>(&matrix, query, first, to),
                _ => {
                    let start = matrix.at::<u8>(query, first);
                    for (i, to) in to.iter_mut().enumerate() {
                        let attends = start.offset(i as isize * matrix.column_stride).read() != 0;
                        *to = if attends { 0.0 } else { f32::NEG_INFINITY };
                    }
                }
            }
        }
    }
}
