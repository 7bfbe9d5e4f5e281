//! Products with a few rows: what a model does for each token that it generates.
//!
//! They read each element of the weights once and compute little with it, so packing the weights
//! would cost more than the product. Lines of the weights are converted in the cache and used by
//! all rows at once.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

use super::half::Real;
use super::matrix::Matrix;

/// Rows up to which this is faster than packing.
const MOST_ROWS: usize = 8;
/// Terms or columns that are converted at once: all rows' shares stay in the first level cache.
const BLOCK: usize = 512;
/// The same of the terms of a single row, at most: the longer the stretches of memory that are read
/// one behind the other, the faster they come.
const MOST_TERMS: usize = 4096;
/// Rows whose scalar products are computed together, so that a line is loaded once for all.
pub(in crate::device::host::graph) const TOGETHER: usize = 4;

/// Whether a product with this many rows is one of these: the lines of `b`, rows or columns, must
/// lie densely, and there must be some.
pub(in super::super) fn suits(rows: usize, b: &Matrix) -> bool {
    rows <= MOST_ROWS && b.rows > 0 && (b.row_stride == 1 || b.column_stride == 1)
}

/// `sums += alpha · a @ b`; `sums` has the rows of `a` and the columns of `b`, densely.
///
/// # Safety
/// The matrices lie inside live buffers, and `b` [suits](suits).
pub(super) unsafe fn multiply<T: Real>(sums: &mut [f32], a: &Matrix, b: &Matrix, alpha: f32) {
    let mut factors = vec![0f32; a.rows * a.columns];
    for (i, factor) in factors.iter_mut().enumerate() {
        // SAFETY: the element lies inside `a`.
        *factor = unsafe { a.at::<T>(i / a.columns, i % a.columns).read() }.to_f32() * alpha;
    }
    // SAFETY: the caller's promise.
    unsafe { multiply_factors::<T>(sums, &factors, b) };
}

/// `sums += factors @ b`, with `sums` and `factors` dense.
///
/// # Safety
/// As for [`multiply`].
pub(in super::super) unsafe fn multiply_factors<T: Real>(
    sums: &mut [f32],
    factors: &[f32],
    b: &Matrix,
) {
    // Chooses the vector instructions of this processor.
    Arch::new().dispatch(Multiply::<T> { sums, factors, b, element: PhantomData });
}

/// `sums += factors @ b`, with `factors` dense. Made by [`multiply_factors`] only, whose promise
/// about `b` it relies on.
struct Multiply<'a, T> {
    sums: &'a mut [f32],
    factors: &'a [f32],
    b: &'a Matrix,
    element: PhantomData<T>,
}

impl<T: Real> WithSimd for Multiply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Multiply { sums, factors, b, .. } = self;
        // SAFETY: `b` lies inside a live buffer, as the maker promised.
        unsafe {
            if b.row_stride == 1 {
                by_columns::<T, S>(simd, sums, factors, b);
            } else {
                by_rows::<T, S>(simd, sums, factors, b);
            }
        }
    }
}

/// The columns of `b` lie densely: each result is a scalar product.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn by_columns<T: Real, S: Simd>(simd: S, sums: &mut [f32], factors: &[f32], b: &Matrix) {
    let mut line = [0f32; MOST_TERMS];
    let rows = factors.len() / b.rows;
    let block = (MOST_TERMS / rows.max(1)).max(BLOCK);
    for first in (0..b.rows).step_by(block) {
        let len = block.min(b.rows - first);
        let factors_of = |row: usize| &factors[row * b.rows + first..][..len];
        for column in 0..b.columns {
            // SAFETY: the elements lie inside `b`, one after the other.
            let from = unsafe { std::slice::from_raw_parts(b.at::<T>(first, column), len) };
            let line = T::as_f32s(from, &mut line);
            let mut row = 0;
            while row + TOGETHER <= rows {
                let factors = std::array::from_fn(|i| factors_of(row + i));
                for (i, product) in dot_together(simd, factors, line).into_iter().enumerate() {
                    sums[(row + i) * b.columns + column] += product;
                }
                row += TOGETHER;
            }
            for row in row..rows {
                sums[row * b.columns + column] += dot(simd, factors_of(row), line);
            }
        }
    }
}

