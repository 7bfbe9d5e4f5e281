//! Products with quantised weights on the host.
//!
//! The weights are used as they lie. For a few rows of activations - a model that generates
//! tokens - a line of weights is dequantised in the first level cache and used by all rows at
//! once: the packed weights are all that is read from memory. For many rows blocks of weights are
//! dequantised for `gemm`. Everything is computed in float32 and rounded once, but for the weights
//! of `gather_qmv`, which its definition rounds to their scales' dtype.

mod product;
mod rows;
mod unpack;

use std::sync::Arc;

use half::{bf16, f16};

use self::product::{Product, tile};
use self::rows::Rows;
use self::unpack::Weights;
use super::floats::Address;
use super::matmul::half::Real;
use super::{HostExecutable, Lowered};
use crate::Result;
use crate::device::host::threads::Threads;
use crate::device::{Executable, Operand};
use crate::error::err;
use crate::graph::{GraphKey, GraphOp, StrideClass};
use crate::tensor::DType;

/// Lowers [`GraphOp::LinearNbit`] and [`GraphOp::GatherQmv`].
///
/// # Errors
/// A dtype or a width has no product, or an operand is not contiguous.
pub fn lower(key: &GraphKey) -> Result<Arc<dyn Executable>> {
    let (bits, group_size, rounded) = match key.op {
        GraphOp::LinearNbit { bits, group_size } => (bits, group_size, false),
        GraphOp::GatherQmv { group_size } => (4, group_size, true),
        _ => return Err(err!(Internal, "{} has no quantised weights", key.op)),
    };
    if key.operands.iter().any(|operand| operand.strides != StrideClass::Contiguous) {
        return Err(err!(Internal, "{}: an operand is not contiguous", key.op));
    }
    let dtype = key.operands[0].dtype;
    let tile = match dtype {
        DType::F32 => tile_of_width::<f32>(bits),
        DType::F16 => tile_of_width::<f16>(bits),
        DType::Bf16 => tile_of_width::<bf16>(bits),
        _ => None,
    };
    let tile = tile.ok_or_else(|| {
        err!(Unsupported, "{} is not defined for {dtype} and {bits} bits", key.op)
    })?;
    let group_size = usize::try_from(group_size).unwrap_or(usize::MAX);
    Ok(Lowered::new(key.clone(), Quantized { bits: bits.into(), group_size, rounded, tile }))
}

/// Computes one tile of a [`Product`].
type TileFn = unsafe fn(&Product, &product::Tile);

fn tile_of_width<T: Real>(bits: u8) -> Option<TileFn> {
    Some(match bits {
        1 => tile::<T, 1>,
        2 => tile::<T, 2>,
        3 => tile::<T, 3>,
        4 => tile::<T, 4>,
        5 => tile::<T, 5>,
        6 => tile::<T, 6>,
        7 => tile::<T, 7>,
        _ => return None,
    })
}

#[derive(Debug)]
struct Quantized {
    bits: usize,
    group_size: usize,
    rounded: bool,
    tile: TileFn,
}

impl HostExecutable for Quantized {
    fn run(&self, operands: &[Operand], threads: &Threads) -> Result<()> {
        let [out, a, weights, scales, zeros, experts @ ..] = operands else {
            unreachable!("checked against the key")
        };
        let lead = weights.sizes.len() - 2;
        let rows = Rows::new(a, experts.first(), weights.sizes[0])?;
        let product = Product {
            out: Address::of(out),
            activations: rows.activations(a),
            terms: a.sizes[1] as usize,
            weights: Weights {
                bytes: Address::of(weights),
                scales: Address::of(scales),
                zeros: Address::of(zeros),
                rows: weights.sizes[lead] as usize,
                row_bytes: weights.sizes[lead + 1] as usize,
                row_groups: scales.sizes[lead + 1] as usize,
                group_size: self.group_size,
                rounded: self.rounded,
            },
            rows,
        };
        debug_assert_eq!(product.terms * self.bits, product.weights.row_bytes * 8);
        let tiles = product.tiles();
        threads.run(tiles.len() as u64, 1, &|range| {
            for tile in &tiles[range.start as usize..range.end as usize] {
                // SAFETY: the operands were checked against the key, whose sizes the operator
                // has checked against each other; tiles share no element of the result.
                unsafe { (self.tile)(&product, tile) };
            }
        })
    }
}
