//! How the work of a product is shared out.

use std::ops::Range;

use super::matrix::Matrix;
use crate::device::host::threads::Threads;
use crate::tensor::DType;

/// Rows and columns of a tile of half types or integers, at most: what is packed for it stays
/// small against the cache, and is used often enough to be worth packing.
const TILE_ROWS: usize = 256;
const TILE_COLUMNS: usize = 256;

/// Multiplications below which waking a sleeping thread, or using one that is awake, costs more
/// than it saves.
pub(in super::super) const WORK_FOR_SLEEPING: usize = 1 << 20;
pub(in super::super) const WORK_FOR_AWAKE: usize = 1 << 17;

/// Multiplications of a tile of `gemm` from which packing both operands anew for each of more
/// tiles costs little, and several tiles for each thread even out what else the cores do.
const WORK_TO_SHARE: usize = 1 << 27;
const TILES_OF_THREAD: usize = 4;

/// What reading or writing an element costs, in multiplications: a product with a vector is all
/// memory traffic.
const COST_OF_ELEMENT: usize = 8;

/// How the result is cut up.
#[derive(Debug)]
pub struct Tiles {
    batches: usize,
    rows: usize,
    columns: usize,
    tile_rows: usize,
    tile_columns: usize,
    /// Tiles that one thread takes at once.
    pub chunk: usize,
}

impl Tiles {
    /// Cuts up the results of `batches` products of `terms` terms that have the size of `out`.
    pub fn new(
        dtype: DType,
        batches: usize,
        out: &Matrix,
        terms: usize,
        threads: &Threads,
    ) -> Tiles {
        let (rows, columns) = (out.rows, out.columns);
        let least = if threads.is_warm() { WORK_FOR_AWAKE } else { WORK_FOR_SLEEPING };
        let work = batches.saturating_mul(cost(rows, columns, terms));
        let shares = work.div_ceil(least).min(threads.count());
        let (tile_rows, tile_columns) = if dtype == DType::F32 {
            let most = work / WORK_TO_SHARE;
            let shares = if shares > 1 { most.clamp(shares, shares * TILES_OF_THREAD) } else { 1 };
            tiles_for_gemm(rows, columns, shares.div_ceil(batches))
        } else {
            let across = columns.div_ceil(shares).next_multiple_of(16);
            (TILE_ROWS.min(rows), TILE_COLUMNS.min(across).min(columns))
        };
        let chunk = least.div_ceil(cost(tile_rows, tile_columns, terms));
        Tiles { batches, rows, columns, tile_rows, tile_columns, chunk }
    }

    fn across(&self) -> usize {
        self.columns.div_ceil(self.tile_columns)
    }

    fn down(&self) -> usize {
        self.rows.div_ceil(self.tile_rows)
    }

    /// Number of tiles.
    pub fn total(&self) -> usize {
        self.batches * self.across() * self.down()
    }

    /// Matrix of the batch, rows and columns of a tile.
    pub fn tile(&self, index: usize) -> (usize, Range<usize>, Range<usize>) {
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

/// The cost of a product, in multiplications.
fn cost(rows: usize, columns: usize, terms: usize) -> usize {
    let elements = rows.saturating_mul(columns) + terms.saturating_mul(rows + columns);
    let work = rows.saturating_mul(columns).saturating_mul(terms);
    work.saturating_add(elements.saturating_mul(COST_OF_ELEMENT)).max(1)
}

/// Tiles for `gemm`, which packs both operands anew for each: as few as make `wanted`.
fn tiles_for_gemm(rows: usize, columns: usize, wanted: usize) -> (usize, usize) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: usize, columns: usize) -> Matrix {
        Matrix {
            start: std::ptr::null_mut(),
            element: 4,
            rows,
            columns,
            row_stride: columns as isize,
            column_stride: 1,
        }
    }

    #[test]
    fn tiles_cover_the_result_once() {
        let threads = Threads::new(3);
        for dtype in [DType::F32, DType::Bf16, DType::I8] {
            for (batches, rows, columns) in [(1, 1, 1), (2, 300, 1), (1, 1, 700), (3, 270, 520)] {
                for terms in [0, 1, 4096] {
                    let out = matrix(rows, columns);
                    let tiles = Tiles::new(dtype, batches, &out, terms, &threads);
                    let mut seen = vec![0; batches * rows * columns];
                    for index in 0..tiles.total() {
                        let (batch, rows_, columns_) = tiles.tile(index);
                        for row in rows_ {
                            for column in columns_.clone() {
                                seen[(batch * rows + row) * columns + column] += 1;
                            }
                        }
                    }
                    assert!(seen.iter().all(|&n| n == 1), "{dtype} {batches} {rows} {columns}");
                }
            }
        }
    }

    #[test]
    fn small_products_stay_on_one_thread_and_large_ones_do_not() {
        let threads = Threads::new(4);
        let tiles = |rows, columns, terms| {
            let tiles = Tiles::new(DType::F32, 1, &matrix(rows, columns), terms, &threads);
            tiles.total().div_ceil(tiles.chunk)
        };
        assert_eq!(tiles(8, 64, 64), 1);
        assert_eq!(tiles(512, 512, 512), 4);
        assert_eq!(tiles(1024, 1024, 1024), 8, "several for each thread");
        assert_eq!(tiles(1, 2048, 2048), 4, "a product with a vector is shared out by columns");
    }
}
