//! Snippets that Metal accepts, and snippets that it refuses with what it says about them.
//!
//! Each has the section of the *Metal Shading Language Specification* that decides, or the words
//! of Apple's compiler where they are known ("Apple").

use super::super::harness::module;
use super::super::lex::lex;

/// What becomes of a snippet.
enum Expect {
    /// It compiles.
    Accept,
    /// It is refused, with this in the message.
    Refuse(&'static str),
    /// Metal accepts it, this device says that it cannot do it.
    NotHere(&'static str),
}
use Expect::{Accept, NotHere, Refuse};

/// Name, source, expectation.
type Row = (&'static str, &'static str, Expect);

/// Stands before every snippet, in one line.
const PRELUDE: &str = "#include <metal_stdlib>\nusing namespace metal;\n";

/// The language itself: MSL 1.5.4, 2.1.
const LANGUAGE: &[Row] = &[
    // MSL 2.1; Apple: "'double' is not supported in Metal".
    ("double variable", "void f() { double x = 1.0; }", Refuse("'double' is not supported")),
    ("double in a template argument", "struct S { array<double, 2> a; };", Refuse("'double' is")),
    ("double cast", "float f(int x) { return float(double(x)); }", Refuse("'double' is")),
    ("long double", "void f() { long double x = 1; }", Refuse("'long double' is not supported")),
    ("long long", "long f(long long x) { return x; }", Refuse("'long long' is not supported")),
    ("unsigned long long", "void f() { unsigned long long x = 1; }", Refuse("'long long'")),
    (
        "long and ulong",
        "ulong f(long x) { unsigned long y = x; long int z = y; return z; }",
        Accept,
    ),
    // A literal without a suffix is a float.
    ("plain float literal", "float f() { return 1.0 + .5 + 1e-3 + 2.; }", Accept),
    ("float and half literals", "half f() { return 1.0h + half(1.5f) + 0.5H; }", Accept),
    ("long double literal", "float f() { return 1.0L; }", Refuse("'long double'")),
    ("whole number with suffix h", "half f() { return 1h; }", Refuse("invalid suffix 'h'")),
    ("whole number with suffix f", "float f() { return 1f; }", Refuse("invalid suffix 'f'")),
    ("hexadecimal digits are no suffix", "uint f() { return 0x1f + 0xBF + 1u + 10ul; }", Accept),
    ("exponents are no suffix", "float f() { return 1e5f + 1e5 + 1e+5f; }", Accept),
    // Apple: "'goto' is not supported in Metal", "labeled statements are not supported in Metal".
    ("goto", "void f() { goto a; a: return; }", Refuse("'goto' is not supported in Metal")),
    ("label", "void f(int x) { x++; a: x--; }", Refuse("labeled statements are not supported")),
    (
        "switch and ternaries have no labels",
        "int f(int x) { switch (x) { case 1: return 1; default: break; } return x ? 1 : 2; }",
        Accept,
    ),
    // Apple: "illegal asm statement".
    ("asm", "void f() { asm(\"nop\"); }", Refuse("'asm' is not supported")),
    // Apple: "Metal does not support the 'register' storage class specifier".
    ("register", "void f() { register int x = 1; }", Refuse("'register' is not supported")),
    ("thread_local", "thread_local int x = 1;", Refuse("'thread_local' is not supported")),
    // Apple: "'try' is not supported in Metal".
    ("try", "void f() { try { } catch (int) { } }", Refuse("'try' is not supported")),
    ("throw", "void f() { throw 1; }", Refuse("'throw' is not supported")),
    ("new", "void f() { thread int* p = new int(1); }", Refuse("'new' is not supported")),
    ("delete", "void f(thread int* p) { delete p; }", Refuse("'delete' is not supported")),
    ("deleted function", "struct S { int x; void f() = delete; };", Accept),
    (
        "virtual",
        "struct S { virtual int f() { return 1; } };",
        Refuse("'virtual' is not supported"),
    ),
    (
        "dynamic_cast",
        "struct B {}; struct D : B {}; void f(thread B* b) { (void)dynamic_cast<thread D*>(b); }",
        Refuse("'dynamic_cast' is not supported"),
    ),
    ("typeid", "bool f(int x) { return typeid(x) == typeid(int); }", Refuse("'typeid' is not")),
    ("std::", "float f(float x) { return std::sqrt(x); }", Refuse("no namespace `std`")),
    ("metal::", "float f(float x) { return metal::sqrt(x) + ::metal::exp(x); }", Accept),
    (
        "words in strings and names",
        "int renew(int anew, int catcher) { return anew + catcher; }",
        Accept,
    ),
    ("words in comments", "// double goto new\n/* throw */ void f() {}", Accept),
    (
        "words that the preprocessor removes",
        "#ifndef __METAL__\ndouble x;\n#endif\nvoid f() {}",
        Accept,
    ),
    (
        "a word from a macro",
        "#define REAL double\nvoid f() { REAL x = 1; }",
        Refuse("'double' is not supported"),
    ),
    // MSL 1.5.4; Apple on macOS 14: "lambda expressions are not supported in Metal".
    (
        "lambda",
        "float f(float x) { auto g = [](float y) { return y * 2; }; return g(x); }",
        Refuse("lambda expressions are not supported"),
    ),
    ("lambda as an argument", "void f() { g([&](int x) { return x; }); }", Refuse("lambda")),
    (
        "subscripts",
        "struct S { int m[2]; int operator[](int i) const { return m[i]; } };\n\
         int f(S s, thread int (&a)[2]) { int b[] = {1, 2}; return s[0] + (a)[1] + b[0]; }",
        Accept,
    ),
    // Since Metal 2.4 in kernels: MSL 1.5.4.
    ("recursion", "int f(int n) { return n < 2 ? 1 : n * f(n - 1); }", Accept),
    // Since Metal 2.3: MSL 1.5.4.
    (
        "function pointer",
        "float twice(float x) { return 2 * x; }\n\
         float f(float x) { float (*g)(float) = twice; return g(x); }",
        Accept,
    ),
    (
        "function as a template argument",
        "float twice(float x) { return 2 * x; }\n\
         template <float (*G)(float)> float f(float x) { return G(x); }\n\
         float h(float x) { return f<twice>(x); }",
        Accept,
    ),
    (
        "union",
        "union U { float f; uint u; }; uint f(float x) { U u; u.f = x; return u.u; }",
        Accept,
    ),
    (
        "base record",
        "struct B { int x; }; struct D : B { int y; }; int f(D d) { return d.x; }",
        Accept,
    ),
    ("noexcept on a function", "float f(float x) noexcept { return x; }", Accept),
    (
        "noexcept on a kernel",
        "kernel void k(device float* p) noexcept { p[0] = 1; }",
        Refuse("'noexcept' is not supported on a kernel"),
    ),
    ("auto and decltype", "float f(float x) { auto y = x; decltype(y) z = y; return z; }", Accept),
];

/// Address spaces of pointers and references: MSL 4.
const POINTERS: &[Row] = &[
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

/// Pointers keep their address space: MSL 4.
const CONVERSIONS: &[Row] = &[
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

/// Where variables live: MSL 4.
const STORAGE: &[Row] = &[
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

/// Kernels: MSL 5.
const KERNELS: &[Row] = &[
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

/// Types, which clang checks with our headers: MSL 2, 6.
const TYPES: &[Row] = &[
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

/// The tables by name.
const TABLES: [(&str, &[Row]); 6] = [
    ("language", LANGUAGE),
    ("pointers", POINTERS),
    ("conversions", CONVERSIONS),
    ("storage", STORAGE),
    ("kernels", KERNELS),
    ("types", TYPES),
];

/// A kernel whose compilation takes the snippet along.
const PROBE: &str = "kernel void table_probe(device float* out [[buffer(0)]]) { out[0] = 1; }";

/// Reads a source as a device would, and compiles one kernel of it if asked to.
fn run(source: &str, kernel: Option<&str>) -> Result<(), String> {
    let module = module(source).map_err(|e| e.to_string())?;
    kernel.map_or(Ok(()), |kernel| module.compile(kernel).map(|_| ()).map_err(|e| e.to_string()))
}

/// Whether the row can share a compilation with others.
fn shares(row: &Row) -> bool {
    matches!(row, (_, source, Accept) if !source.contains("kernel") && !source.contains('#'))
}

/// What is wrong about a row, if anything is.
fn verdict(table: &str, row: &Row) -> Option<String> {
    let (name, source, expect) = row;
    let source = format!("{PRELUDE}{source}\n{PROBE}\n");
    // What shares a compilation is only read here.
    let result = run(&source, (!shares(row)).then_some("table_probe"));
    match (result, expect) {
        (Ok(()), Accept) => None,
        (Err(text), Refuse(part) | NotHere(part)) if text.contains(part) => None,
        (Ok(()), Refuse(part) | NotHere(part)) => {
            Some(format!("{table}: {name}: accepted, not {part:?}"))
        }
        (Err(text), _) => Some(format!("{table}: {name}: {text}")),
    }
}

#[test]
fn each_snippet_fares_as_with_metal() {
    let rows: Vec<_> =
        TABLES.iter().flat_map(|(table, rows)| rows.iter().map(move |row| (table, row))).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    let work = || {
        while let Some((table, row)) =
            rows.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        {
            wrong.lock().unwrap().extend(verdict(table, row));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn accepted_snippets_compile_together() {
    let mut source = PRELUDE.to_string();
    let rows = TABLES.iter().flat_map(|(_, rows)| rows.iter()).filter(|row| shares(row));
    for (i, (_, text, _)) in rows.enumerate() {
        source.push_str(&format!("namespace row_{i} {{\n{text}\n}}\n"));
    }
    source.push_str(PROBE);
    run(&source, Some("table_probe")).unwrap_or_else(|text| panic!("{text}"));
}

#[test]
fn any_part_of_a_program_is_survived() {
    for (_, rows) in TABLES {
        for (_, source, _) in rows {
            let tokens = lex(source).unwrap();
            for cut in 0..tokens.len() {
                // Only that they return is of interest.
                _ = super::check(&tokens[..cut]);
                _ = super::check(&tokens[cut..]);
                let hole: Vec<_> = [&tokens[..cut], &tokens[cut + 1..]].concat();
                _ = super::check(&hole);
            }
        }
    }
}
