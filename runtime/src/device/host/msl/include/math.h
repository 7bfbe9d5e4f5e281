// The math functions of metal::, metal::precise:: and metal::fast::, on scalars and vectors.
//
// precise:: and fast:: exist for float only, as in MSL (a half or bfloat argument becomes one),
// and are the same here.
#pragma once
#include "float_math.h"
#include "limits.h"
#include "vec.h"

namespace msl {

// The type in which metal::f(T) gives its result: integers become float.
template <class T>
using float_result = metal::conditional_t<metal::is_floating_point_v<T>, T, float>;

// Elementary functions are not defined for bfloat, as with Apple's compiler.
template <class T>
using if_elementary =
    metal::enable_if_t<metal::is_scalar_v<T> && !metal::is_same_v<T, bfloat>, float_result<T>>;
template <class T, class R = T>
using if_float = metal::enable_if_t<metal::is_scalar_v<T> && metal::is_floating_point_v<T>, R>;
template <class A, class B>
using if_scalars = metal::enable_if_t<metal::is_scalar_v<A> && metal::is_scalar_v<B>>;

// The common type of two scalars: for bfloat and half that of their arithmetic.
template <class A, class B>
struct common {
  using type = decltype(A(0) + B(0));
};
template <class T>
struct common<T, T> {
  using type = T;
};
template <class A, class B>
using common_t = typename common<metal::remove_cv_t<A>, metal::remove_cv_t<B>>::type;

}  // namespace msl

