//! Kernels: MSL 5.

use super::Expect::{Accept, NotHere, Refuse};
use super::Row;

pub(super) const KERNELS: &[Row] = &[
    (
        "the usual kernel",
        "kernel void k(device float* out [[buffer(0)]], constant float* in [[buffer(1)]],\n\
         constant uint& n [[buffer(2)]], uint i [[thread_position_in_grid]]) {\n\
         if (i < n) out[i] = in[i]; }",
        Accept,
    ),
    (
        "attributes before the function",
        "[[kernel, max_total_threads_per_threadgroup(256)]] void k(device float* p) { p[0] = 1; }",
        Accept,
    ),
    (
        "template kernel",
        "template <typename T> kernel void k(device T* p, uint i [[thread_position_in_grid]]) {\n\
         p[i] = T(1); }\n\
         template [[host_name(\"k_float\")]] kernel void k<float>(device float*, uint);\n\
         template [[host_name(\"k_half\")]] kernel void k<half>(device half*, uint);",
        Accept,
    ),
    // MSL 5.1; Apple: "invalid return type 'int' for kernel function".
    (
        "return type",
        "kernel int k(device int* p) { return p[0]; }",
        Refuse("invalid return type 'int'"),
    ),
    ("main", "kernel void main(device int* p) { p[0] = 1; }", Refuse("cannot be called 'main'")),
    ("main function", "int main() { return 0; }", Refuse("cannot be called 'main'")),
    ("main in a namespace", "namespace a { int main() { return 0; } }", Accept),
    // MSL 1.5.1.
    (
        "overload",
        "kernel void k(device int* p) { p[0] = 1; }\nkernel void k(device float* p) { p[0] = 1; }",
        Refuse("kernels cannot be overloaded"),
    ),
    (
        "overloaded functions",
        "int f(int x) { return x; } float f(float x) { return x; }\n\
         float f(thread float& x) { return x; } float f(device float& x) { return x; }",
        Accept,
    ),
    (
        "prototype of a kernel",
        "kernel void k(device int* p);\nkernel void k(device int* p) { p[0] = 1; }",
        Accept,
    ),
    // MSL 5.1: "must not call".
    (
        "call of a kernel",
        "kernel void a(device int* p) { p[0] = 1; }\nkernel void b(device int* p) { a(p); }",
        Refuse("a kernel cannot be called"),
    ),
    (
        "kernel in a record",
        "struct S { kernel void k(device int* p) { p[0] = 1; } };",
        Refuse("a kernel cannot be a member function"),
    ),
    // MSL 5.2.1, Apple: "pointer type must have explicit address space qualifier".
    ("bare pointer", "kernel void k(float* p) { p[0] = 1; }", Refuse("pointer type must have")),
    ("thread pointer", "kernel void k(thread float* p) {}", Refuse("invalid address space")),
    // Apple: "cannot reserve 'buffer' resource location at index 0".
    (
        "two buffers at one index",
        "kernel void k(device int* a [[buffer(0)]], device int* b [[buffer(0)]]) {}",
        Refuse("cannot reserve 'buffer' resource location at index 0"),
    ),
    (
        "buffer and threadgroup indices are apart",
        "kernel void k(device int* a [[buffer(0)]], threadgroup int* b [[threadgroup(0)]]) {}",
        Accept,
    ),
    (
        "buffers that function constants choose between",
        "constant bool x [[function_constant(0)]]; constant bool y = !x;\n\
         kernel void k(device int* a [[buffer(0), function_constant(x)]],\n\
         device float* b [[buffer(0), function_constant(y)]]) {}",
        NotHere("function_constant"),
    ),
    // Apple: "'buffer' attribute parameter is out of bounds: must be between 0 and 30".
    (
        "index out of bounds",
        "kernel void k(device int* a [[buffer(31)]]) { a[0] = 1; }",
        Refuse("must be between 0 and 30"),
    ),
    ("last index", "kernel void k(device int* a [[buffer(30)]]) { a[0] = 1; }", Accept),
    // Apple: "type 'uint' (aka 'unsigned int') is not valid for attribute 'buffer'".
    (
        "buffer by value",
        "kernel void k(device int* a [[buffer(0)]], uint n [[buffer(1)]]) {}",
        Refuse("type 'uint' is not valid for attribute 'buffer'"),
    ),
    // Apple: "invalid address space qualification for buffer pointee type 'threadgroup float'".
    (
        "threadgroup buffer",
        "kernel void k(threadgroup float* a [[buffer(0)]]) {}",
        Refuse("invalid address space qualification for buffer pointee type"),
    ),
    (
        "device threadgroup",
        "kernel void k(device int* a [[threadgroup(0)]]) {}",
        Refuse("[[buffer(n)]]"),
    ),
    // Apple: "invalid type 'int' for input declaration in a kernel function".
    (
        "value without an attribute",
        "kernel void k(device int* a, int n) { a[0] = n; }",
        Refuse("invalid type 'int' for input declaration in a kernel function"),
    ),
    (
        "misspelt attribute",
        "kernel void k(device int* a, uint i [[thread_position_in_gird]]) { a[i] = 1; }",
        Refuse("invalid attribute 'thread_position_in_gird'"),
    ),
    // Apple: "invalid 'vertex_id' attribute for input declaration in a kernel function".
    (
        "attribute of another stage",
        "kernel void k(device int* a, uint i [[vertex_id]]) { a[i] = 1; }",
        Refuse("invalid attribute 'vertex_id'"),
    ),
    // MSL 5.2.3.6, table 5.8.
    (
        "float position",
        "kernel void k(device int* a, float i [[thread_position_in_grid]]) {}",
        Refuse("type 'float' is not valid for attribute 'thread_position_in_grid'"),
    ),
    (
        "signed position",
        "kernel void k(device int* a, int i [[thread_position_in_grid]]) {}",
        Refuse("type 'int' is not valid for attribute 'thread_position_in_grid'"),
    ),
    (
        "four components",
        "kernel void k(device int* a, uint4 i [[thread_position_in_grid]]) {}",
        Refuse("type 'uint4' is not valid for attribute 'thread_position_in_grid'"),
    ),
    (
        "vector index",
        "kernel void k(device int* a, uint2 i [[thread_index_in_threadgroup]]) {}",
        Refuse("type 'uint2' is not valid for attribute 'thread_index_in_threadgroup'"),
    ),
    (
        "position by reference",
        "kernel void k(device int* a, constant uint& i [[thread_position_in_grid]]) {}",
        Refuse("not valid for attribute 'thread_position_in_grid'"),
    ),
    // Apple: "expecting input declarations with either all scalar types or all vector types with
    // the same number of elements".
    (
        "scalar and vector positions",
        "kernel void k(device int* a, uint i [[thread_position_in_grid]],\n\
         uint3 j [[thread_position_in_threadgroup]]) {}",
        Refuse("either all scalar types or all vector types"),
    ),
    (
        "two and three components",
        "kernel void k(device int* a, uint2 i [[thread_position_in_grid]],\n\
         uint3 j [[threads_per_grid]]) {}",
        Refuse("either all scalar types or all vector types"),
    ),
    (
        "equal components of different width, and scalars that may differ",
        "kernel void k(device int* a, uint3 i [[thread_position_in_grid]],\n\
         ushort3 j [[thread_position_in_threadgroup]], uint l [[thread_index_in_threadgroup]],\n\
         ushort s [[thread_index_in_simdgroup]], uint w [[threads_per_simdgroup]],\n\
         uint g [[simdgroup_index_in_threadgroup]]) { a[i.x + j.x + l + s + w + g] = 1; }",
        Accept,
    ),
    // Apple: "kernel function cannot have input declarations with 'thread_execution_width' and
    // 'threads_per_simdgroup' attributes".
    (
        "two names of the SIMD width",
        "kernel void k(device int* a, uint v [[thread_execution_width]],\n\
         uint w [[threads_per_simdgroup]]) {}",
        Refuse("'thread_execution_width' and 'threads_per_simdgroup'"),
    ),
    (
        "arguments without indices",
        "kernel void generated_kernel(device float* out_ptr0, constant float* in_ptr0,\n\
         constant long& ks0, uint2 thread_pos [[thread_position_in_grid]],\n\
         uint2 group_pos [[thread_position_in_threadgroup]]) {\n\
         out_ptr0[thread_pos.x] = in_ptr0[thread_pos.y] + group_pos.x + ks0; }",
        Accept,
    ),
];
