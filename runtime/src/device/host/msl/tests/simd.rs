//! SIMD-group and quad-group functions against a scalar reference.

#![allow(clippy::needless_range_loop, reason = "a thread indexes several arrays")]

use super::*;

/// Threads of the test group: one full SIMD group and one of 8 lanes.
const THREADS: usize = 40;

/// Runs an expression of `v` (a value per thread) and `lane` on a group of [`THREADS`].
///
/// All expressions go into one kernel, each with an output row of its own.
fn run_rows(ty: &str, expressions: &[&str], values: &mut [i32]) -> Vec<Vec<i32>> {
    let rows: String = expressions
        .iter()
        .enumerate()
        .map(|(row, e)| format!("out[{} + tid] = int({e});\n", row * THREADS))
        .collect();
    let source = with_header(&format!(
        "kernel void rows(device int* out, constant int* in,\n\
         uint tid [[thread_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]]) {{\n\
         const {ty} v = {ty}(in[tid]);\n{rows}}}"
    ));
    let native = kernel(&source, "rows");
    assert_eq!(native.mode, LaunchMode::Fibers);
    let mut out = vec![-1; expressions.len() * THREADS];
    let group = [u32::try_from(THREADS).unwrap(), 1, 1];
    Dispatch::new(group, group).arg(&mut out).arg(values).run(&native);
    out.chunks(THREADS).map(<[i32]>::to_vec).collect()
}

fn values() -> Vec<i32> {
    (0..THREADS).map(|i| i32::try_from((i * 7 + 3) % 23).unwrap() - 4).collect()
}

/// The values of the group of `width` lanes around a thread (fewer at the end).
fn group_of(values: &[i32], thread: usize, width: usize) -> &[i32] {
    let first = thread / width * width;
    &values[first..values.len().min(first + width)]
}

#[test]
fn reductions_and_scans() {
    let expressions = [
        "simd_sum(v)",
        "simd_product(v % 3)",
        "simd_max(v)",
        "simd_min(v)",
        "simd_and(v)",
        "simd_or(v)",
        "simd_xor(v)",
        "simd_prefix_inclusive_sum(v)",
        "simd_prefix_exclusive_sum(v)",
        "simd_prefix_inclusive_product(v % 2 + 1)",
        "simd_prefix_exclusive_product(v % 2 + 1)",
        "quad_sum(v)",
        "quad_product(v)",
        "quad_max(v)",
        "quad_min(v)",
        "quad_and(v)",
        "quad_or(v)",
        "quad_xor(v)",
        "quad_prefix_inclusive_sum(v)",
        "quad_prefix_exclusive_sum(v)",
    ];
    let mut values = values();
    let rows = run_rows("int", &expressions, &mut values);
    for thread in 0..THREADS {
        let group = group_of(&values, thread, 32);
        let quad = group_of(&values, thread, 4);
        let (lane, corner) = (thread % 32, thread % 4);
        let product =
            |g: &[i32], f: fn(i32) -> i32| g.iter().fold(1i32, |a, &x| a.wrapping_mul(f(x)));
        let expected = [
            group.iter().sum(),
            product(group, |x| x % 3),
            *group.iter().max().unwrap(),
            *group.iter().min().unwrap(),
            group.iter().fold(-1, |a, x| a & x),
            group.iter().fold(0, |a, x| a | x),
            group.iter().fold(0, |a, x| a ^ x),
            group[..=lane].iter().sum(),
            group[..lane].iter().sum(),
            product(&group[..=lane], |x| x % 2 + 1),
            product(&group[..lane], |x| x % 2 + 1),
            quad.iter().sum(),
            product(quad, |x| x),
            *quad.iter().max().unwrap(),
            *quad.iter().min().unwrap(),
            quad.iter().fold(-1, |a, x| a & x),
            quad.iter().fold(0, |a, x| a | x),
            quad.iter().fold(0, |a, x| a ^ x),
            quad[..=corner].iter().sum(),
            quad[..corner].iter().sum(),
        ];
        for (row, want) in expected.iter().enumerate() {
            assert_eq!(rows[row][thread], *want, "{} of thread {thread}", expressions[row]);
        }
    }
}