namespace metal {

// Functions of one argument that are computed in float: name, expression of x.
#define MSL_ELEMENTARY_FUNCTIONS(F) \
  F(acos, msl::acos(x))             \
  F(acosh, msl::acosh(x))           \
  F(asin, msl::asin(x))             \
  F(asinh, msl::asinh(x))           \
  F(atan, msl::atan(x))             \
  F(atanh, msl::atanh(x))           \
  F(cos, msl::cos(x))               \
  F(cosh, msl::cosh(x))             \
  F(cospi, msl::cospi(x))           \
  F(exp, msl::exp(x))               \
  F(exp2, msl::exp2(x))             \
  F(exp10, msl::exp10(x))           \
  F(log, msl::log(x))               \
  F(log2, msl::log2(x))             \
  F(log10, msl::log10(x))           \
  F(rsqrt, msl::rsqrt(x))           \
  F(sin, msl::sin(x))               \
  F(sinh, msl::sinh(x))             \
  F(sinpi, msl::sinpi(x))           \
  F(sqrt, __builtin_sqrtf(x))       \
  F(tan, msl::tan(x))               \
  F(tanh, msl::tanh(x))             \
  F(tanpi, msl::tanpi(x))
#define MSL_ELEMENTARY_FUNCTIONS_2(F) \
  F(atan2, msl::atan2(x, y))          \
  F(pow, msl::pow(x, y))              \
  F(powr, msl::pow(x, y))
// Functions that only take a number apart; they exist for bfloat, too.
#define MSL_SIMPLE_FUNCTIONS(F)     \
  F(ceil, __builtin_ceilf(x))       \
  F(fabs, __builtin_fabsf(x))       \
  F(floor, __builtin_floorf(x))     \
  F(fract, msl::fract(x))           \
  F(rint, __builtin_rintf(x))       \
  F(round, msl::round(x))           \
  F(trunc, __builtin_truncf(x))
#define MSL_SIMPLE_FUNCTIONS_2(F)                      \
  F(copysign, __builtin_copysignf(x, y))               \
  F(divide, x / y)                                     \
  F(fdim, x != x || y != y ? x + y : (x > y ? x - y : 0.0f)) \
  F(fmod, msl::fmod(x, y))

namespace precise {

#define MSL_FLOAT_FUNCTION(name, expression)                                            \
  MSL_INLINE float name(float x) { return expression; }                                 \
  template <uint N>                                                                     \
  MSL_INLINE vec<float, N> name(const vec<float, N>& v) {                               \
    return msl::map<float, N>([](float x) -> float { return expression; }, v);          \
  }
#define MSL_FLOAT_FUNCTION_2(name, expression)                                          \
  MSL_INLINE float name(float x, float y) { return expression; }                        \
  template <uint N>                                                                     \
  MSL_INLINE vec<float, N> name(const vec<float, N>& a, const vec<float, N>& b) {       \
    return msl::map<float, N>([](float x, float y) -> float { return expression; }, a, b); \
  }
MSL_ELEMENTARY_FUNCTIONS(MSL_FLOAT_FUNCTION)
MSL_ELEMENTARY_FUNCTIONS_2(MSL_FLOAT_FUNCTION_2)
MSL_SIMPLE_FUNCTIONS(MSL_FLOAT_FUNCTION)
MSL_SIMPLE_FUNCTIONS_2(MSL_FLOAT_FUNCTION_2)
#undef MSL_FLOAT_FUNCTION
#undef MSL_FLOAT_FUNCTION_2

}  // namespace precise

#define MSL_FUNCTION(name, expression, condition)                                          \
  template <class T>                                                                       \
  MSL_INLINE condition name(T value) {                                                     \
    float x = (float)value;                                                                \
    return msl::float_result<T>(expression);                                               \
  }                                                                                        \
  template <class T, uint N>                                                               \
  MSL_INLINE vec<T, N> name(const vec<T, N>& v) {                                          \
    return msl::map<T, N>([](T x) { return name(x); }, v);                                 \
  }
#define MSL_FUNCTION_2(name, expression, condition)                                        \
  template <class A, class B, class = msl::if_scalars<A, B>, class T = msl::common_t<A, B>> \
  MSL_INLINE condition name(A a, B b) {                                                    \
    float x = (float)a, y = (float)b;                                                      \
    return msl::float_result<T>(expression);                                               \
  }                                                                                        \
  template <class T, uint N>                                                               \
  MSL_INLINE vec<T, N> name(const vec<T, N>& a, const vec<T, N>& b) {                      \
    return msl::map<T, N>([](T x, T y) { return name(x, y); }, a, b);                      \
  }
#define MSL_ELEMENTARY(name, expression) MSL_FUNCTION(name, expression, msl::if_elementary<T>)
#define MSL_ELEMENTARY_2(name, expression) \
  MSL_FUNCTION_2(name, expression, msl::if_elementary<T>)
#define MSL_SIMPLE(name, expression) MSL_FUNCTION(name, expression, msl::if_float<T>)
#define MSL_SIMPLE_2(name, expression) MSL_FUNCTION_2(name, expression, msl::float_result<T>)
MSL_ELEMENTARY_FUNCTIONS(MSL_ELEMENTARY)
MSL_ELEMENTARY_FUNCTIONS_2(MSL_ELEMENTARY_2)
MSL_SIMPLE_FUNCTIONS(MSL_SIMPLE)
MSL_SIMPLE_FUNCTIONS_2(MSL_SIMPLE_2)
#undef MSL_ELEMENTARY
#undef MSL_ELEMENTARY_2
#undef MSL_SIMPLE
#undef MSL_SIMPLE_2
#undef MSL_FUNCTION
#undef MSL_FUNCTION_2
#undef MSL_ELEMENTARY_FUNCTIONS
#undef MSL_ELEMENTARY_FUNCTIONS_2
#undef MSL_SIMPLE_FUNCTIONS
#undef MSL_SIMPLE_FUNCTIONS_2

// --- minimum, maximum and their kin

// Of floats, a NaN operand is ignored, as by fmin and fmax.
template <class A, class B, class = msl::if_scalars<A, B>, class T = msl::common_t<A, B>>
MSL_INLINE constexpr T max(A a, B b) {
  T x = T(a), y = T(b);
  if constexpr (is_floating_point_v<T>)
    return x != x ? y : (x < y ? y : x);
  else
    return x < y ? y : x;
}
template <class A, class B, class = msl::if_scalars<A, B>, class T = msl::common_t<A, B>>
MSL_INLINE constexpr T min(A a, B b) {
  T x = T(a), y = T(b);
  if constexpr (is_floating_point_v<T>)
    return x != x ? y : (y < x ? y : x);
  else
    return y < x ? y : x;
}
template <class A, class B, class = msl::if_scalars<A, B>>
MSL_INLINE auto fmax(A a, B b) {
  return max(msl::float_result<A>(a), msl::float_result<B>(b));
}
template <class A, class B, class = msl::if_scalars<A, B>>
MSL_INLINE auto fmin(A a, B b) {
  return min(msl::float_result<A>(a), msl::float_result<B>(b));
}
#define MSL_VECTOR_FORMS_2(name)                                                       \
  template <class T, uint N>                                                           \
  MSL_INLINE constexpr vec<T, N> name(const vec<T, N>& a, const vec<T, N>& b) {        \
    return msl::map<T, N>([](T x, T y) { return T(name(x, y)); }, a, b);               \
  }                                                                                    \
  template <class T, uint N, class S, class = msl::if_scalar<S>>                       \
  MSL_INLINE constexpr vec<T, N> name(const vec<T, N>& a, S b) {                       \
    return name(a, vec<T, N>(T(b)));                                                   \
  }                                                                                    \
  template <class T, uint N, class S, class = msl::if_scalar<S>>                       \
  MSL_INLINE constexpr vec<T, N> name(S a, const vec<T, N>& b) {                       \
    return name(vec<T, N>(T(a)), b);                                                   \
  }
MSL_VECTOR_FORMS_2(max)
MSL_VECTOR_FORMS_2(min)
MSL_VECTOR_FORMS_2(fmax)
MSL_VECTOR_FORMS_2(fmin)
#undef MSL_VECTOR_FORMS_2

template <class A, class B, class C>
MSL_INLINE constexpr auto max3(A a, B b, C c) { return max(max(a, b), c); }
template <class A, class B, class C>
MSL_INLINE constexpr auto min3(A a, B b, C c) { return min(min(a, b), c); }
template <class A, class B, class C>
MSL_INLINE constexpr auto median3(A a, B b, C c) {
  return max(min(a, b), min(max(a, b), c));
}
template <class A, class B, class C>
MSL_INLINE constexpr auto fmax3(A a, B b, C c) { return max3(a, b, c); }
template <class A, class B, class C>
MSL_INLINE constexpr auto fmin3(A a, B b, C c) { return min3(a, b, c); }
template <class A, class B, class C>
MSL_INLINE constexpr auto fmedian3(A a, B b, C c) { return median3(a, b, c); }

template <class X, class A, class B>
MSL_INLINE constexpr auto clamp(X x, A low, B high) { return min(max(x, low), high); }
template <class T>
MSL_INLINE auto saturate(T x) { return clamp(x, T(0), T(1)); }
template <class A, class B, class C>
MSL_INLINE auto mix(A a, B b, C t) { return a + (b - a) * t; }
template <class E, class X>
MSL_INLINE auto step(E edge, X x) {
  if constexpr (is_vector_v<X>)
    return msl::map<msl::element_t<X>, msl::count_v<X>>(
        [](msl::element_t<X> e, msl::element_t<X> v) { return step(e, v); }, X(edge), x);
  else
    return x < edge ? X(0) : X(1);
}
template <class A, class B, class X>
MSL_INLINE auto smoothstep(A low, B high, X x) {
  X t = saturate(X((x - low) / (high - low)));
  return X(t * t * (X(3) - X(2) * t));
}
template <class T, class = msl::if_float<T>>
MSL_INLINE T sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : (x != x ? T(0) : x);
}
template <class T, uint N>
MSL_INLINE vec<T, N> sign(const vec<T, N>& v) {
  return msl::map<T, N>([](T x) { return sign(x); }, v);
}

