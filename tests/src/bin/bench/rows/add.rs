//! `c = a + b` over 64 MiB each, in bytes read and written per second, against `memcpy` of as
//! many, on one thread (a copy by several threads is no faster than the memory).

use anyhow::Result;
use etmetal::kernel::Arguments;
use etmetal::library::Library;

use crate::bench::Bench;
use crate::table::Row;

/// What AOTInductor makes of `a + b`.
pub const KERNEL: &str = r"
#include <metal_stdlib>
kernel void generated_kernel(
    device float* out_ptr0, constant float* in_ptr0, constant float* in_ptr1,
    uint xindex [[thread_position_in_grid]]
) {
    out_ptr0[xindex] = in_ptr0[xindex] + in_ptr1[xindex];
}";

pub fn measure(bench: &mut Bench, threads: usize) -> Result<Row> {
    let count = 16 << 20;
    let stream = bench.stream()?;
    let kernel = Library::compile(&bench.device(), "bench", KERNEL)?.kernel("generated_kernel")?;
    let tensors = [bench.filled(&[count])?, bench.filled(&[count])?, bench.filled(&[count])?];
    let mut arguments = Arguments::new();
    for (i, tensor) in tensors.iter().enumerate() {
        arguments.tensor(i, tensor)?;
    }
    let grid = kernel.grid_1d(count as u64, None)?;
    let bytes = count as usize * 4;
    let (ours, peer) = bench.race(
        threads,
        || {
            stream.dispatch(&kernel, &arguments, grid)?;
            Ok(stream.commit_and_wait()?)
        },
        || {
            let (from, to) = (tensors[1].as_ptr(), tensors[0].as_ptr());
            // SAFETY: both tensors have `bytes` bytes, are distinct, and no work uses them.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
            std::hint::black_box(to);
            Ok(())
        },
    )?;
    let rate = |bytes: usize, time: std::time::Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    let (ours, peer) = (rate(3 * bytes, ours), rate(2 * bytes, peer));
    Ok(Row {
        what: format!("add 16M f32, {threads} thread(s)"),
        ours: format!("{ours:.1} GB/s"),
        peer: format!("memcpy {peer:.1} GB/s"),
        ratio: ours / peer,
        target: 0.9,
    })
}