/// The rows of `b` lie densely: each adds its multiple to the results.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn by_rows<T: Real, S: Simd>(simd: S, sums: &mut [f32], factors: &[f32], b: &Matrix) {
    let mut line = [0f32; BLOCK];
    for left in (0..b.columns).step_by(BLOCK) {
        let len = BLOCK.min(b.columns - left);
        for term in 0..b.rows {
            // SAFETY: the elements lie inside `b`, one after the other.
            let from = unsafe { std::slice::from_raw_parts(b.at::<T>(term, left), len) };
            let line = T::as_f32s(from, &mut line);
            let of_rows = factors.chunks_exact(b.rows).zip(sums.chunks_exact_mut(b.columns));
            for (factors, sums) in of_rows {
                add_multiple(simd, &mut sums[left..left + len], factors[term], line);
            }
        }
    }
}

/// `sums += factor · line`.
#[inline(always)]
fn add_multiple<S: Simd>(simd: S, sums: &mut [f32], factor: f32, line: &[f32]) {
    let (sums, sums_rest) = S::as_mut_simd_f32s(sums);
    let (line, line_rest) = S::as_simd_f32s(line);
    let factors = simd.splat_f32s(factor);
    for (sum, value) in sums.iter_mut().zip(line) {
        *sum = simd.mul_add_f32s(factors, *value, *sum);
    }
    for (sum, value) in sums_rest.iter_mut().zip(line_rest) {
        *sum += factor * value;
    }
}

/// The scalar product of lines of equal length. Four sums side by side, so that additions need
/// not wait for each other.
#[inline(always)]
pub(in crate::device::host::graph) fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = S::as_simd_f32s(a);
    let (b, b_rest) = S::as_simd_f32s(b);
    let (a_fours, a_ones) = a.as_chunks::<4>();
    let (b_fours, b_ones) = b.as_chunks::<4>();
    let zero = simd.splat_f32s(0.0);
    // Variables and not an array: those stay in registers.
    let (mut s0, mut s1, mut s2, mut s3) = (zero, zero, zero, zero);
    for (a, b) in a_fours.iter().zip(b_fours) {
        s0 = simd.mul_add_f32s(a[0], b[0], s0);
        s1 = simd.mul_add_f32s(a[1], b[1], s1);
        s2 = simd.mul_add_f32s(a[2], b[2], s2);
        s3 = simd.mul_add_f32s(a[3], b[3], s3);
    }
    for (a, b) in a_ones.iter().zip(b_ones) {
        s0 = simd.mul_add_f32s(*a, *b, s0);
    }
    let sum = simd.add_f32s(simd.add_f32s(s0, s1), simd.add_f32s(s2, s3));
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    simd.reduce_sum_f32s(sum) + rest
}

/// The scalar products of several lines with one.
#[inline(always)]
pub(in crate::device::host::graph) fn dot_together<S: Simd>(
    simd: S,
    a: [&[f32]; TOGETHER],
    b: &[f32],
) -> [f32; TOGETHER] {
    let (b_vectors, b_rest) = S::as_simd_f32s(b);
    let [a0, a1, a2, a3] = a.map(|a| &S::as_simd_f32s(a).0[..b_vectors.len()]);
    let zero = simd.splat_f32s(0.0);
    let (mut s0, mut s1, mut s2, mut s3) = (zero, zero, zero, zero);
    for (i, b) in b_vectors.iter().enumerate() {
        s0 = simd.mul_add_f32s(a0[i], *b, s0);
        s1 = simd.mul_add_f32s(a1[i], *b, s1);
        s2 = simd.mul_add_f32s(a2[i], *b, s2);
        s3 = simd.mul_add_f32s(a3[i], *b, s3);
    }
    let rest = b.len() - b_rest.len();
    let mut products = [s0, s1, s2, s3].map(|sum| simd.reduce_sum_f32s(sum));
    for (product, a) in products.iter_mut().zip(a) {
        *product += a[rest..].iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>();
    }
    products
}
