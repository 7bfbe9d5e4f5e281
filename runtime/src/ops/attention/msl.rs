//! Attention by the kernels of `msl/attention.metal`.

use bytemuck::NoUninit;

use super::Operands;
use crate::Result;
use crate::error::err;
use crate::kernel::{Arguments, Kernel};
use crate::ops::own_kernels::{self, ATTENTION};
use crate::stream::Stream;
use crate::tensor::{DType, Layout, Tensor};

/// Queries up to which each has a threadgroup of its own.
const DECODE_QUERIES: u32 = 8;
/// Threads of a threadgroup, and columns of the result that it computes: as the kernels say.
const DECODE: (u64, u64) = (256, 256);
const PREFILL: (u64, u64) = (128, 64);
/// Queries of a threadgroup of the other kernel.
const TILE: u64 = 32;

/// `Strides` of the kernels.
#[derive(Debug, Clone, Copy, Default, NoUninit)]
#[repr(C)]
struct Strides {
    batch: u64,
    head: u64,
    row: u64,
    column: u64,
}

/// `Params` of the kernels.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
struct Params {
    query: Strides,
    key: Strides,
    value: Strides,
    mask: Strides,
    batches: u32,
    heads: u32,
    key_heads: u32,
    value_heads: u32,
    queries: u32,
    keys: u32,
    size: u32,
    value_size: u32,
    causal: u32,
    mask_kind: u32,
    wants_stats: u32,
    scale: f32,
}

/// Encodes the kernels.
///
/// # Errors
/// A size exceeds 32 bits; the device refuses the kernels.
pub fn encode(stream: &Stream, operands: &Operands) -> Result<()> {
    let params = Params::new(operands)?;
    let Operands { out, query, key, value, weights, mask, .. } = operands;
    let rows = [params.batches, params.heads, params.queries].map(i64::from);
    let stats = match weights {
        // A maximum and a total for each row.
        Some(_) => {
            let layout = Layout::contiguous(&[rows[0], rows[1], rows[2], 2])?;
            Some(Tensor::empty(stream.device(), DType::F32, layout)?)
        }
        None => None,
    };
    // Where there is no mask or no place for maxima the kernels look at none, but something has
    // to be bound.
    let (any_mask, any_stats) = (mask.as_ref().unwrap_or(query), stats.as_ref().unwrap_or(out));
    let mut arguments = Arguments::new();
    for (index, tensor) in [out, query, key, value, any_mask, any_stats].into_iter().enumerate() {
        arguments.tensor(index, tensor)?;
    }
    arguments.bytes(6, bytemuck::bytes_of(&params))?;
    let decode = params.queries <= DECODE_QUERIES;
    let base = if decode { "attention_decode" } else { "attention_prefill" };
    let kernel = own_kernels::kernel(stream, &ATTENTION, base, query.dtype())?;
    let (threads, columns) = if decode { DECODE } else { PREFILL };
    let across =
        if decode { u64::from(params.queries) } else { u64::from(params.queries).div_ceil(TILE) };
    let chunks = u64::from(params.value_size).div_ceil(columns).max(1);
    let groups = [across, params.heads.into(), u64::from(params.batches) * chunks];
    stream.dispatch(&kernel, &arguments, kernel.grid_of_groups(&groups, &[threads, 1, 1])?)?;
    let Some(weights) = weights.as_ref().filter(|weights| weights.numel() != 0) else {
        return Ok(());
    };
    arguments.tensor(0, weights)?;
    let kernel: Kernel =
        own_kernels::kernel(stream, &ATTENTION, "attention_weights", query.dtype())?;
    let heads = u64::from(params.batches) * u64::from(params.heads);
    let grid = [params.keys.into(), params.queries.into(), heads];
    let group = [u64::from(params.keys).clamp(1, 256), 1, 1];
    stream.dispatch(&kernel, &arguments, kernel.grid(&grid, Some(&group))?)
}

impl Params {
    fn new(operands: &Operands) -> Result<Params> {
        let Operands { out, query, key, value, weights, mask, causal, scale } = operands;
        let size = |tensor: &Tensor, d: usize| {
            u32::try_from(tensor.sizes()[d]).map_err(|_| {
                err!(
                    Unsupported,
                    "attention: sizes {:?} exceed the 32 bits of the kernels",
                    tensor.sizes()
                )
            })
        };
        Ok(Params {
            query: strides(query),
            key: strides(key),
            value: strides(value),
            mask: mask.as_ref().map(strides).unwrap_or_default(),
            batches: size(query, 0)?,
            heads: size(query, 1)?,
            key_heads: size(key, 1)?,
            value_heads: size(value, 1)?,
            queries: size(query, 2)?,
            keys: size(key, 2)?,
            size: size(query, 3)?,
            value_size: size(out, 3)?,
            causal: u32::from(*causal),
            mask_kind: mask.as_ref().map_or(0, |mask| match mask.dtype() {
                DType::Bool => 1,
                DType::F32 => 2,
                DType::F16 => 3,
                _ => 4,
            }),
            wants_stats: u32::from(weights.is_some()),
            scale: *scale,
        })
    }
}

fn strides(tensor: &Tensor) -> Strides {
    let of = |d: usize| tensor.strides()[d] as u64;
    Strides { batch: of(0), head: of(1), row: of(2), column: of(3) }
}
