//! Matrix products on the host.
//!
//! The result is cut into tiles that the threads share out. float32 tiles go to `gemm` as they
//! lie, whatever their strides. Half types are packed to float32 block by block, accumulate
//! there, and are rounded once. Integers wrap in their own type.

use std::sync::Arc;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::{HostExecutable, Lowered};
use crate::Result;
use crate::device::host::threads::Threads;
use crate::device::{Executable, Operand};
use crate::error::err;
use crate::graph::{GraphKey, GraphOp};
use crate::tensor::DType;

/// Rows and columns of a tile of half types or integers, at most: its operands' blocks fit into
/// the second level cache.
const TILE_ROWS: usize = 128;
const TILE_COLUMNS: usize = 256;
/// Terms that are packed at once.
const BLOCK_TERMS: usize = 512;
/// Multiplications below which a second thread costs more than it saves.
const PARALLEL_WORK: usize = 1 << 16;

/// Lowers the matrix products.
///
/// # Errors
/// The dtype has no product.
pub fn lower(key: &GraphKey) -> Result<Arc<dyn Executable>> {
    let (beta, alpha) = match key.op {
        GraphOp::Addmm { beta, alpha } => (f64::from_bits(beta), f64::from_bits(alpha)),
        _ => (0.0, 1.0),
    };
    let dtype = key.operands[0].dtype;
    let scales = Scales { beta, alpha };
    let tile: TileFn = match dtype {
        DType::F32 => tile_f32,
        DType::F16 => tile_half::<f16>,
        DType::Bf16 => tile_half::<bf16>,
        DType::U8 => tile_integer::<u8>,
        DType::I8 => tile_integer::<i8>,
        DType::I16 => tile_integer::<i16>,
        DType::I32 => tile_integer::<i32>,
        DType::I64 => tile_integer::<i64>,
        DType::Bool | DType::U16 | DType::U32 | DType::U64 => {
            return Err(err!(Unsupported, "{} is not defined for {dtype}", key.op));
        }
    };
    let has_input = matches!(key.op, GraphOp::Addmm { .. });
    Ok(Lowered::new(key.clone(), Matmul { dtype, scales, has_input, tile }))
}

/// `out = beta · input + alpha · a @ b`.
#[derive(Debug, Clone, Copy)]
struct Scales {
    beta: f64,
    alpha: f64,
}

/// Computes one tile: out, input if there is one, a, b. Strides are in elements.
type TileFn = unsafe fn(&Matrix, Option<&Matrix>, &Matrix, &Matrix, Scales);

#[derive(Debug)]
struct Matmul {
    dtype: DType,
    scales: Scales,
    has_input: bool,
    tile: TileFn,
}

impl HostExecutable for Matmul {
    fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()> {
        let out = Batch::new(&operands[0]);
        let input = self.has_input.then(|| Batch::new(&operands[1]));
        // A beta of 0 ignores the input, NaN or not.
        let input = input.filter(|_| self.scales.beta != 0.0);
        let [.., a, b] = operands else { unreachable!("checked against the key") };
        let (a, b) = (Batch::new(a), Batch::new(b));
        let tiles = Tiles::new(self.dtype, out.count, &out.matrix, a.matrix.columns, threads);
        threads.run(tiles.total() as u64, 1, &|range| {
            for tile in range {
                let (batch, rows, columns) = tiles.tile(tile as usize);
                let out = out.at(batch).part(rows.clone(), columns.clone());
                let input = input.as_ref().map(|i| i.at(batch).part(rows.clone(), columns.clone()));
                let a = a.at(batch).rows_part(rows);
                let b = b.at(batch).columns_part(columns);
                // SAFETY: the parts lie inside operands that were checked before the run, and
                // tiles share no element of the result.
                unsafe { (self.tile)(&out, input.as_ref(), &a, &b, self.scales) };
            }
        })
    }
}

