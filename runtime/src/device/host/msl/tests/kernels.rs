//! How kernels are found: templates, names, parameters.

use super::*;

#[test]
fn templates_namespaces_and_host_names() {
    let source = with_header(
        "namespace ops { struct Twice { template <typename T> T operator()(T x) const { return x + x; } };\n\
           struct Total { float operator()(float x) { return simd_sum(x); } };\n\
           template <typename T, typename Op, int N>\n\
           [[kernel, max_total_threads_per_threadgroup(256)]] void apply(device T* out [[buffer(0)]],\n\
             const device T* in [[buffer(1)]], constant int& n [[buffer(2)]], uint i [[thread_position_in_grid]]) {\n\
             if (int(i) < n) out[i] = Op()(in[i]) + T(N);\n\
           }\n\
           [[host_name(\"named\")]] kernel void plain_function(device float* out) { out[0] = 1; }\n\
         }\n\
         #define instantiate(name, type, op) \\\n\
           template [[host_name(\"apply_\" #name)]] [[kernel]] decltype(ops::apply<type, op, 3>) ops::apply<type, op, 3>;\n\
         instantiate(twice_float, float, ops::Twice)\n\
         instantiate(twice_int, int, ops::Twice)\n\
         template [[host_name(\"apply_total\")]] kernel void ops::apply<float, ops::Total, 0>(device float* out [[buffer(0)]],\n\
           const device float* in [[buffer(1)]], constant int& n [[buffer(2)]], uint i [[thread_position_in_grid]]);\n",
    );
    let module = module(&source).unwrap();
    let names: Vec<_> = module.kernels().iter().map(|k| k.name.as_str()).collect();
    assert_eq!(names, ["named", "apply_twice_float", "apply_twice_int", "apply_total"]);
    let modes: Vec<_> = module.kernels().iter().map(|k| k.mode).collect();
    use LaunchMode::{Fibers, Plain};
    assert_eq!(modes, [Plain, Plain, Plain, Fibers]);
    assert_eq!(module.kernels()[1].max_total_threads, Some(256));
    assert_eq!(module.kernels()[1].parameters[2].name, "n");
    assert_eq!(
        module.kernels()[1].parameters[2].kind,
        ParameterKind::Buffer {
            index: 2,
            access: Access::ReadOnly,
            ty: "int".into(),
            by_reference: true,
            by_reference_size: Some(4)
        }
    );
    let mut input: Vec<f32> = (0..40u8).map(f32::from).collect();
    let mut out = vec![0.0f32; 40];
    for (name, first, last) in [("apply_twice_float", 3.0, 81.0), ("apply_total", 496.0, 284.0)] {
        Dispatch::new([40, 1, 1], [40, 1, 1])
            .arg(&mut out)
            .arg(&mut input)
            .arg(&mut [40i32])
            .run(&module.compile(name).unwrap());
        assert_eq!((out[0], out[39]), (first, last), "{name}");
    }
    let error = module.compile("nothing").unwrap_err().to_string();
    assert!(error.contains("named, apply_twice_float"), "{error}");
}

#[test]
fn indices_are_given_to_those_without() {
    let source = with_header(
        "kernel void f(device float* a, constant float& b [[buffer(0)]], device const float4* c [[buffer(2)]],\n\
           constant packed_float3* d, threadgroup float* t, threadgroup float* u [[threadgroup(0)]],\n\
           uint i [[thread_position_in_grid]]) { a[i] = b + c[i].x + d[i].x + t[0] + u[0]; }",
    );
    let module = module(&source).unwrap();
    let kinds: Vec<_> = module.kernels()[0]
        .parameters
        .iter()
        .map(|p| match &p.kind {
            ParameterKind::Buffer { index, access, ty, .. } => {
                format!("{index} {ty} {}", if *access == Access::ReadOnly { "r" } else { "rw" })
            }
            ParameterKind::Threadgroup { index } => format!("threadgroup {index}"),
            ParameterKind::Builtin(name) => name.clone(),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "1 float rw",
            "0 float r",
            "2 float4 r",
            "3 packed_float3 r",
            "threadgroup 1",
            "threadgroup 0",
            "thread_position_in_grid"
        ]
    );
}

#[test]
fn structs_arrays_and_helpers() {
    let source = with_header(
        "struct Params { uint n; float scale[2]; packed_float3 offset; };\n\
         constant float table[3] = {1.0, 2.0, 4.0};\n\
         constexpr constant uint three = 3;\n\
         static inline float helper(thread const float* v, uint n) { float s = 0; for (uint i = 0; i < n; i++) s += v[i]; return s; }\n\
         float later(float x);\n\
         kernel void f(device float* out, constant Params& p, constant float (&weights)[2], device const Params* q,\n\
           uint i [[thread_position_in_grid]]) {\n\
           float v[three] = {table[0], table[1], table[2] * p.scale[1]};\n\
           out[i] = helper(v, three) + p.offset.z + weights[i % 2] + float(q[0].n) + later(1);\n\
         }\n\
         float later(float x) { return x * 0.5; }",
    );
    let mut out = [0.0f32; 4];
    let mut params = [[3u32, 1f32.to_bits(), 2f32.to_bits(), 0, 0, 10f32.to_bits()]];
    let mut copy = params;
    Dispatch::new([4, 1, 1], [4, 1, 1])
        .arg(&mut out)
        .arg(&mut params)
        .arg(&mut [100.0f32, 200.0])
        .arg(&mut copy)
        .run(&kernel(&source, "f"));
    assert_eq!(out, [124.5, 224.5, 124.5, 224.5]);
}

#[test]
fn macros_of_the_headers_are_seen_by_the_preprocessor() {
    let source = "#include <metal_stdlib>\n#include <metal_simdgroup_matrix>\n#include <simd/simd.h>\n\
         #if !defined(INFINITY) || __METAL_VERSION__ < 300 || !defined(__METAL__)\n#error no\n#endif\n\
         kernel void f(device float* o) { o[0] = -INFINITY; o[1] = M_PI_F; o[2] = FLT_MAX; o[3] = isnan_of(NAN); }\n";
    let source = source.replace(
        "kernel void",
        "METAL_FUNC float isnan_of(float x) { return metal::isnan(x); }\nkernel void",
    );
    let mut out = [0.0f32; 4];
    Dispatch::new([1, 1, 1], [1, 1, 1]).arg(&mut out).run(&kernel(&source, "f"));
    assert_eq!(out, [f32::NEG_INFINITY, std::f32::consts::PI, f32::MAX, 1.0]);
}