// --- functions with more arguments or results

template <class A, class B, class C,
          class T = msl::common_t<msl::common_t<A, B>, C>,
          class = enable_if_t<is_scalar_v<A> && is_scalar_v<B> && is_scalar_v<C>>>
MSL_INLINE constexpr msl::float_result<T> fma(A a, B b, C c) {
  return msl::float_result<T>(msl::fused((float)a, (float)b, (float)c));
}
template <class T, uint N>
MSL_INLINE vec<T, N> fma(const vec<T, N>& a, const vec<T, N>& b, const vec<T, N>& c) {
  return msl::map<T, N>([](T x, T y, T z) { return fma(x, y, z); }, a, b, c);
}

template <class T, class = msl::if_scalar<T>>
MSL_INLINE msl::float_result<T> ldexp(T x, int k) {
  return msl::float_result<T>(msl::ldexp((float)x, k));
}
template <class T, uint N>
MSL_INLINE vec<T, N> ldexp(const vec<T, N>& x, const vec<int, N>& k) {
  return msl::map<T, N>([](T a, int b) { return ldexp(a, b); }, x, k);
}
template <class T, class = msl::if_float<T>>
MSL_INLINE T frexp(T x, int& exponent) {
  return T(msl::frexp((float)x, exponent));
}
template <class T, uint N>
MSL_INLINE vec<T, N> frexp(const vec<T, N>& x, vec<int, N>& exponent) {
  vec<T, N> result;
  for (uint i = 0; i < N; i++) result[i] = frexp(x[i], exponent[i]);
  return result;
}
template <class T, class = msl::if_scalar<T>>
MSL_INLINE int ilogb(T x) {
  return msl::ilogb((float)x);
}
template <class T, uint N>
MSL_INLINE vec<int, N> ilogb(const vec<T, N>& v) {
  return msl::map<int, N>([](T x) { return ilogb(x); }, v);
}
template <class T>
MSL_INLINE T modf(T x, T& whole) {
  whole = trunc(x);
  return copysign(T(x - whole), x);
}
template <class T>
MSL_INLINE T sincos(T x, T& cosine) {
  cosine = cos(x);
  return sin(x);
}
MSL_INLINE float nextafter(float a, float b) { return msl::nextafter(a, b); }
MSL_INLINE half nextafter(half a, half b) {
  if (a != a || b != b) return half(NAN);
  if (a == b) return b;
  ushort bits = __builtin_bit_cast(ushort, a);
  if (a == half(0)) return __builtin_bit_cast(half, ushort((b < half(0) ? 0x8000 : 0) | 1));
  bool up = (a < b) == (a > half(0));
  return __builtin_bit_cast(half, ushort(up ? bits + 1 : bits - 1));
}

