//! Address spaces of pointers and references: MSL 4.

use super::Expect::{Accept, Refuse};
use super::Row;

pub(super) const POINTERS: &[Row] = &[
    // Apple: "pointer type must have explicit address space qualifier".
    ("parameter", "float f(float* p) { return *p; }", Refuse("pointer type must have explicit")),
    ("const parameter", "float f(const float* p) { return *p; }", Refuse("pointer type must have")),
    (
        "local",
        "void f(device float* p) { float* q = p; }",
        Refuse("pointer type must have explicit address space"),
    ),
    ("cast", "void f(thread float* p) { (void)(uint*)p; }", Refuse("pointer type must have")),
    ("return type", "int* f(thread int* p) { return p; }", Refuse("pointer type must have")),
    ("void pointer", "void f(void* p) {}", Refuse("pointer type must have")),
    ("field", "struct S { uint4* p; };", Refuse("pointer type must have")),
    ("unsigned int", "void f(unsigned int* p) {}", Refuse("pointer type must have")),
    // Apple: "reference type must have explicit address space qualifier".
    ("reference", "void f(float& x) { x = 1; }", Refuse("reference type must have explicit")),
    ("const reference", "float f(const float4& x) { return x.x; }", Refuse("reference type must")),
    ("record pointer", "struct S { int x; }; int f(S* s) { return s->x; }", Refuse("pointer type")),
    (
        "record reference",
        "struct S { int x; }; int f(const S& s) { return s.x; }",
        Refuse("reference"),
    ),
    (
        "address space before or after the type",
        "float f(device const float* a, const device float* b, float device* c,\n\
         thread const float& d, float const thread& e) { return a[0] + b[0] + c[0] + d + e; }",
        Accept,
    ),
    // Accepted by Apple's compiler: the inner pointer's address space is the only one needed.
    (
        "reference to a pointer",
        "void f(const device float*& p, device float** q, int i) { p += i; q[0] += i; }",
        Accept,
    ),
    (
        "array of pointers",
        "float f(device float* p) { device float* a[2] = {p, p}; return a[1][0]; }",
        Accept,
    ),
    (
        "template parameters may bring their own",
        "template <typename T> void g(T x) { x[0] = 1; }\n\
         void f(device float* p) { g<device float*>(p); g(p); }",
        Accept,
    ),
    ("auto", "void f(device float* p) { auto q = p; auto& r = p[0]; r = q[1]; }", Accept),
    (
        "multiplication",
        "float f(float a, float b) { int n = 2; return float(n) * a * b + (float)n * b; }",
        Accept,
    ),
    ("sizeof", "uint f(uint n) { return sizeof(float) * n + (uint)sizeof(half) & n; }", Accept),
    (
        "two address spaces",
        "void f(device threadgroup float* p) {}",
        Refuse("multiple address spaces specified for type"),
    ),
    (
        "operators",
        "struct C { float r, i; };\n\
         thread C& operator+=(thread C& a, thread const C& b) { a.r += b.r; return a; }",
        Accept,
    ),
];