/// A matrix in memory, or a part of one.
#[derive(Debug, Clone, Copy)]
struct Matrix {
    /// Address of the first element.
    start: *mut u8,
    element: usize,
    rows: usize,
    columns: usize,
    /// Elements from a row to the next, from a column to the next.
    row_stride: isize,
    column_stride: isize,
}

// SAFETY: an address; the command keeps the buffers behind it, and tiles do not overlap.
unsafe impl Send for Matrix {}
// SAFETY: as above.
unsafe impl Sync for Matrix {}

impl Matrix {
    /// The part of these rows and columns.
    fn part(self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> Matrix {
        let elements =
            rows.start as isize * self.row_stride + columns.start as isize * self.column_stride;
        Matrix {
            start: self.start.wrapping_offset(elements * self.element as isize),
            rows: rows.len(),
            columns: columns.len(),
            ..self
        }
    }

    fn rows_part(self, rows: std::ops::Range<usize>) -> Matrix {
        self.part(rows, 0..self.columns)
    }

    fn columns_part(self, columns: std::ops::Range<usize>) -> Matrix {
        self.part(0..self.rows, columns)
    }

    /// Address of an element.
    fn at<T>(&self, row: usize, column: usize) -> *mut T {
        let elements = row as isize * self.row_stride + column as isize * self.column_stride;
        self.start.cast::<T>().wrapping_offset(elements)
    }
}

/// A matrix operand: one matrix, or a batch of them.
#[derive(Debug)]
struct Batch {
    matrix: Matrix,
    count: usize,
    /// Elements from a matrix to the next.
    stride: isize,
}

impl Batch {
    fn new(operand: &Operand) -> Batch {
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

    fn at(&self, index: usize) -> Matrix {
        let bytes = index as isize * self.stride * self.matrix.element as isize;
        Matrix { start: self.matrix.start.wrapping_offset(bytes), ..self.matrix }
    }
}

/// How the result is cut up.
#[derive(Debug)]
struct Tiles {
    batches: usize,
    rows: usize,
    columns: usize,
    tile_rows: usize,
    tile_columns: usize,
}

impl Tiles {
    fn new(dtype: DType, batches: usize, out: &Matrix, terms: usize, threads: &Threads) -> Tiles {
        let (rows, columns) = (out.rows, out.columns);
        let (tile_rows, tile_columns) = if dtype == DType::F32 {
            tiles_for_gemm(batches, rows, columns, terms, threads.count())
        } else {
            (TILE_ROWS.min(rows), TILE_COLUMNS.min(columns))
        };
        Tiles { batches, rows, columns, tile_rows, tile_columns }
    }

    fn across(&self) -> usize {
        self.columns.div_ceil(self.tile_columns)
    }

    fn down(&self) -> usize {
        self.rows.div_ceil(self.tile_rows)
    }

    fn total(&self) -> usize {
        self.batches * self.across() * self.down()
    }