// --- relational functions

#define MSL_PREDICATE(name, expression)                                                    \
  template <class T>                                                                       \
  MSL_INLINE constexpr msl::if_float<T, bool> name(T value) {                              \
    float x = (float)value;                                                                \
    return expression;                                                                     \
  }                                                                                        \
  template <class T, uint N>                                                               \
  MSL_INLINE constexpr vec<bool, N> name(const vec<T, N>& v) {                             \
    return msl::map<bool, N>([](T x) { return name(x); }, v);                              \
  }
MSL_PREDICATE(isnan, x != x)
MSL_PREDICATE(isinf, x == INFINITY || x == -INFINITY)
MSL_PREDICATE(isfinite, x - x == 0.0f)
MSL_PREDICATE(signbit, as_type<uint>(x) >> 31 != 0)
#undef MSL_PREDICATE
template <class T>
MSL_INLINE msl::if_float<T, bool> isnormal(T x) {
  return isfinite(x) && (x < T(0) ? -x : x) >= numeric_limits<T>::min();
}
template <class T, uint N>
MSL_INLINE vec<bool, N> isnormal(const vec<T, N>& v) {
  return msl::map<bool, N>([](T x) { return isnormal(x); }, v);
}
template <class A, class B>
MSL_INLINE constexpr auto isordered(A a, B b) { return a == a && b == b; }
template <class A, class B>
MSL_INLINE constexpr auto isunordered(A a, B b) { return a != a || b != b; }

template <class A, class B, class = msl::if_scalars<A, B>>
MSL_INLINE constexpr msl::common_t<A, B> select(A if_false, B if_true, bool condition) {
  using T = msl::common_t<A, B>;
  return condition ? T(if_true) : T(if_false);
}
template <class T, uint N>
MSL_INLINE constexpr vec<T, N> select(const vec<T, N>& if_false, const vec<T, N>& if_true,
                                      const vec<bool, N>& condition) {
  return msl::map<T, N>([](T f, T t, bool c) { return c ? t : f; }, if_false, if_true, condition);
}
template <class T, uint N>
MSL_INLINE constexpr vec<T, N> select(const vec<T, N>& if_false, const vec<T, N>& if_true,
                                      bool condition) {
  return condition ? if_true : if_false;
}
template <uint N>
MSL_INLINE constexpr bool all(const vec<bool, N>& v) {
  return msl::fold([](bool a, bool b) { return a && b; }, v);
}
template <uint N>
MSL_INLINE constexpr bool any(const vec<bool, N>& v) {
  return msl::fold([](bool a, bool b) { return a || b; }, v);
}
MSL_INLINE constexpr bool all(bool b) { return b; }
MSL_INLINE constexpr bool any(bool b) { return b; }

// precise:: and fast:: forms of the functions that are exact anyway.
namespace precise {
#define MSL_FLOAT_FORMS(name)                                                         \
  template <class A, class B>                                                         \
  MSL_INLINE auto name(A a, B b) {                                                    \
    return metal::name(a, b);                                                         \
  }
MSL_FLOAT_FORMS(max)
MSL_FLOAT_FORMS(min)
MSL_FLOAT_FORMS(fmax)
MSL_FLOAT_FORMS(fmin)
MSL_FLOAT_FORMS(ldexp)
MSL_FLOAT_FORMS(nextafter)
#undef MSL_FLOAT_FORMS
template <class X, class A, class B>
MSL_INLINE auto clamp(X x, A low, B high) { return metal::clamp(x, low, high); }
template <class A, class B, class C>
MSL_INLINE auto fma(A a, B b, C c) { return metal::fma(a, b, c); }
template <class T>
MSL_INLINE T saturate(T x) { return metal::saturate(x); }
template <class T>
MSL_INLINE T sincos(T x, T& cosine) { return metal::sincos(x, cosine); }
template <class T>
MSL_INLINE T modf(T x, T& whole) { return metal::modf(x, whole); }
}  // namespace precise

namespace fast {
using namespace precise;
}

}  // namespace metal
