//! Attention of 8 heads of 64: of a prompt to itself, and of one token to a long cache.

use anyhow::Result;
use etmetal::ops::attention::{self, Inputs};

use crate::bench::Bench;
use crate::table::Row;

const HEADS: i64 = 8;
const HEAD: i64 = 64;

/// The sizes of one row.
#[derive(Clone, Copy)]
pub struct Shape {
    case: &'static str,
    what: &'static str,
    queries: i64,
    keys: i64,
}

/// A prompt of 512 tokens.
pub const PREFILL: Shape = Shape {
    case: "attention_prefill",
    what: "attention prefill 1x8x512x64",
    queries: 512,
    keys: 512,
};

/// One token and 2048 keys.
pub const DECODE: Shape = Shape {
    case: "attention_decode",
    what: "attention decode 1x8x1x64, 2048 keys",
    queries: 1,
    keys: 2048,
};

pub fn measure(bench: &mut Bench, shape: Shape) -> Result<Row> {
    let stream = bench.stream()?;
    let query = bench.filled(&[1, HEADS, shape.queries, HEAD])?;
    let key = bench.filled(&[1, HEADS, shape.keys, HEAD])?;
    let value = bench.filled(&[1, HEADS, shape.keys, HEAD])?;
    let inputs =
        Inputs { query: &query, key: &key, value: &value, mask: None, causal: false, scale: None };
    let threads = bench.threads();
    let (ours, (peer, name)) = bench.race_peer(threads, shape.case, || {
        attention::attention(&stream, &inputs)?;
        Ok(stream.commit_and_wait()?)
    })?;
    let flops = (4 * HEADS * shape.queries * shape.keys * HEAD) as f64 / 1e9;
    Ok(Row::of_rates(shape.what, (flops, "GFLOP/s"), ours, (peer, &name), 0.5))
}
