//! Layer normalisation of rows that fit into a threadgroup.

use anyhow::{Result, ensure};

use super::floats;
use super::reductions::Rows;
use crate::bench::Bench;
use crate::table::Row;

const ROWS: i64 = 4096;
const SIZE: i64 = 1024;

/// What AOTInductor (torch 2.13.0) makes of `layer_norm` for these sizes, after its helpers.
const KERNEL: &str = r"
[[max_total_threads_per_threadgroup(1024)]]
kernel void generated_kernel(
    device float* out_ptr2,
    constant float* in_ptr0,
    constant float* in_ptr1,
    constant float* in_ptr2,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int r0_1 = r0_index;
    int x0 = xindex;
    threadgroup float tmp_acc_0[1024];
    auto tmp0 = in_ptr0[r0_1 + 1024*x0];
    tmp_acc_0[r0_index * 1] = tmp0;
    auto tmp1 = c10::metal::threadgroup_welford_reduce(tmp_acc_0, 1024);
    auto tmp9 = in_ptr1[r0_1];
    auto tmp11 = in_ptr2[r0_1];
    auto tmp2 = tmp0 - tmp1.x;
    auto tmp3 = 1024.0;
    auto tmp4 = tmp1.y / tmp3;
    auto tmp5 = 1e-05;
    auto tmp6 = tmp4 + tmp5;
    auto tmp7 = metal::precise::rsqrt(tmp6);
    auto tmp8 = tmp2 * tmp7;
    auto tmp10 = tmp8 * tmp9;
    auto tmp12 = tmp10 + tmp11;
    out_ptr2[r0_1 + 1024*x0] = static_cast<float>(tmp12);
}";

pub fn measure(bench: &mut Bench) -> Result<Row> {
    let (x, out) = (bench.filled(&[ROWS, SIZE])?, bench.filled(&[ROWS, SIZE])?);
    let (weight, bias) = (bench.filled(&[SIZE])?, bench.filled(&[SIZE])?);
    let rows = Rows::new(bench, KERNEL, [ROWS, SIZE], &[&out, &x, &weight, &bias])?;
    rows.run()?;
    check(floats(&x), floats(&out), floats(&weight), floats(&bias))?;
    let threads = bench.threads();
    let (ours, (peer, name)) = bench.race_peer(threads, "layernorm", || rows.run())?;
    Ok(Row::of_times("layernorm 4096x1024", ours, (peer, &name), 0.0))
}

/// Compares the first row with one computed plainly.
fn check(x: &[f32], out: &[f32], weight: &[f32], bias: &[f32]) -> Result<()> {
    let row: Vec<f64> = x[..SIZE as usize].iter().map(|&v| v.into()).collect();
    let mean = row.iter().sum::<f64>() / SIZE as f64;
    let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / SIZE as f64;
    for (i, value) in row.iter().enumerate() {
        let normal = (value - mean) / (variance + 1e-5).sqrt();
        let expected = normal * f64::from(weight[i]) + f64::from(bias[i]);
        let actual = f64::from(out[i]);
        ensure!((actual - expected).abs() < 1e-3, "layernorm[{i}] is {actual}, not {expected}");
    }
    Ok(())
}
