//! Pointers keep their address space: MSL 4.

use super::Expect::{Accept, Refuse};
use super::Row;

pub(super) const CONVERSIONS: &[Row] = &[
    // Apple: "cannot initialize a variable of type 'device float *' with an lvalue of type
    // 'constant float *'".
    (
        "device from constant",
        "void f(constant float* p) { device const float* q = p; }",
        Refuse("`q` points to device memory and cannot take a pointer to constant memory"),
    ),
    (
        "device from an element of constant memory",
        "void f(constant float* p, int i) { device const float* q = &p[i] + 1; }",
        Refuse("cannot take a pointer to constant memory"),
    ),
    (
        "device from a local",
        "void f() { float x = 1; device float* q = &x; }",
        Refuse("cannot take a pointer to thread memory"),
    ),
    (
        "thread from a threadgroup array",
        "kernel void k(device int* p) { threadgroup int t[4]; thread int* q = t; }",
        Refuse("cannot take a pointer to threadgroup memory"),
    ),
    (
        "device from a program-scope array",
        "constant float t[2] = {1, 2}; void f() { device const float* q = t + 1; }",
        Refuse("cannot take a pointer to constant memory"),
    ),
    (
        "assignment",
        "void f(device float* d, threadgroup float* t) { d = t + 4; }",
        Refuse("`d` points to device memory and cannot take a pointer to threadgroup memory"),
    ),
    (
        "the same address space",
        "constant float t[2] = {1, 2};\n\
         kernel void k(device float* d, constant float* c, constant int& n) {\n\
         threadgroup float s[4]; float a[2] = {1, 2}, x = 1;\n\
         device float* e = d + n; device const float* g = &d[n]; constant float* h = c;\n\
         threadgroup float* u = s; thread float* v = a; thread float* w = &x;\n\
         constant float* y = t; constant const int* z = &n; e = d; h = c + 1; u = s + 1;\n\
         e[0] = g[0] + h[0] + u[0] + v[0] + w[0] + y[0] + z[0]; }",
        Accept,
    ),
    (
        "values move freely",
        "void f(device float* d, constant float* c, int i) {\n\
         float x = c[i]; d[i] = c[i] + x; device float* e = d + int(c[i]); *e = *c; }",
        Accept,
    ),
    (
        "a difference is no pointer",
        "void f(device float* d, device float* e) { long n = d - e; bool b = d == e; d[n] = b; }",
        Accept,
    ),
    (
        "a name that means two things",
        "void f(device float* d, constant float* c) {\n\
         { device float* p = d; p[0] = 1; } { constant float* p = c; d[0] = p[0]; } }",
        Accept,
    ),
    // Apple: "C-style cast from 'int *' to 'device int *' converts between mismatching address
    // spaces".
    (
        "cast",
        "void f(constant float* c) { (void)((device const uint*)c); }",
        Refuse("cast from a pointer to constant memory to one to device memory"),
    ),
    (
        "cast of an address",
        "void f() { int x = 1; device int* p = (device int*)&x; }",
        Refuse("cast from a pointer to thread memory to one to device memory"),
    ),
    // Apple: "reinterpret_cast from 'int *' to 'device int *' is not allowed".
    (
        "reinterpret_cast",
        "void f(threadgroup int* t) { (void)reinterpret_cast<device int*>(t + 1); }",
        Refuse("cast from a pointer to threadgroup memory to one to device memory"),
    ),
    (
        "casts within an address space",
        "uint f(device const float* d, constant float* c, int i) {\n\
         device const uint* p = (device const uint*)d; uint x = (uint)c[i];\n\
         return p[0] + ((constant uint*)c)[1] + *reinterpret_cast<device const uint*>(d + 1) + x; }",
        Accept,
    ),
    // Apple: "no matching function for call to 'g'".
    (
        "call",
        "float g(device const float* p) { return p[0]; }\n\
         float f(constant float* c) { return g(c + 1); }",
        Refuse("no matching function for call to 'g'"),
    ),
    (
        "call by reference",
        "void g(thread float& x) { x = 1; }\nvoid f(device float* d) { g(d[0]); }",
        Refuse("no matching function for call to 'g'"),
    ),
    // clang: "address of vector element requested", "non-const reference cannot bind to vector
    // element".
    (
        "address of a component",
        "void f(float4 v) { thread float* p = &v.x; }",
        Refuse("address of vector element requested"),
    ),
    (
        "address of a component in memory",
        "void g(device float* p) {} void f(device float4* p) { g(&p[1].y); }",
        Refuse("address of vector element requested"),
    ),
    (
        "address of a component by index",
        "void f(float4 v) { thread float* p = &v[1]; }",
        Refuse("address of vector element requested"),
    ),
    (
        "reference to a component",
        "void g(thread float& x) { x = 1; } void f(float4 v) { g(v.y); }",
        Refuse("non-const reference cannot bind to vector element"),
    ),
    (
        "component as a result of modf",
        "float f(float x) { float2 v; return modf(x, v.x); }",
        Refuse("non-const reference cannot bind to vector element"),
    ),
    (
        "what has an address",
        "struct S { float x; float4 v; }; void g(thread float& x) { x = 1; }\n\
         float h(float x) { return x; } void i(thread const float& x) {}\n\
         float f(device float4* p, float4 v, S s, int n) { float a[4]; float y; int z = n & 1;\n\
         thread float* q = &s.x; thread float* r = &a[1]; thread float4* t = &v; g(s.x); g(y);\n\
         device float4* u = &p[1]; g(a[2]); i(v.x); bool b = n & int(v.x);\n\
         return h(v.x) + *q + *r + (*t).x + u[0].y + modf(v.x, y) + y + z + b; }",
        Accept,
    ),
    (
        "overloads by address space",
        "float g(device const float* p) { return p[0]; }\n\
         float g(constant float* p) { return p[0]; }\n\
         void h(thread float& x) { x = 1; } float i(float x) { return x; }\n\
         float f(constant float* c, device float* d) { float x = d[0]; h(x);\n\
         return g(c) + g(d) + i(d[1]) + i(c[1]) + x; }",
        Accept,
    ),
];