#[test]
fn shuffles_votes_and_fills() {
    // Each with the lane it reads, from the lane, the number of lanes there are, and the width.
    type Source = fn(usize, usize) -> Option<usize>;
    let shuffles: [(&str, Source); 9] = [
        ("simd_shuffle(v, ushort(lane / 2))", |l, _| Some(l / 2)),
        ("simd_broadcast(v, ushort(5))", |_, _| Some(5)),
        ("simd_broadcast_first(v)", |_, _| Some(0)),
        ("simd_shuffle_xor(v, ushort(3))", |l, _| Some(l ^ 3)),
        ("simd_shuffle_down(v, ushort(2))", |l, n| (l + 2 < n).then_some(l + 2)),
        ("simd_shuffle_up(v, ushort(3))", |l, _| l.checked_sub(3)),
        ("quad_shuffle(v, ushort(3 - lane % 4))", |l, _| Some(l / 4 * 4 + 3 - l % 4)),
        ("quad_broadcast(v, ushort(1))", |l, _| Some(l / 4 * 4 + 1)),
        ("quad_shuffle_rotate_down(v, ushort(1))", |l, _| Some(l / 4 * 4 + (l % 4 + 1) % 4)),
    ];
    let others = [
        "simd_shuffle_and_fill_down(v, 100, ushort(4))",
        "simd_shuffle_and_fill_up(v, 100 + v, ushort(4))",
        "simd_shuffle_and_fill_down(v, 100 + v, ushort(3), ushort(8))",
        "simd_ballot(v > 3).all() ? -1 : int(ulong(simd_ballot(v > 3)))",
        "simd_any(v == 5)",
        "simd_all(v > -5)",
        "simd_is_first()",
        "int(ulong(simd_active_threads_mask()))",
        "int(uint(quad_ballot(v > 3)))",
        "quad_any(v == 5)",
        "quad_all(v > 0)",
        "as_type<float>(simd_shuffle(float4(v, 1, 2, v), ushort(1)).w) == float(simd_shuffle(v, ushort(1)))",
        "simd_shuffle_and_fill_down(int4(v, 0, 0, 7), int4(9), ushort(1)).w",
    ];
    let all: Vec<&str> = shuffles.iter().map(|s| s.0).chain(others).collect();
    let mut values = values();
    let rows = run_rows("int", &all, &mut values);
    for thread in 0..THREADS {
        let group = group_of(&values, thread, 32);
        let (lane, n) = (thread % 32, group.len());
        for (row, (text, source)) in shuffles.iter().enumerate() {
            // Without a source lane Metal leaves the result open.
            if let Some(from) = source(lane, n).filter(|&from| from < n) {
                assert_eq!(rows[row][thread], group[from], "{text} of thread {thread}");
            }
        }
        let row = |i: usize| rows[shuffles.len() + i][thread];
        let full = n == 32;
        if full || lane + 4 < n {
            assert_eq!(row(0), if lane + 4 < 32 { group[lane + 4] } else { 100 });
            if lane >= 4 {
                assert_eq!(row(1), group[lane - 4]);
            } else if full {
                assert_eq!(row(1), 100 + group[28 + lane]);
            }
        }
        let unit = lane / 8 * 8;
        let from = lane - unit + 3;
        let filled = if from < 8 { group[unit + from] } else { 100 + group[unit + from - 8] };
        assert_eq!(row(2), filled, "unit of 8, thread {thread}");
        let votes = |g: &[i32], f: fn(i32) -> bool| {
            g.iter().enumerate().fold(0u32, |a, (i, &x)| a | u32::from(f(x)) << i)
        };
        assert_eq!(row(3).cast_unsigned(), votes(group, |x| x > 3));
        assert_eq!(row(4) != 0, group.contains(&5));
        assert_eq!(row(5) != 0, group.iter().all(|&x| x > -5));
        assert_eq!(row(6) != 0, lane == 0);
        assert_eq!(row(7).cast_unsigned(), if full { !0 } else { 0xff });
        let quad = group_of(&values, thread, 4);
        assert_eq!(row(8).cast_unsigned(), votes(quad, |x| x > 3));
        assert_eq!(row(9) != 0, quad.contains(&5));
        assert_eq!(row(10) != 0, quad.iter().all(|&x| x > 0));
        assert_eq!(row(11), 1, "a float4 travels whole");
        if lane + 1 < n {
            assert_eq!(row(12), 7);
        } else if full {
            assert_eq!(row(12), 9);
        }
    }
}

