//! A convolution with 3 x 3 taps, as in the middle of a ResNet.

use anyhow::Result;
use etmetal::ops::{self, Convolution};

use crate::bench::Bench;
use crate::table::Row;

const CHANNELS: i64 = 64;
const SIZE: i64 = 56;

/// How channels meet.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Each with each.
    Full,
    /// Each with itself.
    Depthwise,
}

pub fn measure(bench: &mut Bench, kind: Kind) -> Result<Row> {
    let (case, groups, what, target) = match kind {
        Kind::Full => ("conv", 1, "conv2d 3x3 64->64 at 56x56", 0.8),
        Kind::Depthwise => ("depthwise", CHANNELS, "conv2d 3x3 depthwise 64 at 56x56", 0.8),
    };
    let stream = bench.stream()?;
    let input = bench.filled(&[1, CHANNELS, SIZE, SIZE])?;
    let weight = bench.filled(&[CHANNELS, CHANNELS / groups, 3, 3])?;
    let parameters = Convolution {
        stride: &[1, 1],
        padding: &[1, 1],
        dilation: &[1, 1],
        output_padding: &[0, 0],
        transposed: false,
        groups,
    };
    let threads = bench.threads();
    let (ours, (peer, name)) = bench.race_peer(threads, case, || {
        ops::convolution(&stream, &input, &weight, None, parameters)?;
        Ok(stream.commit_and_wait()?)
    })?;
    let terms = CHANNELS * SIZE * SIZE * CHANNELS / groups * 9;
    let flops = 2.0 * terms as f64 / 1e9;
    Ok(Row::of_rates(what, (flops, "GFLOP/s"), ours, (peer, &name), target))
}
