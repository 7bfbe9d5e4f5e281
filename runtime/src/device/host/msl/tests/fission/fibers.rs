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
