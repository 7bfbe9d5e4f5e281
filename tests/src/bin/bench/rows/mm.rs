//! A product of square matrices.

use anyhow::Result;
use etmetal::ops;

use crate::bench::Bench;
use crate::table::Row;

const N: i64 = 1024;

pub fn measure(bench: &mut Bench, threads: usize) -> Result<Row> {
    let stream = bench.stream()?;
    let [a, b, c] = [bench.filled(&[N, N])?, bench.filled(&[N, N])?, bench.filled(&[N, N])?];
    let (ours, (peer, name)) = bench.race_peer(threads, "mm", || {
        ops::mm(&stream, &c, &a, &b)?;
        Ok(stream.commit_and_wait()?)
    })?;
    let flops = 2.0 * (N * N * N) as f64 / 1e9;
    let what = format!("mm 1024^3 f32, {threads} thread(s)");
    Ok(Row::of_rates(&what, (flops, "GFLOP/s"), ours, (peer, &name), 0.8))
}
