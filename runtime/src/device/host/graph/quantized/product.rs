//! The product, tile by tile.

use std::marker::PhantomData;
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::rows::Rows;
use super::unpack::Weights;
use crate::device::host::graph::floats::Address;
use crate::device::host::graph::matmul::float::gemm_f32;
use crate::device::host::graph::matmul::half::Real;
use crate::device::host::graph::matmul::matrix::Matrix;
use crate::device::host::graph::matmul::skinny::{TOGETHER, dot, dot_together};

/// Rows up to which each line of weights is used at once.
const FEW_ROWS: usize = 8;
/// Rows of a tile, if there are more than a few.
const TILE_ROWS: usize = 128;
/// Columns of a tile of many rows.
const TILE_COLUMNS: usize = 64;
/// Weights that a tile of a few rows unpacks, at least: some 20 us of work.
const TILE_WEIGHTS: usize = 1 << 17;
/// Terms that are dequantised at once: a line for a few rows stays in the first level cache, a
/// block for many rows in the second.
const BLOCK: usize = 512;

/// A product and its operands.
#[derive(Debug)]
pub struct Product {
    pub out: Address,
    /// The activations in the order of `rows`.
    pub activations: Vec<f32>,
    /// Terms of each sum.
    pub terms: usize,
    pub weights: Weights,
    pub rows: Rows,
}

/// A part of the result, computed by one thread.
#[derive(Debug)]
pub struct Tile {
    expert: usize,
    /// Positions in the order of the rows.
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Product {
    /// The tiles of the result.
    pub fn tiles(&self) -> Vec<Tile> {
        let mut tiles = Vec::new();
        for (expert, rows) in self.rows.parts() {
            let few = rows.len() <= FEW_ROWS;
            let columns = if few {
                TILE_WEIGHTS.div_ceil(self.terms.max(1) * rows.len().max(1))
            } else {
                TILE_COLUMNS
            };
            for first in rows.clone().step_by(TILE_ROWS) {
                let rows = first..(first + TILE_ROWS).min(rows.end);
                for left in (0..self.weights.rows).step_by(columns) {
                    let columns = left..(left + columns).min(self.weights.rows);
                    tiles.push(Tile { expert: *expert, rows: rows.clone(), columns });
                }
            }
        }
        tiles
    }

    fn activations_of(&self, position: usize) -> &[f32] {
        &self.activations[position * self.terms..][..self.terms]
    }

    /// Writes one element of the result.
    ///
    /// # Safety
    /// The result is alive, and nobody else uses the element.
    unsafe fn store(&self, position: usize, column: usize, value: f32) {
        let at = self.rows.at(position) * self.weights.rows + column;
        // SAFETY: the caller's promise.
        unsafe { self.out.store(at, &[value]) };
    }
}

/// Computes one tile of a product of `T`, with weights of `BITS` bits.
///
/// # Safety
/// The operands are alive and have the sizes that the product says, scales and zeros are of type
/// `T`, and nobody else uses the tile's part of the result.
pub unsafe fn tile<T: Real, const BITS: usize>(product: &Product, tile: &Tile) {
    let element = PhantomData::<T>;
    // Chooses the vector instructions of this processor.
    if tile.rows.len() <= FEW_ROWS {
        Arch::new().dispatch(FewRows::<T, BITS> { product, tile, element });
    } else {
        // SAFETY: the caller's promise.
        unsafe { many_rows::<T, BITS>(product, tile) };
    }
}

/// A tile of a few rows. Made by [`tile`] only, whose promise it relies on.
struct FewRows<'a, T, const BITS: usize> {
    product: &'a Product,
    tile: &'a Tile,
    element: PhantomData<T>,
}

