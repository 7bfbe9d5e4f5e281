//! Where variables live: MSL 4.

use super::Expect::{Accept, NotHere, Refuse};
use super::Row;

pub(super) const STORAGE: &[Row] = &[
    // Apple: "program scope variable must reside in constant address space".
    (
        "mutable global",
        "int counter = 0;",
        Refuse("program scope variable must reside in constant"),
    ),
    ("constexpr global", "constexpr int n = 4;", Refuse("program scope variable must reside")),
    ("const global array", "const float t[2] = {1, 2};", Refuse("program scope variable")),
    ("static global", "static float x;", Refuse("program scope variable")),
    ("device global", "device float x[4];", Refuse("program scope variable")),
    ("threadgroup global", "threadgroup float x[4];", Refuse("program scope variable")),
    ("global in a namespace", "namespace a { int n = 1; }", Refuse("program scope variable")),
    ("constant global", "constant float t[2] = {1, 2}; constant constexpr int n = 4;", Accept),
    ("constexpr constant", "constexpr constant uint n = 4; static constant int m = 1;", Accept),
    (
        "variable template",
        "template <typename T> constexpr constant bool is_float = is_same_v<T, float>;",
        Accept,
    ),
    // Apple: "variable in constant address space must be initialized".
    ("constant without a value", "constant float x;", Refuse("must be initialized")),
    // Nothing in a model sets function constants.
    ("function constant", "constant bool flag [[function_constant(0)]];", NotHere("flag")),
    ("enumeration", "enum class E : uint { a, b = 2 }; enum { N = 4 };", Accept),
    ("aliases", "using F = float; typedef uint2 U; struct S; struct S { F x; };", Accept),
    ("prototype", "float f(float x); constant float c = 1;", Accept),
    (
        "static member",
        "struct S { static constexpr int n = 1; };",
        Refuse("static constant constexpr"),
    ),
    (
        "static constant member",
        "struct S { static constant constexpr int n = 1; static int f() { return n; } int m = n; };",
        Accept,
    ),
    // Apple: "variables in function scope cannot be declared static".
    (
        "static local",
        "int f() { static int n = 0; return n++; }",
        Refuse("cannot be declared static"),
    ),
    (
        "static constexpr local",
        "int f() { static constexpr int n = 1; return n; }",
        Refuse("cannot be declared static"),
    ),
    ("constexpr local", "int f() { constexpr int n = 1; const int m = n; return m; }", Accept),
    ("static function", "static inline int f() { return 1; }", Accept),
    // Apple: "variables in the threadgroup address space cannot be declared in a non-qualified
    // function".
    (
        "threadgroup in a function",
        "void f() { threadgroup float t[32]; t[0] = 1; }",
        Refuse("cannot be declared in a non-qualified function"),
    ),
    (
        "threadgroup in a kernel",
        "kernel void k(device float* p) { threadgroup float t[32]; threadgroup uint n;\n\
         t[0] = p[0]; n = 1; p[0] = t[0] + n; }",
        Accept,
    ),
    (
        "threadgroup pointer in a function",
        "void f(threadgroup float* t) { threadgroup float* u = t + 1; u[0] = 1; }",
        Accept,
    ),
    // Apple: "automatic variable qualified with an address space".
    ("device local", "void f() { device float x; }", Refuse("automatic variable qualified with")),
    ("thread local", "int f() { thread int x = 1; return x; }", Accept),
    // Apple: "parameter may not be qualified with an address space".
    ("device by value", "void f(device float x) {}", Refuse("parameter may not be qualified")),
    ("array parameter", "float f(constant float x[2], device float y[]) { return x[0]; }", Accept),
    ("field with an address space", "struct S { device float x; };", Refuse("field may not be")),
    (
        "pointer fields",
        "struct S { device float* p; constant uint& n; device float* q[2]; };",
        Accept,
    ),
];