#[test]
fn divergent_lanes_meet_only_their_own() {
    let source = with_header(
        "kernel void f(device int* out, uint tid [[thread_index_in_threadgroup]]) {\n\
           if (tid == 37) return;\n\
           int r;\n\
           if (tid % 2) {\n\
             r = simd_sum(1);\n\
           } else {\n\
             r = simd_sum(100);\n\
           }\n\
           threadgroup_barrier(mem_flags::mem_none);\n\
           for (uint i = 0; i < tid % 4; i++) r += 1000 * simd_sum(1);\n\
           r += 1000000 * simd_sum(1);\n\
           out[tid] = r;\n\
         }",
    );
    let native = kernel(&source, "f");
    let mut out = vec![0; THREADS];
    Dispatch::new([40, 1, 1], [40, 1, 1]).arg(&mut out).run(&native);
    for group in [0..32, 32..40usize] {
        let lanes: Vec<usize> = group.filter(|&t| t != 37).collect();
        for &t in &lanes {
            let same = lanes.iter().filter(|&&l| l % 2 == t % 2).count();
            let mut want = i32::try_from(same).unwrap() * if t % 2 == 1 { 1 } else { 100 };
            for i in 0..t % 4 {
                let still_looping = lanes.iter().filter(|&&l| l % 4 > i).count();
                want += 1000 * i32::try_from(still_looping).unwrap();
            }
            want += 1_000_000 * i32::try_from(lanes.len()).unwrap();
            assert_eq!(out[t], want, "thread {t}");
        }
    }
    assert_eq!(out[37], 0);
}

#[test]
fn sums_of_other_types() {
    let source = with_header(
        "kernel void f(device float* out, uint tid [[thread_index_in_threadgroup]]) {\n\
           float f = simd_sum(0.5 + float(tid));\n\
           half h = simd_max(half(tid) * 0.25h);\n\
           float2 v = simd_sum(float2(tid, 1.0));\n\
           float nan = simd_max(tid == 3 ? NAN : float(tid));\n\
           bool b = simd_any(tid == 7);\n\
           simdgroup_barrier(mem_flags::mem_threadgroup);\n\
           uint u = simd_shuffle_xor(uint(tid), ushort(1));\n\
           if (tid == 0) { out[0] = f; out[1] = h; out[2] = v.x; out[3] = v.y; out[4] = nan;\n\
             out[5] = b; out[6] = u; }\n\
         }",
    );
    let mut out = [0.0f32; 7];
    Dispatch::new([32, 1, 1], [32, 1, 1]).arg(&mut out).run(&kernel(&source, "f"));
    assert_eq!(out, [512.0, 7.75, 496.0, 32.0, 31.0, 1.0, 1.0]);
}

#[test]
fn a_group_of_1024_threads_waits_often() {
    // A ring: each thread passes its value on, 50 times, through threadgroup memory.
    let source = with_header(
        "kernel void ring(device uint* out, uint tid [[thread_position_in_threadgroup]],\n\
           uint group [[threadgroup_position_in_grid]], uint n [[threads_per_threadgroup]]) {\n\
           threadgroup uint slots[1024];\n\
           uint v = tid + group;\n\
           for (int i = 0; i < 50; i++) {\n\
             slots[(tid + 1) % n] = v;\n\
             threadgroup_barrier(mem_flags::mem_threadgroup);\n\
             v = slots[tid] + (simd_is_first() ? 1u : 0u) * 0u;\n\
             threadgroup_barrier(mem_flags::mem_threadgroup);\n\
           }\n\
           out[group * n + tid] = v;\n\
         }",
    );
    let native = kernel(&source, "ring");
    let mut out = vec![0u32; 3 * 1024];
    Dispatch::new([3 * 1024, 1, 1], [1024, 1, 1]).arg(&mut out).run(&native);
    for (i, v) in out.iter().enumerate() {
        let (group, tid) = (i / 1024, i % 1024);
        assert_eq!(*v as usize, (tid + 1024 - 50) % 1024 + group);
    }
}