impl<T: Real, const BITS: usize> WithSimd for FewRows<'_, T, BITS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let FewRows { product, tile, .. } = self;
        let mut line = [0f32; BLOCK];
        for column in tile.columns.clone() {
            // SAFETY: the maker's promise.
            let weights = unsafe { product.weights.row::<T>(tile.expert, column) };
            let mut sums = [0f32; FEW_ROWS];
            for first in (0..product.terms).step_by(BLOCK) {
                let len = BLOCK.min(product.terms - first);
                weights.dequantize::<BITS>(first, &mut line[..len]);
                let of_row = |row: usize| &product.activations_of(row)[first..first + len];
                add_products(
                    simd,
                    &mut sums[..tile.rows.len()],
                    tile.rows.start,
                    of_row,
                    &line[..len],
                );
            }
            for (row, &sum) in tile.rows.clone().zip(&sums) {
                // SAFETY: the maker's promise.
                unsafe { product.store(row, column, sum) };
            }
        }
    }
}

/// Adds the scalar product of each row with `line` to its sum.
#[inline(always)]
fn add_products<'a, S: Simd>(
    simd: S,
    sums: &mut [f32],
    first_row: usize,
    of_row: impl Fn(usize) -> &'a [f32],
    line: &[f32],
) {
    let (fours, ones) = sums.as_chunks_mut::<TOGETHER>();
    let mut row = first_row;
    for sums in fours {
        let rows = std::array::from_fn(|i| of_row(row + i));
        for (sum, product) in sums.iter_mut().zip(dot_together(simd, rows, line)) {
            *sum += product;
        }
        row += TOGETHER;
    }
    for sum in ones {
        *sum += dot(simd, of_row(row), line);
        row += 1;
    }
}

/// Dequantises rows of weights, `len` terms from `first` on, each to `len` elements of `to`.
struct Dequantize<'a, T, const BITS: usize> {
    product: &'a Product,
    tile: &'a Tile,
    first: usize,
    len: usize,
    to: &'a mut [f32],
    element: PhantomData<T>,
}

impl<T: Real, const BITS: usize> WithSimd for Dequantize<'_, T, BITS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Dequantize { product, tile, first, len, to, .. } = self;
        for (column, to) in tile.columns.clone().zip(to.chunks_exact_mut(len)) {
            // SAFETY: the promise of `many_rows`, which alone makes it.
            let weights = unsafe { product.weights.row::<T>(tile.expert, column) };
            weights.dequantize::<BITS>(first, to);
        }
    }
}

/// A tile of many rows.
///
/// # Safety
/// As for [`tile`].
unsafe fn many_rows<T: Real, const BITS: usize>(product: &Product, tile: &Tile) {
    let (rows, columns) = (tile.rows.len(), tile.columns.len());
    let mut sums = vec![0f32; rows * columns];
    let mut block = vec![0f32; columns * BLOCK.min(product.terms)];
    let matrix =
        |start: *const f32, rows, columns, row_stride: usize, column_stride: usize| Matrix {
            start: start.cast_mut().cast(),
            element: size_of::<f32>(),
            rows,
            columns,
            row_stride: row_stride as isize,
            column_stride: column_stride as isize,
        };
    for first in (0..product.terms).step_by(BLOCK) {
        let len = BLOCK.min(product.terms - first);
        let to = &mut block[..columns * len];
        let element = PhantomData::<T>;
        Arch::new().dispatch(Dequantize::<T, BITS> { product, tile, first, len, to, element });
        let activations = &product.activations[tile.rows.start * product.terms + first..];
        let out = matrix(sums.as_mut_ptr(), rows, columns, columns, 1);
        let a = matrix(activations.as_ptr(), rows, len, product.terms, 1);
        let b = matrix(block.as_ptr(), len, columns, 1, len);
        // SAFETY: the matrices lie inside `sums`, `activations` and `block`.
        unsafe { gemm_f32(&out, true, &a, &b, 1.0) };
    }
    for (row, sums) in tile.rows.clone().zip(sums.chunks_exact(columns)) {
        for (column, &sum) in tile.columns.clone().zip(sums) {
            // SAFETY: the caller's promise.
            unsafe { product.store(row, column, sum) };
        }
    }
}
