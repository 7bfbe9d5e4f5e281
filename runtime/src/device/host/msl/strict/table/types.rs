//! Types, which clang checks with our headers: MSL 2, 6.

use super::Expect::{Accept, Refuse};
use super::Row;

pub(super) const TYPES: &[Row] = &[
    // Apple: "cannot initialize a variable of type 'const bfloat' with an rvalue of type 'float'".
    ("bfloat from a float", "void f() { bfloat x = 1.0f; }", Refuse("bfloat")),
    ("bfloat from a literal", "bfloat f() { bfloat x = 0.0; return x; }", Refuse("bfloat")),
    ("bfloat from a half", "bfloat f(half h) { return h; }", Refuse("bfloat")),
    ("bfloat assigned a float", "void f(thread bfloat& b, float x) { b = x; }", Refuse("=")),
    (
        "bfloat made explicitly, and read",
        "float f(float x, half h) { bfloat b = bfloat(x), c = static_cast<bfloat>(h), d = 1;\n\
         bfloat e = b + c * d; b += e; return e + x; }",
        Accept,
    ),
    ("half from a float", "half f(float x) { half h = x; h = 1.0; return h * 2.0h; }", Accept),
    ("int from a float", "int f(float x) { int i = x; i += x; return i; }", Accept),
    // MSL 2.2: a scalar becomes a vector, a vector no other vector.
    ("vector from a scalar", "float4 f(float x) { float4 v = x; v *= 2; return v + 1; }", Accept),
    ("vector of another element", "float4 f(int4 v) { float4 w = v; return w; }", Refuse("float")),
    ("vector of another size", "float4 f(float3 v) { float4 w = v; return w; }", Refuse("vec")),
    (
        "vector made explicitly",
        "float4 f(int4 v, float3 w) { return float4(v) + float4(w, 1); }",
        Accept,
    ),
    ("half4 from float4", "half4 f(float4 v) { half4 w = v; return w; }", Refuse("vec")),
    ("swizzles", "float2 f(float4 v) { v.xy = v.zw; v.xyz = v.zyx; return v.xx + v.yw; }", Accept),
    ("swizzle of both names", "float2 f(float4 v) { return v.xg; }", Refuse("xg")),
    ("component that is not there", "float f(float2 v) { return v.z; }", Refuse("z")),
    // MSL 4.2.
    ("write to constant memory", "void f(constant float* p) { p[0] = 1; }", Refuse("const")),
    ("write to a constant", "constant int n = 1; void f() { n = 2; }", Refuse("const")),
    ("write through const", "void f(device const float* p) { p[0] = 1; }", Refuse("const")),
    // Apple: "variable length arrays are not supported in Metal".
    (
        "array of variable length",
        "float f(int n) { float a[n]; a[0] = 1; return a[0]; }",
        Refuse("variable length array"),
    ),
    (
        "arrays of constant length",
        "constant int n = 4; template <int N> float f() { const int m = 2 * N; float a[m];\n\
         float b[n]; a[0] = b[0] = 1; return a[0] + b[0]; } float g() { return f<2>(); }",
        Accept,
    ),
    // Apple: "type 'float' cannot be narrowed to 'int' in initializer list".
    ("narrowing in braces", "int f(float x) { int i{x}; return i; }", Refuse("narrowed")),
    (
        "braces without narrowing",
        "struct S { float a; int b; uint2 c; };\n\
         float f(int i, float x, uint u) { S s{x, i, {u, 2}}; S t = {1, 2, uint2(3)}; float a[] = {x, 1};\n\
         float4 v{x, 1, 2, 3}; return s.a + t.b + a[0] + v.x; }",
        Accept,
    ),
    ("unknown name", "float f() { return undefined_name; }", Refuse("undefined_name")),
    ("printf", "void f() { printf(\"x\"); }", Refuse("printf")),
    ("too few arguments", "float f(float x) { return fma(x, x); }", Refuse("fma")),
    ("<cmath>", "#include <cmath>\nvoid f() {}", Refuse("cmath")),
    ("<vector>", "#include <vector>\nvoid f() {}", Refuse("vector")),
    // MSL 6.15.
    (
        "atomics",
        "void f(device atomic_int* i, device atomic<float>* x, threadgroup atomic_uint& u,\n\
         device atomic_bool* b, device atomic_ulong* l) {\n\
         atomic_fetch_add_explicit(i, 1, memory_order_relaxed);\n\
         atomic_fetch_add_explicit(x, 1.0f, memory_order_relaxed);\n\
         atomic_fetch_max_explicit(&u, 3u, memory_order_relaxed);\n\
         atomic_store_explicit(b, true, memory_order_relaxed);\n\
         atomic_max_explicit(l, 5ul, memory_order_relaxed); }",
        Accept,
    ),
    (
        "atomic<long>",
        "void f(device atomic<long>* p, long x) { long y = sizeof(*p); }",
        Refuse("atomic<T>"),
    ),
    (
        "addition to atomic_ulong",
        "void f(device atomic_ulong* p) { atomic_fetch_add_explicit(p, 1ul, memory_order_relaxed); }",
        Refuse("Metal adds to"),
    ),
    (
        "maximum of atomic_float",
        "void f(device atomic_float* p) { atomic_fetch_max_explicit(p, 1.0f, memory_order_relaxed); }",
        Refuse("atomic_int and atomic_uint only"),
    ),
    (
        "acquire",
        "int f(device atomic_int* p) { return atomic_load_explicit(p, memory_order_acquire); }",
        Refuse("memory_order_acquire"),
    ),
];
