//! Whole shaders: compiled, run, and compared with plain Rust.

use super::harness::{Dispatch, kernel, module};
use super::*;

const HEADER: &str = "#include <metal_stdlib>\nusing namespace metal;\n";

fn with_header(body: &str) -> String {
    format!("{HEADER}{body}")
}

#[test]
fn a_plain_kernel_adds() {
    let source = with_header(
        "kernel void add(device float* out, constant float* a, constant float* b, \
         constant uint& n, uint i [[thread_position_in_grid]]) { if (i < n) out[i] = a[i] + b[i] * 2.0; }",
    );
    let native = kernel(&source, "add");
    assert_eq!(native.mode, LaunchMode::Plain);
    let mut a: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let mut b: Vec<f32> = a.iter().map(|x| x * 0.25).collect();
    let mut out = vec![0.0f32; 1000];
    Dispatch::new([1000, 1, 1], [64, 1, 1])
        .arg(&mut out)
        .arg(&mut a)
        .arg(&mut b)
        .arg(&mut [999u32])
        .run(&native);
    for i in 0..999 {
        assert_eq!(out[i], a[i] + b[i] * 2.0);
    }
    assert_eq!(out[999], 0.0);
}

#[test]
fn a_threadgroup_sums_through_barriers() {
    let source = with_header(
        "kernel void total(device float* out [[buffer(0)]], const device float* in [[buffer(1)]],\n\
         uint tid [[thread_position_in_threadgroup]], uint gid [[threadgroup_position_in_grid]],\n\
         uint n [[threads_per_threadgroup]], uint i [[thread_position_in_grid]]) {\n\
           threadgroup float partial[256];\n\
           partial[tid] = in[i];\n\
           threadgroup_barrier(mem_flags::mem_threadgroup);\n\
           for (uint s = 1; s < n; s *= 2) {\n\
             float other = tid + s < n ? partial[tid + s] : 0.0;\n\
             threadgroup_barrier(mem_flags::mem_threadgroup);\n\
             partial[tid] += other;\n\
             threadgroup_barrier(mem_flags::mem_threadgroup);\n\
           }\n\
           if (tid == 0) out[gid] = partial[0];\n\
         }",
    );
    let native = kernel(&source, "total");
    assert_eq!(native.mode, LaunchMode::Fibers);
    assert_eq!(native.static_threadgroup_memory, 1024);
    // 1000 threads in groups of 256: the last group has 232.
    let mut input: Vec<f32> = (0..1000_u16).map(|i| f32::from(i % 17)).collect();
    let mut out = vec![0.0f32; 4];
    Dispatch::new([1000, 1, 1], [256, 1, 1]).arg(&mut out).arg(&mut input).run(&native);
    for (group, sum) in out.iter().enumerate() {
        let chunk = input.chunks(256).nth(group).unwrap();
        assert_eq!(*sum, chunk.iter().sum::<f32>());
    }
}

#[test]
fn errors_name_the_line() {
    let source = with_header("kernel void f(device float* o) {\n  o[0] = 1.0 + undefined_name;\n}");
    let error = module(&source).and_then(|m| m.compile("f")).unwrap_err().to_string();
    assert!(error.contains("MSL line 4:16:"), "{error}");
    assert!(error.contains("undefined_name"), "{error}");
    assert!(error.contains("\n    o[0] = 1.0 + undefined_name;"), "{error}");
    assert!(!error.contains('/'), "{error}");
}
