//! A matrix of weights of 4 bits times a vector, against numpy that unpacks, scales and
//! multiplies.

use anyhow::Result;
use etmetal::ops::{self, LinearNbit};
use etmetal::tensor::{DType, Layout, Tensor};

use crate::bench::Bench;
use crate::table::Row;

const N: i64 = 4096;
const K: i64 = 4096;
const GROUP: i64 = 32;

pub fn measure(bench: &mut Bench) -> Result<Row> {
    let stream = bench.stream()?;
    let a = bench.filled(&[1, K])?;
    let b = Tensor::empty(&bench.device(), DType::U8, Layout::contiguous(&[N, K / 2])?)?;
    for i in 0..b.numel() {
        // SAFETY: the tensor has `numel` bytes and no work uses it yet.
        unsafe { *b.as_ptr().add(i) = (i % 251) as u8 };
    }
    let (s, z) = (bench.filled(&[N, K / GROUP])?, bench.filled(&[N, K / GROUP])?);
    let linear = LinearNbit { a: &a, b: &b, s: &s, z: &z, bits: 4, group_size: GROUP };
    let threads = bench.threads();
    let (ours, (peer, name)) = bench.race_peer(threads, "linear_4bit", || {
        ops::linear_nbit(&stream, linear)?;
        Ok(stream.commit_and_wait()?)
    })?;
    Ok(Row::of_times("4-bit matvec 4096x4096, groups of 32", ours, (peer, &name), 1.0))
}
