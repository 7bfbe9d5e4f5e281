//! Softmax along rows that are longer than a threadgroup.

use anyhow::{Result, ensure};

use super::floats;
use super::reductions::Rows;
use crate::bench::Bench;
use crate::table::Row;

const ROWS: i64 = 2048;
const SIZE: i64 = 2048;

/// What AOTInductor (torch 2.13.0) makes of `x.softmax(-1)` for these sizes, after its helpers.
const KERNEL: &str = r"
[[max_total_threads_per_threadgroup(1024)]]
kernel void generated_kernel(
    device float* out_ptr2,
    constant float* in_ptr0,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]
) {
    auto xindex = thread_pos.x;
    auto r0_index = thread_pos.y;
    int x0 = xindex;
    threadgroup float tmp_acc_0[32];
    float tmp_acc_1 = ::c10::metal::MaxOp<float>::identity();
    threadgroup float tmp_acc_2[32];
    float tmp_acc_3 = 0;
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp0 = in_ptr0[r0_1 + 2048*x0];
        tmp_acc_1 = ::c10::metal::max(tmp_acc_1, static_cast<float>(tmp0));
    }
    auto tmp1 = c10::metal::threadgroup_max(tmp_acc_0, tmp_acc_1, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp2 = in_ptr0[r0_1 + 2048*x0];
        auto tmp3 = tmp2 - tmp1;
        auto tmp4 = metal::precise::exp(tmp3);
        tmp_acc_3 += tmp4;
    }
    auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_2, tmp_acc_3, r0_index * 1, 1024);
    for(auto r0__cnt = 0; r0__cnt < 2; ++r0__cnt) {
        int r0__linear_idx = 2 * r0_index + r0__cnt;
        int r0_1 = r0__linear_idx;
        auto tmp6 = in_ptr0[r0_1 + 2048*x0];
        auto tmp7 = tmp6 - tmp1;
        auto tmp8 = metal::precise::exp(tmp7);
        auto tmp9 = tmp8 / tmp5;
        out_ptr2[r0_1 + 2048*x0] = static_cast<float>(tmp9);
    }
}";

pub fn measure(bench: &mut Bench) -> Result<Row> {
    let (x, out) = (bench.filled(&[ROWS, SIZE])?, bench.filled(&[ROWS, SIZE])?);
    let rows = Rows::new(bench, KERNEL, [ROWS, SIZE], &[&out, &x])?;
    rows.run()?;
    for row in floats(&out).chunks_exact(SIZE as usize) {
        let sum: f32 = row.iter().sum();
        ensure!((sum - 1.0).abs() < 1e-3, "a row of the softmax has the sum {sum}");
    }
    let threads = bench.threads();
    let (ours, (peer, name)) = bench.race_peer(threads, "softmax_rows", || rows.run())?;
    Ok(Row::of_times("softmax 2048x2048", ours, (peer, &name), 0.0))
}
