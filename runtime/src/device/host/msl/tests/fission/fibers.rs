//! Operations of a group in kernels that run on fibers.

use super::*;

#[test]
fn one_thread_computes_the_mean_for_all() {
    // The pointer keeps the kernel on fibers.
    let source = with_helpers(
        "kernel void k(device float3* out, constant float* in, uint t [[thread_index_in_threadgroup]]) {\n\
         threadgroup float values[1024];\n threadgroup float3 sets[1024];\n\
         constant float* p = in + t;\n values[t] = p[0];\n sets[t] = float3(p[0], 0.5, 2.0);\n\
         for (int i = 0; i < 2; i++) {\n\
         float3 a = c10::metal::threadgroup_welford_reduce(values, 1024);\n\
         float3 b = c10::metal::threadgroup_welford_combine(sets, 1024);\n\
         out[4 * t + 2 * i] = a; out[4 * t + 2 * i + 1] = b;\n\
         values[t] = values[t] + 1; sets[t].z = 4.0;\n }\n}",
    );
    let kernel = &both(&source, &["k"])[0];
    let Outcome::Refused(why) = &kernel.info.fission else { panic!("the kernel is split") };
    assert!(why.contains("not understood") || why.contains("pointer"), "{why}");
    let mut values: Vec<f32> = (0..1024u16).map(|i| f32::from(i % 37)).collect();
    let mut out = vec![[0.0f32; 4]; 4096];
    Dispatch::new([1024, 1, 1], [1024, 1, 1]).arg(&mut out).arg(&mut values).run(&kernel.loops);
    let mean = values.iter().sum::<f32>() / 1024.0;
    let spread: f32 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let expected = [
        [mean, spread, 1024.0],
        [mean, 2.0 * spread + 512.0, 2048.0],
        [mean + 1.0, spread, 1024.0],
        [mean, 4.0 * spread + 512.0, 4096.0],
    ];
    for (at, got) in out.iter().enumerate() {
        let want = expected[at % 4];
        let close = |i: usize| (got[i] - want[i]).abs() <= 1e-4 * want[i].abs();
        assert!((0..3).all(close), "thread {}, {}: {got:?} is not {want:?}", at / 4, at % 4);
    }
}

/// Reductions of the threads of a group that has a last SIMD group of some lanes, and of which some
/// threads have returned.
#[test]
fn one_thread_reduces_for_all() {
    let source = with_helpers(
        "kernel void k(device float* out, device int* places, constant float* in,\n\
         constant int* whole, uint t [[thread_index_in_threadgroup]]) {\n\
         threadgroup float values[32]; threadgroup int counts[32]; threadgroup int at[32];\n\
         threadgroup float2 pairs[32]; threadgroup bfloat halves[32];\n\
         if (t % 7 == 6) return;\n\
         constant float* p = in + t;\n\
         for (int i = 0; i < 2; i++) {\n\
         out[8 * i] = c10::metal::threadgroup_sum(values, p[i], t, 77);\n\
         out[8 * i + 1] = c10::metal::threadgroup_prod(values, p[i], t, 77);\n\
         out[8 * i + 2] = c10::metal::threadgroup_max(values, p[i], t, 77);\n\
         out[8 * i + 3] = c10::metal::threadgroup_min(values, p[i], t, 77);\n\
         float2 z = c10::metal::threadgroup_prod(pairs, float2(p[i], 0.25), t, 77);\n\
         out[8 * i + 4] = z.x; out[8 * i + 5] = z.y;\n\
         out[8 * i + 6] = c10::metal::threadgroup_max(halves, bfloat(p[i]), t, 77);\n\
         places[4 * i] = c10::metal::threadgroup_argmax(values, at, p[i], int(t), t, 77);\n\
         places[4 * i + 1] = c10::metal::threadgroup_argmin(values, at, p[i], int(t), t, 77);\n\
         places[4 * i + 2] = c10::metal::threadgroup_sum(counts, whole[t], t, 77);\n\
         }\n}",
    );
    let kernel = &both(&source, &["k"])[0];
    assert!(matches!(kernel.info.fission, Outcome::Refused(_)), "the kernel is split");
    let mut values: Vec<f32> = (0..78u16).map(|i| f32::from(i * 29 % 41) / 40.0 + 0.5).collect();
    let mut whole: Vec<i32> = (0..77).collect();
    let (mut out, mut places) = (vec![0.0f32; 16], vec![0i32; 8]);
    Dispatch::new([77, 1, 1], [77, 1, 1])
        .arg(&mut out)
        .arg(&mut places)
        .arg(&mut values)
        .arg(&mut whole)
        .run(&kernel.loops);
    for i in 0..2 {
        let there: Vec<(usize, f32)> =
            (0..77).filter(|t| t % 7 != 6).map(|t| (t, values[t + i])).collect();
        let all = || there.iter().map(|(_, v)| *v);
        let (greatest, least) = (all().fold(f32::MIN, f32::max), all().fold(f32::MAX, f32::min));
        let complex = all().fold((1.0f64, 0.0f64), |(re, im), v| {
            let v = f64::from(v);
            (re * v - im * 0.25, re * 0.25 + im * v)
        });
        let expected = [
            all().sum::<f32>(),
            all().product::<f32>(),
            greatest,
            least,
            complex.0 as f32,
            complex.1 as f32,
            half::bf16::from_f32(greatest).to_f32(),
        ];
        for (got, want) in out[8 * i..].iter().zip(expected) {
            assert!((got - want).abs() <= 1e-4 * want.abs(), "{i}: {got} is not {want}: {out:?}");
        }
        let first = |wanted: f32| there.iter().find(|(_, v)| *v == wanted).unwrap().0 as i32;
        let count: i32 = there.iter().map(|(t, _)| *t as i32).sum();
        assert_eq!(places[4 * i..4 * i + 3], [first(greatest), first(least), count]);
    }
}

/// Some threads wait in an operation of all while others are still in one of SIMD groups.
#[test]
fn values_are_safe_from_operations_of_other_lanes() {
    let source = with_helpers(
        "kernel void k(device float* out, constant float* in,\n\
         uint t [[thread_index_in_threadgroup]]) {\n\
         threadgroup float values[2];\n float4 v = float4(100, 0, 0, 0);\n\
         if (t % 2 == 1) v = metal::simd_sum(v);\n\
         constant float* p = in + t;\n\
         out[t] = c10::metal::threadgroup_sum(values, p[0], t, 64) + v.x + v.w;\n}",
    );
    let kernel = &both(&source, &["k"])[0];
    assert!(matches!(kernel.info.fission, Outcome::Refused(_)), "the kernel is split");
    let mut values: Vec<f32> = (0..64u16).map(f32::from).collect();
    let mut out = vec![0.0f32; 64];
    Dispatch::new([64, 1, 1], [64, 1, 1]).arg(&mut out).arg(&mut values).run(&kernel.loops);
    for (t, got) in out.iter().enumerate() {
        let own = if t % 2 == 1 { 1600.0 } else { 100.0 };
        assert_eq!(*got, 2016.0 + own, "thread {t}");
    }
}
