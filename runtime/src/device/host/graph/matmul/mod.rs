//! Matrix products on the host.
//!
//! The result is cut into tiles that the threads share out. float32 tiles go to `gemm` as they
//! lie, whatever their strides. Half types are packed to float32 block by block, accumulate
//! there, and are rounded once. Products of a few rows have code of their own. Integers wrap in
//! their own type.

pub(super) mod float;
pub(super) mod half;
mod integer;
pub(super) mod matrix;
pub(super) mod skinny;
mod tiles;

use std::sync::Arc;

use ::half::{bf16, f16};

pub(super) use self::float::gemm_f32;
use self::float::tile_f32;
pub(super) use self::half::Packed;
pub(super) use self::half::Real;
use self::half::tile_widened;
use self::integer::tile_integer;
use self::matrix::Batch;
pub(super) use self::matrix::Matrix;
use self::tiles::Tiles;
pub(super) use self::tiles::{WORK_FOR_AWAKE, WORK_FOR_SLEEPING};
use super::{HostExecutable, Lowered};
use crate::Result;
use crate::device::host::threads::Threads;
use crate::device::{Executable, Operand};
use crate::error::err;
use crate::graph::{GraphKey, GraphOp};
use crate::tensor::DType;

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
        DType::F16 => tile_widened::<f16>,
        DType::Bf16 => tile_widened::<bf16>,
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
        threads.run(tiles.total() as u64, tiles.chunk as u64, &|range| {
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
