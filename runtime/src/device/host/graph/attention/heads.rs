//! The operands of attention as matrices, one for each head.

use super::super::matmul::{Matrix, Real};
use crate::device::Operand;

/// An operand `[batch, heads, rows, columns]`.
#[derive(Debug)]
pub struct Heads {
    first: Matrix,
    pub batches: usize,
    pub heads: usize,
    pub rows: usize,
    pub columns: usize,
    /// Elements from a batch to the next, from a head to the next.
    batch_stride: isize,
    head_stride: isize,
}

impl Heads {
    pub fn new(operand: &Operand) -> Heads {
        let size = |d: usize| operand.sizes[d] as usize;
        let stride = |d: usize| operand.strides[d] as isize;
        Heads {
            first: Matrix {
                start: operand.buffer.contents().wrapping_add(operand.offset),
                element: operand.dtype.size(),
                rows: size(2),
                columns: size(3),
                row_stride: stride(2),
                column_stride: stride(3),
            },
            batches: size(0),
            heads: size(1),
            rows: size(2),
            columns: size(3),
            batch_stride: stride(0),
            head_stride: stride(1),
        }
    }

    /// The matrix of a head.
    pub fn matrix(&self, batch: usize, head: usize) -> Matrix {
        let elements = batch as isize * self.batch_stride + head as isize * self.head_stride;
        let bytes = elements * self.first.element as isize;
        Matrix { start: self.first.start.wrapping_offset(bytes), ..self.first }
    }

    /// The matrix that `head` of `heads` query heads shares.
    pub fn matrix_for(&self, batch: usize, head: usize, heads: usize) -> Matrix {
        self.matrix(batch, head * self.heads / heads)
    }
}

/// The transposed matrix.
pub fn transposed(matrix: &Matrix) -> Matrix {
    Matrix {
        rows: matrix.columns,
        columns: matrix.rows,
        row_stride: matrix.column_stride,
        column_stride: matrix.row_stride,
        ..*matrix
    }
}

/// A row-major float32 matrix.
pub fn dense(start: *mut f32, rows: usize, columns: usize) -> Matrix {
    Matrix {
        start: start.cast(),
        element: size_of::<f32>(),
        rows,
        columns,
        row_stride: columns as isize,
        column_stride: 1,
    }
}

/// Elements of a row of a matrix of `T`, from column `first` on, as float32.
///
/// # Safety
/// They lie inside a live buffer.
pub unsafe fn load_line<T: Real>(matrix: &Matrix, row: usize, first: usize, to: &mut [f32]) {
    let start = matrix.at::<T>(row, first);
    if matrix.column_stride == 1 {
        // SAFETY: the caller's promise: the elements lie one after the other.
        return T::unpack(unsafe { std::slice::from_raw_parts(start, to.len()) }, to);
    }
    for (i, to) in to.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *to = unsafe { start.offset(i as isize * matrix.column_stride).read() }.to_f32();
    }
}
