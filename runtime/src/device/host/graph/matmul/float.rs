//! float32 products.

use super::Scales;
use super::half::tile_widened;
use super::matrix::Matrix;
use super::skinny;

/// `out` of a float32 product.
///
/// # Safety
/// The matrices lie inside live buffers; `out` shares no memory with the others.
pub(super) unsafe fn tile_f32(
    out: &Matrix,
    input: Option<&Matrix>,
    a: &Matrix,
    b: &Matrix,
    scales: Scales,
) {
    // `gemm` packs the weights even for a few rows; those that lie by columns need not be.
    if b.row_stride == 1 && skinny::suits(out.rows, b) {
        // SAFETY: the caller's promise.
        return unsafe { tile_widened::<f32>(out, input, a, b, scales) };
    }
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
pub(in super::super) unsafe fn gemm_f32(
    out: &Matrix,
    add: bool,
    a: &Matrix,
    b: &Matrix,
    alpha: f32,
) {
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