    /// Matrix of the batch, rows and columns of a tile.
    fn tile(&self, index: usize) -> (usize, std::ops::Range<usize>, std::ops::Range<usize>) {
        let (rest, column) = (index / self.across(), index % self.across());
        let (batch, row) = (rest / self.down(), rest % self.down());
        let range = |at: usize, size: usize, end: usize| at * size..((at + 1) * size).min(end);
        (
            batch,
            range(row, self.tile_rows, self.rows),
            range(column, self.tile_columns, self.columns),
        )
    }
}

/// Tiles for `gemm`, which packs both operands anew for each: as few as keep all threads busy.
fn tiles_for_gemm(
    batches: usize,
    rows: usize,
    columns: usize,
    terms: usize,
    threads: usize,
) -> (usize, usize) {
    let work = rows.saturating_mul(columns).saturating_mul(terms.max(1));
    let wanted = threads.min(work.div_ceil(PARALLEL_WORK)).div_ceil(batches.max(1));
    let (mut tile_rows, mut tile_columns) = (rows, columns);
    // Halve the longer side until there are enough, in steps that suit the micro-kernels.
    while rows.div_ceil(tile_rows) * columns.div_ceil(tile_columns) < wanted {
        let side = if tile_columns >= tile_rows { &mut tile_columns } else { &mut tile_rows };
        if *side <= 16 {
            break;
        }
        *side = side.div_ceil(2).next_multiple_of(16);
    }
    (tile_rows, tile_columns)
}

/// `out` of a float32 product.
///
/// # Safety
/// The matrices lie inside live buffers; `out` shares no memory with the others.
unsafe fn tile_f32(out: &Matrix, input: Option<&Matrix>, a: &Matrix, b: &Matrix, scales: Scales) {
    if let Some(input) = input {
        let beta = scales.beta as f32;
        for row in 0..out.rows {
            for column in 0..out.columns {
                // SAFETY: row and column lie inside both.
                unsafe {
                    let value = input.at::<f32>(row, column).read();
                    out.at::<f32>(row, column).write(beta * value);
                }
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { gemm_f32(out, input.is_some(), a, b, scales.alpha as f32) };
}

/// `out = alpha · a @ b`, added to what `out` holds if `add`.
///
/// # Safety
/// As for [`tile_f32`].
unsafe fn gemm_f32(out: &Matrix, add: bool, a: &Matrix, b: &Matrix, alpha: f32) {
    // SAFETY: pointers, sizes and strides describe matrices inside live buffers.
    unsafe {
        gemm::gemm(
            out.rows,
            out.columns,
            a.columns,
            out.start.cast::<f32>(),
            out.column_stride,
            out.row_stride,
            add,
            a.start.cast::<f32>().cast_const(),
            a.column_stride,
            a.row_stride,
            b.start.cast::<f32>().cast_const(),
            b.column_stride,
            b.row_stride,
            1.0,
            alpha,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// A type that computes in float32.
trait Half: Copy {
    fn to_f32(self) -> f32;
    fn from_f32(value: f32) -> Self;
    fn unpack(from: &[Self], to: &mut [f32]);
}

macro_rules! half_type {
    ($type:ty) => {
        impl Half for $type {
            fn to_f32(self) -> f32 {
                <$type>::to_f32(self)
            }
            fn from_f32(value: f32) -> Self {
                <$type>::from_f32(value)
            }
            fn unpack(from: &[Self], to: &mut [f32]) {
                from.convert_to_f32_slice(to);
            }
        }
    };
}
half_type!(f16);
half_type!(bf16);

/// Part of a half matrix as float32, dense along its denser side.
struct Packed {
    values: Vec<f32>,
    matrix: Matrix,
}

impl Packed {
    /// # Safety
    /// `from` lies inside a live buffer.
    unsafe fn new<T: Half>(mut values: Vec<f32>, from: &Matrix) -> Packed {
        // Lines are what is dense in memory: rows, or columns of a transposed matrix.
        let by_rows = from.column_stride <= from.row_stride;
        let (lines, len) =
            if by_rows { (from.rows, from.columns) } else { (from.columns, from.rows) };
        let step = if by_rows { from.column_stride } else { from.row_stride };
        values.resize(lines * len, 0.0);
        for (line, to) in values.chunks_exact_mut(len.max(1)).enumerate() {
            let start = if by_rows { from.at::<T>(line, 0) } else { from.at::<T>(0, line) };
            if step == 1 {
                // SAFETY: the line's `len` elements lie one after the other.
                T::unpack(unsafe { std::slice::from_raw_parts(start, len) }, to);
            } else {
                for (i, to) in to.iter_mut().enumerate() {
                    // SAFETY: the element lies inside the matrix.
                    *to = unsafe { start.offset(i as isize * step).read() }.to_f32();
                }
            }
        }
        let (row_stride, column_stride) =
            if by_rows { (len as isize, 1) } else { (1, len as isize) };
        let matrix = Matrix {
            start: values.as_mut_ptr().cast(),
            element: size_of::<f32>(),
            row_stride,
            column_stride,
            ..*from
        };
        Packed { values, matrix }
    }
}

/// `out` of a product of a half type: float32 inside, rounded once.
///
/// # Safety
/// As for [`tile_f32`].
unsafe fn tile_half<T: Half>(
    out: &Matrix,
    input: Option<&Matrix>,
    a: &Matrix,
    b: &Matrix,
    scales: Scales,
) {
    let mut sums = vec![0f32; out.rows * out.columns];
    let target = Matrix {
        start: sums.as_mut_ptr().cast(),
        element: size_of::<f32>(),
        row_stride: out.columns as isize,
        column_stride: 1,
        ..*out
    };
    if let Some(input) = input {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the element lies inside the input, which has the tile's size.
            let value = unsafe { input.at::<T>(i / out.columns, i % out.columns).read() };
            *sum = scales.beta as f32 * value.to_f32();
        }
    }
    let (mut a_values, mut b_values) = (Vec::new(), Vec::new());
    for first in (0..a.columns).step_by(BLOCK_TERMS) {
        let terms = first..(first + BLOCK_TERMS).min(a.columns);
        // SAFETY: the parts lie inside the operands; `sums` has the tile's size.
        unsafe {
            let a = Packed::new::<T>(a_values, &a.columns_part(terms.clone()));
            let b = Packed::new::<T>(b_values, &b.rows_part(terms));
            gemm_f32(&target, true, &a.matrix, &b.matrix, scales.alpha as f32);
            (a_values, b_values) = (a.values, b.values);
        }
    }
    for (i, &sum) in sums.iter().enumerate() {
        // SAFETY: the element lies inside the tile, which this call alone writes.
        unsafe { out.at::<T>(i / out.columns, i % out.columns).write(T::from_f32(sum)) };
    }
}

/// An integer type that wraps.
trait Integer: Copy {
    const ZERO: Self;
    /// The number that a float scalar stands for, wrapped.
    fn from_scalar(value: f64) -> Self;
    fn mul(self, other: Self) -> Self;
    fn add(self, other: Self) -> Self;
}

macro_rules! integer_type {
    ($($type:ty)*) => {$(
        impl Integer for $type {
            const ZERO: Self = 0;
            fn from_scalar(value: f64) -> Self {
                value as i64 as $type
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
integer_type!(u8 i8 i16 i32 i64);

/// `out` of an integer product.
///
/// # Safety
/// As for [`tile_f32`].
unsafe fn tile_integer<T: Integer>(
    out: &Matrix,
    input: Option<&Matrix>,
    a: &Matrix,
    b: &Matrix,
    scales: Scales,
) {
    let (alpha, beta) = (T::from_scalar(scales.alpha), T::from_scalar(scales.beta));
    let mut sums = vec![T::ZERO; out.rows * out.columns];
    let mut line = vec![T::ZERO; out.columns];
    for term in 0..a.columns {
        for (column, value) in line.iter_mut().enumerate() {
            // SAFETY: the element lies inside b.
            *value = unsafe { b.at::<T>(term, column).read() };
        }
        for (row, sums) in sums.chunks_exact_mut(out.columns).enumerate() {
            // SAFETY: the element lies inside a.
            let factor = unsafe { a.at::<T>(row, term).read() };
            for (sum, &value) in sums.iter_mut().zip(&line) {
                *sum = sum.add(factor.mul(value));
            }
        }
    }
    for (i, &sum) in sums.iter().enumerate() {
        let (row, column) = (i / out.columns, i % out.columns);
        let mut value = alpha.mul(sum);
        // SAFETY: row and column lie inside both; this call alone writes the tile.
        unsafe {
            if let Some(input) = input {
                value = value.add(beta.mul(input.at::<T>(row, column).read()));
            }
            out.at::<T>(row, column).write(value);
        }
    }
}
