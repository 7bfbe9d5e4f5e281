//! The language itself: MSL 1.5.4, 2.1.

use super::Expect::{Accept, Refuse};
use super::Row;

pub(super) const LANGUAGE: &[Row] = &[
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
