//! Matrices in memory.

use std::ops::Range;

use crate::device::Operand;

/// A matrix in memory, or a part of one.
#[derive(Debug, Clone, Copy)]
pub struct Matrix {
    /// Address of the first element.
    pub start: *mut u8,
    pub element: usize,
    pub rows: usize,
    pub columns: usize,
    /// Elements from a row to the next, from a column to the next.
    pub row_stride: isize,
    pub column_stride: isize,
}

// SAFETY: an address; the command keeps the buffers behind it, and tiles do not overlap.
unsafe impl Send for Matrix {}
// SAFETY: as above.
unsafe impl Sync for Matrix {}

impl Matrix {
    /// The part of these rows and columns.
    pub fn part(self, rows: Range<usize>, columns: Range<usize>) -> Matrix {
        let elements =
            rows.start as isize * self.row_stride + columns.start as isize * self.column_stride;
        Matrix {
            start: self.start.wrapping_offset(elements * self.element as isize),
            rows: rows.len(),
            columns: columns.len(),
            ..self
        }
    }

    pub fn rows_part(self, rows: Range<usize>) -> Matrix {
        self.part(rows, 0..self.columns)
    }

    pub fn columns_part(self, columns: Range<usize>) -> Matrix {
        self.part(0..self.rows, columns)
    }

    /// Address of an element.
    pub fn at<T>(&self, row: usize, column: usize) -> *mut T {
        let elements = row as isize * self.row_stride + column as isize * self.column_stride;
        self.start.cast::<T>().wrapping_offset(elements)
    }
}

/// A matrix operand: one matrix, or a batch of them.
#[derive(Debug)]
pub struct Batch {
    pub matrix: Matrix,
    pub count: usize,
    /// Elements from a matrix to the next.
    pub stride: isize,
}

impl Batch {
    pub fn new(operand: &Operand) -> Batch {
        let (lead, [rows, columns]) = operand.sizes.split_last_chunk().expect("two dimensions");
        let (lead_strides, [row_stride, column_stride]) =
            operand.strides.split_last_chunk().expect("two dimensions");
        Batch {
            matrix: Matrix {
                start: operand.buffer.contents().wrapping_add(operand.offset),
                element: operand.dtype.size(),
                rows: *rows as usize,
                columns: *columns as usize,
                row_stride: *row_stride as isize,
                column_stride: *column_stride as isize,
            },
            count: lead.first().map_or(1, |&n| n as usize),
            stride: lead_strides.first().map_or(0, |&s| s as isize),
        }
    }

    pub fn at(&self, index: usize) -> Matrix {
        let bytes = index as isize * self.stride * self.matrix.element as isize;
        Matrix { start: self.matrix.start.wrapping_offset(bytes), ..self.matrix }
    }
}
