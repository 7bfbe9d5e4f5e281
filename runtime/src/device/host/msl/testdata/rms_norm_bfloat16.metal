
    #if !defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)
// Metal helper functions
#if !defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)
// Set of global constants that could be shareable between CPU and Metal code

#ifdef __METAL__
#include <metal_array>
#define C10_METAL_CONSTEXPR constant constexpr
#else
#include <array>
#define C10_METAL_CONSTEXPR constexpr
#endif

// `if IF_CONSTEXPR (...)` reduces to `if constexpr` on Metal 4 (which supports
// C++17) and to a plain runtime `if` on Metal 3 (where the compiler will
// usually still constant-fold the branch, but it's not guaranteed).
#if __METAL_VERSION__ >= 400
#define IF_CONSTEXPR constexpr
#else
#define IF_CONSTEXPR
#endif

#define C10_METAL_ALL_TYPES_FUNCTOR(_) \
  _(Byte, 0, uchar)                    \
  _(Char, 1, char)                     \
  _(Short, 2, short)                   \
  _(Int, 3, int)                       \
  _(Long, 4, long)                     \
  _(Half, 5, half)                     \
  _(Float, 6, float)                   \
  _(ComplexHalf, 8, half2)             \
  _(ComplexFloat, 9, float2)           \
  _(Bool, 11, bool)                    \
  _(BFloat16, 15, bfloat)              \
  _(UInt16, 27, uint16_t)              \
  _(UInt32, 28, uint32_t)              \
  _(UInt64, 29, uint64_t)

namespace c10 {
namespace metal {
C10_METAL_CONSTEXPR unsigned max_ndim = 16;
C10_METAL_CONSTEXPR unsigned simdgroup_size = 32;
// Number of elements each thread processes in dense elementwise kernels.
// Reading/writing a small array of values per thread improves memory-level
// parallelism vs. a one-element-per-thread kernel.
C10_METAL_CONSTEXPR unsigned ILP_PER_THREAD = 4;
// String form of ILP_PER_THREAD, used to embed the unroll width in kernel
// host names (e.g. `add_dense_ilp4_float_float`). Keep in sync with
// ILP_PER_THREAD; a static_assert in indexing.h enforces this.
#define C10_METAL_ILP_PER_THREAD_STR "4"

#ifdef __METAL__
template <typename T, unsigned N>
using array = ::metal::array<T, N>;
#else
template <typename T, unsigned N>
using array = std::array<T, N>;
#endif

// Integer ceiling division: ceil(a / b). Usable from both host code and
// Metal shaders (where the overload is selected by ADL via `using namespace
// c10::metal;` in shader sources).
template <typename T>
inline T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

// Round `a` up to the next multiple of `b`: ceil(a / b) * b.
template <typename T>
inline T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

enum class ScalarType {
#define _DEFINE_ENUM_VAL_(_v, _n, _t) _v = _n,
  C10_METAL_ALL_TYPES_FUNCTOR(_DEFINE_ENUM_VAL_)
#undef _DEFINE_ENUM_VAL_
};

} // namespace metal
} // namespace c10

#else
#error "This file should not be included when either TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is defined."
#endif  // !defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)
#include <metal_stdlib>

namespace c10 {
namespace metal {

namespace detail {
template <typename T>
struct vectypes {};

template <>
struct vectypes<float> {
  using type4 = float4;
  using type3 = float3;
  using type2 = float2;
};

template <>
struct vectypes<half> {
  using type4 = half4;
  using type3 = half3;
  using type2 = half2;
};

template <>
struct vectypes<bfloat> {
  using type4 = bfloat4;
  using type3 = bfloat3;
  using type2 = bfloat2;
};

template <>
struct vectypes<short> {
  using type4 = short4;
  using type3 = short3;
  using type2 = short2;
};

template <>
struct vectypes<int> {
  using type4 = int4;
  using type3 = int3;
  using type2 = int2;
};

template <>
struct vectypes<long> {
  using type4 = short4;
  using type3 = short3;
  using type2 = short2;
};

template <typename T>
struct OpMathType {
  using type = T;
};

template <>
struct OpMathType<half> {
  using type = float;
};

template <>
struct OpMathType<short> {
  using type = int;
};

template <>
struct OpMathType<char> {
  using type = int;
};

template <>
struct OpMathType<uchar> {
  using type = int;
};

template <>
struct OpMathType<bfloat> {
  using type = float;
};

template <>
struct OpMathType<half2> {
  using type = float2;
};

// Type promotion structure for higher precision accumulation
template <typename T>
struct AccumulationType {
  using type = T;
};

// Specialization for half - promote to float for accumulation
template <>
struct AccumulationType<half> {
  using type = float;
};

// Specialization for bfloat - promote to float for accumulation
template <>
struct AccumulationType<bfloat> {
  using type = float;
};

} // namespace detail

template <typename T>
::metal::enable_if_t<::metal::is_floating_point_v<T>, T> max(T a, T b) {
  return ::metal::isunordered(a, b) ? NAN : ::metal::max(a, b);
}

template <typename T, typename U>
::metal::enable_if_t<::metal::is_integral_v<T>&& ::metal::is_integral_v<U>, T>
max(T a, U b) {
  return ::metal::max(a, static_cast<T>(b));
}

template <typename T>
::metal::enable_if_t<::metal::is_floating_point_v<T>, T> min(T a, T b) {
  return ::metal::isunordered(a, b) ? NAN : ::metal::min(a, b);
}

template <typename T, typename U>
::metal::enable_if_t<::metal::is_integral_v<T>&& ::metal::is_integral_v<U>, T>
min(T a, U b) {
  return ::metal::min(a, static_cast<T>(b));
}

template <>
inline bfloat min(bfloat a, bfloat b) {
  return bfloat(
      ::metal::isunordered(a, b) ? NAN : ::metal::min(float(a), float(b)));
}

template <>
inline bfloat max(bfloat a, bfloat b) {
  return bfloat(
      ::metal::isunordered(a, b) ? NAN : ::metal::max(float(a), float(b)));
}

// Less-than that sorts NaNs last. Uses a != a instead of metal::isnan,
// which gave wrong results at large threadgroup sizes on M2.
template <typename T>
inline ::metal::enable_if_t<::metal::is_floating_point_v<T>, bool> less(
    T a,
    T b) {
  if (a != a)
    return false;
  if (b != b)
    return true;
  return a < b;
}

template <typename T>
inline ::metal::enable_if_t<!::metal::is_floating_point_v<T>, bool> less(
    T a,
    T b) {
  return a < b;
}

template <typename T>
using vec2type_t = typename detail::vectypes<T>::type2;

template <typename T>
using vec4type_t = typename detail::vectypes<T>::type4;

template <typename T>
using opmath_t = typename detail::OpMathType<T>::type;

template <typename T>
using accum_t = typename detail::AccumulationType<T>::type;

// TODO: Move it to type_traits header may be
template <typename F, typename... Args>
using result_of = decltype(::metal::declval<F>()(::metal::declval<Args>()...));

template <typename T>
constexpr constant bool is_complex_v =
    ::metal::is_same_v<T, float2> || ::metal::is_same_v<T, half2>;

template <typename T>
constexpr constant bool is_scalar_floating_point_v =
    ::metal::is_floating_point_v<T> && ::metal::is_scalar_v<T>;

template <typename T>
constexpr constant bool is_scalar_integral_v =
    ::metal::is_integral_v<T> && ::metal::is_scalar_v<T>;

template <typename U, typename V>
using common_dtype = decltype(U(0) + V(0));

// floor_divide
template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        is_scalar_integral_v<T> && is_scalar_integral_v<U>,
        bool> = true>
inline common_dtype<T, U> floor_divide(T x, U y) {
  const auto quot = x / y;
  return (x < 0) == (y < 0) ? quot : (x % y != 0) ? quot - 1 : quot;
}

template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        is_scalar_floating_point_v<T> && is_scalar_floating_point_v<U>,
        bool> = true>
inline common_dtype<T, U> floor_divide(T x, U y) {
  return ::metal::floor(x / y);
}

// Workaround for Metal compiler bug: the compiler produces wrong results
// when optimizing fused (x / A) % B expressions for integral types.
template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        is_scalar_integral_v<T> && is_scalar_integral_v<U>,
        bool> = true>
inline common_dtype<T, U> safe_mod(volatile T x, U y) {
  return x % y;
}

// fmod
template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        is_scalar_integral_v<T> && is_scalar_integral_v<U>,
        bool> = true>
inline common_dtype<T, U> fmod(T x, U y) {
  return x % y;
}

template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        is_scalar_floating_point_v<T> && is_scalar_floating_point_v<U>,
        bool> = true>
inline common_dtype<T, U> fmod(T x, U y) {
  return ::metal::fmod(x, y);
}

// cast_to primitives
//  - No-op if types as the same
template <
    typename T,
    typename U,
    ::metal::enable_if_t<::metal::is_same_v<U, T>, bool> = true>
inline T cast_to(const U from) {
  return from;
}
//  - Simple cast between scalar and complex dtypes
template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        !::metal::is_same_v<U, T> && (is_complex_v<T> == is_complex_v<U>),
        bool> = true>
inline T cast_to(const U from) {
  return static_cast<T>(from);
}

// - Scalar to complex
template <
    typename T,
    typename U,
    ::metal::enable_if_t<is_complex_v<T> && !is_complex_v<U>, bool> = true>
inline T cast_to(const U from) {
  return T(float(from), 0.0);
}
// - Complex to bool: nonzero test over both components (matches bool(complex)).
template <
    typename T,
    typename U,
    ::metal::enable_if_t<::metal::is_same_v<T, bool> && is_complex_v<U>, bool> =
        true>
inline T cast_to(const U from) {
  return from.x != 0 || from.y != 0;
}
// - Complex to non-bool scalar (discards the imaginary part, matching CPU).
template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        !is_complex_v<T> && !::metal::is_same_v<T, bool> && is_complex_v<U>,
        bool> = true>
inline T cast_to(const U from) {
  return static_cast<T>(from.x);
}

// Generalizable math operators (used for both scalar and complex)

template <
    typename T,
    typename U,
    ::metal::enable_if_t<!is_complex_v<T>, bool> = true>
inline common_dtype<T, U> mul(const T x, const U y) {
  return x * y;
}

template <
    typename T,
    typename U,
    ::metal::enable_if_t<is_complex_v<T> && is_complex_v<U>, bool> = true>
inline common_dtype<T, U> mul(const T x, const U y) {
  return T(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);
}

template <
    typename T,
    typename U,
    ::metal::enable_if_t<!is_complex_v<T>, bool> = true>
inline common_dtype<T, U> div(const T x, const U y) {
  return x / y;
}

template <
    typename T,
    typename U,
    ::metal::enable_if_t<is_complex_v<T> && is_complex_v<U>, bool> = true>
inline common_dtype<T, U> div(const T x, const U y) {
  // Purely real divisor: bypass the cross-term to avoid inf*0 / nan*0 = NaN
  // tainting the imag part. Mathematically equivalent for finite y.x.
  if (y.y == 0) {
    return T(x.x / y.x, x.y / y.x);
  }
  return T(::metal::dot(x, y), x.y * y.x - x.x * y.y) / ::metal::dot(y, y);
}

// Remainder operator
template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        is_scalar_floating_point_v<T> || is_scalar_floating_point_v<U>,
        bool> = true>
inline float remainder(const T x, const U y) {
  const auto x_f = static_cast<float>(x);
  const auto y_f = static_cast<float>(y);
  return x_f - y_f * floor_divide(x_f, y_f);
}

template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        is_scalar_integral_v<T> && is_scalar_integral_v<U>,
        bool> = true>
inline common_dtype<T, U> remainder(const T x, const U y) {
  auto rc = x % y;
  return rc == 0 || (x ^ y) > 0 ? rc : rc + y;
}

// Based on aten/src/ATen/native/Pow.h
template <
    typename T,
    ::metal::enable_if_t<is_scalar_integral_v<T>, bool> = true>
inline T powi_impl(T a, T b) {
  T result = 1;
  while (b) {
    if (b & 1) {
      result *= a;
    }
    b /= 2;
    a *= a;
  }
  return result;
}

template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        is_scalar_floating_point_v<T> || is_scalar_floating_point_v<U>,
        bool> = true>
inline float pow(T a, U b) {
  return ::metal::precise::pow(static_cast<float>(a), static_cast<float>(b));
}

// Complex pow - use polar form: a = r*e^(i*theta)
// a^b = exp(b * log(a)) = exp(b * (log(r) + i*theta))
template <
    typename T,
    typename U,
    ::metal::enable_if_t<is_complex_v<T> && is_complex_v<U>, bool> = true>
inline float2 pow(T a, U b) {
  // Convert a to polar form
  // Use explicit computation instead of length() due to numerical issues
  const auto r = ::metal::precise::sqrt(a.x * a.x + a.y * a.y);

  // Special case: if r is 0, return 0
  if (r == 0.0) {
    return float2(0.0, 0.0);
  }

  const auto theta = ::metal::precise::atan2(a.y, a.x);
  const auto log_r = ::metal::precise::log(r);

  // Calculate a^b = r^b * e^(i*theta*b)
  // new_r = exp(b.x * log(r) - b.y * theta)
  // new_theta = b.x * theta + b.y * log(r)
  const auto new_r = ::metal::precise::exp(b.x * log_r - b.y * theta);
  const auto new_theta = b.x * theta + b.y * log_r;

  return float2(
      new_r * ::metal::precise::cos(new_theta),
      new_r * ::metal::precise::sin(new_theta));
}

// Integral pow - unsigned types
template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        is_scalar_integral_v<T> && !::metal::is_signed_v<T>,
        bool> = true>
inline T pow(T a, U b) {
  return powi_impl(a, T(b));
}

// Integral pow - signed types
template <
    typename T,
    typename U,
    ::metal::enable_if_t<
        is_scalar_integral_v<T>&& ::metal::is_signed_v<T>,
        bool> = true>
inline T pow(T a, U b) {
  if (b < 0) {
    if (a == 1) {
      return 1;
    } else if (a == -1) {
      auto negative = (-b) % static_cast<T>(2);
      return negative ? -1 : 1;
    } else {
      return 0;
    }
  }
  return powi_impl(a, T(b));
}

// Based on algorithm described in
// https://docs.oracle.com/cd/E19957-01/806-3568/ncg_goldberg.html#1202
inline float log1p(float x) {
  const auto xp1 = 1.0f + x;
  // First two elements of Taylor series for log(1+x) in Horner's form are:
  // log(1+x) = x * (1 - x * (.5 ...)), but if 1 + x == x, then it's just x
  if (xp1 == 1.0f) {
    return x;
  }
  auto rc = ::metal::precise::log(xp1);
  if (x > -.5 && x < .5) {
    // Order of operations is important here for higher precision
    rc *= x / (xp1 - 1.0f);
  }
  return rc;
}

// The function is ported from mlx
inline float2 log1p(float2 in) {
  float x = in.x;
  float y = in.y;
  float zabs = ::metal::precise::sqrt(x * x + y * y);
  float theta = ::metal::atan2(y, x + 1);
  if (zabs < 0.5f) {
    float r = x * (2 + x) + y * y;
    if (r == 0) { // handle underflow
      return {x, theta};
    }
    return {0.5f * log1p(r), theta};
  } else {
    auto z0 = ::metal::sqrt((x + 1) * (x + 1) + y * y);
    return {::metal::log(z0), theta};
  }
}

template <typename T1, typename T2 = T1>
struct pair {
  T1 first;
  T2 second;
};

template <typename T>
inline T conj(T a) {
  return a;
}

template <>
inline half2 conj(half2 a) {
  return half2(a.x, -a.y);
}

template <>
inline float2 conj(float2 a) {
  return float2(a.x, -a.y);
}

// The following implementation of hypot provides better numerical stability
// than the naive implementation. It is based on:
// https://github.com/pearu/functional_algorithms/blob/7dbbfd7db225b1c202e0e364fc435423ccf52dbe/functional_algorithms/algorithms.py#L168
//
// This implementation changes the naive formula for the hypotenuse of a right
// triangle, `h = sqrt(a^2 + b^2)`, into three alternate forms to be used in
// different cases. The reason why the naive formula is unstable is because of
// the square terms. If `a` or `b` are very large or very small floating point
// numbers, then their squares will resolve to inf or 0.
//
// Assume `a >= b >= 0`. We can first change the formula to:
// `h = a sqrt(1 + (b / a)^2)`
// `h = a sqrt(1 + r)`
// where `r = (b / a)^2`. Since `a >= b >= 0`, then `1 >= r >= 0`.
//
// Case 1: `a == b`
//   The formula simplifies to `h = a sqrt(2)`.
//
// Case 2: `1 >> r > 0`
//   Due to floating point error, `sqrt(1 + r)` resolves to 1. So we use the
//   binomial approximation `sqrt(1 + r) ≈ 1 + r / 2`, and the formula becomes
//   `h ≈ a + a r / 2`.
//
// Case 3: All other cases.
//   Use `h = a sqrt(1 + r)`.
inline float hypot(float a_, float b_) {
  auto a = max(a_, b_);
  auto b = min(a_, b_);

  auto b_over_a = c10::metal::div(b, a);
  auto r = c10::metal::mul(b_over_a, b_over_a);
  auto sqrt_1_plus_r = ::metal::precise::sqrt(1 + r);

  auto h1 = M_SQRT2_F * a;
  auto h2 = a + a * r / 2;
  auto h3 = a * sqrt_1_plus_r;
  bool is_h1 = (a == b);
  bool is_h2 = ((sqrt_1_plus_r == 1) && (r > 0));

  return ::metal::select(::metal::select(h3, h2, is_h2), h1, is_h1);
}

#define INSTANTIATE_FOR_ALL_TYPES(MACRO) \
  MACRO(float);                          \
  MACRO(half);                           \
  MACRO(bfloat);                         \
  MACRO(float2);                         \
  MACRO(long);                           \
  MACRO(char);                           \
  MACRO(uchar);                          \
  MACRO(short);                          \
  MACRO(int);

#define INSTANTIATE_FOR_FLOAT_TYPES(MACRO) \
  MACRO(float);                            \
  MACRO(half);                             \
  MACRO(bfloat);

} // namespace metal
} // namespace c10

#else
#error "This file should not be included when either TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is defined."
#endif  // !defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)
#if !defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)

#include <metal_compute>

namespace c10 {
namespace metal {
namespace detail {
template <typename T>
struct simd_type {
  using t = T;
};

// Helper that allows one to run simd ops over bfl16 by upcasting them to fp32
template <typename T>
using simd_type_t = typename simd_type<T>::t;

template <>
struct simd_type<bfloat> {
  using t = float;
};
} // namespace detail

template <typename T>
inline ::metal::
    enable_if_t<!::metal::is_same_v<T, long> && !c10::metal::is_complex_v<T>, T>
    simd_sum(T val) {
  return T(::metal::simd_sum(detail::simd_type_t<T>(val)));
}

inline float2 simd_sum(float2 val) {
  return float2(::metal::simd_sum(val.x), ::metal::simd_sum(val.y));
}

template <typename T>
inline ::metal::
    enable_if_t<!::metal::is_same_v<T, long> && !c10::metal::is_complex_v<T>, T>
    simd_prod(T val) {
  return T(::metal::simd_product(detail::simd_type_t<T>(val)));
}

// Complex product reduction via shuffle, using c10::metal::mul for (a+bi)(c+di)
// Uses simd_shuffle_and_fill_down with identity (1+0i) for inactive lanes.
inline float2 simd_prod(float2 val) {
  for (ushort i = simdgroup_size / 2; i > 0; i /= 2) {
    val = c10::metal::mul(
        val, ::metal::simd_shuffle_and_fill_down(val, float2(1, 0), i));
  }
  return val;
}

// Extend simd_broadcast to 64-bit integral types using int2 trick
template <
    typename T,
    ::metal::enable_if_t<::metal::is_integral_v<T> && sizeof(T) == 8, bool> =
        true>
inline T simd_broadcast(T val, ushort lane_id) {
  return as_type<T>(::metal::simd_broadcast(as_type<int2>(val), lane_id));
}

template <
    typename T,
    ::metal::enable_if_t<!::metal::is_integral_v<T> || sizeof(T) != 8, bool> =
        true>
inline T simd_broadcast(T val, ushort lane_id) {
  return ::metal::simd_broadcast(val, lane_id);
}

// Floating simd_min/max with nan propagation
template <
    typename T,
    ::metal::enable_if_t<::metal::is_floating_point_v<T>, bool> = true>
inline T simd_max(T val) {
  if (::metal::simd_any(::metal::isnan(val))) {
    return ::metal::numeric_limits<T>::quiet_NaN();
  }
  return T(::metal::simd_max(detail::simd_type_t<T>(val)));
}

template <
    typename T,
    ::metal::enable_if_t<::metal::is_floating_point_v<T>, bool> = true>
inline T simd_min(T val) {
  if (::metal::simd_any(::metal::isnan(val))) {
    return ::metal::numeric_limits<T>::quiet_NaN();
  }
  return T(::metal::simd_min(detail::simd_type_t<T>(val)));
}

template <
    typename T,
    ::metal::enable_if_t<::metal::is_integral_v<T> && sizeof(T) != 8, bool> =
        true>
inline T simd_max(T val) {
  return ::metal::simd_max(val);
}

template <
    typename T,
    ::metal::enable_if_t<::metal::is_integral_v<T> && sizeof(T) != 8, bool> =
        true>
inline T simd_min(T val) {
  return ::metal::simd_min(val);
}

// Metal does not support SIMD reductions over 64-bit types, but it could be
// implement using simd_shuffle_down, that yields result in log2(simdgroup_size)
// iterations Use fill variant, as shuffle down returns garbage if inactive
// thread is referenced (on M1/M2, works fine on M4) and broadcast result to all
// threads in the end. Implementation heavily borrows from
// https://github.com/ml-explore/mlx/blob/86389bf9707f46101af45d90510e8e97c8a90b93/mlx/backend/metal/kernels/reduction/ops.h#L16
template <typename T>
inline ::metal::enable_if_t<::metal::is_same_v<T, long>, T> simd_sum(T val) {
  for (ushort i = simdgroup_size / 2; i > 0; i /= 2) {
    val += as_type<T>(
        ::metal::simd_shuffle_and_fill_down(as_type<int2>(val), int2(0), i));
  }
  return simd_broadcast(val, 0);
}

template <typename T>
inline ::metal::enable_if_t<::metal::is_same_v<T, long>, T> simd_prod(T val) {
  for (ushort i = simdgroup_size / 2; i > 0; i /= 2) {
    val *= as_type<T>(
        ::metal::simd_shuffle_and_fill_down(as_type<int2>(val), int2(0), i));
  }
  return simd_broadcast(val, 0);
}

// Fill value for shuffle_and_fill_down must be the op's identity (the fill
// is contributed by lanes whose shuffle target is past simdgroup_size).
//
// NOTE: callers with fewer than simdgroup_size active lanes still risk
// corruption -- an active lane reading from an in-range but inactive lane
// gets undefined data (0 in practice on Apple Silicon), not the fill.
// Round up the dispatched thread count to a multiple of simdgroup_size
// and have padding threads load the op identity before calling this.
template <typename T>
inline ::metal::enable_if_t<::metal::is_same_v<T, long>, T> simd_max(T val) {
  const auto fill = as_type<int2>(::metal::numeric_limits<long>::lowest());
  for (ushort i = simdgroup_size / 2; i > 0; i /= 2) {
    val = ::metal::max(
        val,
        as_type<T>(
            ::metal::simd_shuffle_and_fill_down(as_type<int2>(val), fill, i)));
  }
  return simd_broadcast(val, 0);
}

template <typename T>
inline ::metal::enable_if_t<::metal::is_same_v<T, long>, T> simd_min(T val) {
  const auto fill = as_type<int2>(::metal::numeric_limits<long>::max());
  for (ushort i = simdgroup_size / 2; i > 0; i /= 2) {
    val = ::metal::min(
        val,
        as_type<T>(
            ::metal::simd_shuffle_and_fill_down(as_type<int2>(val), fill, i)));
  }
  return simd_broadcast(val, 0);
}

// argmin/argmax helpers using simd_ballot
template <
    typename T,
    ::metal::enable_if_t<::metal::is_integral_v<T>, bool> = true>
inline ::c10::metal::pair<T, ushort> simd_argmin(T val) {
  const auto rc = simd_min(val);
  const auto vote = ::metal::simd_ballot(val == rc);
  return {rc, static_cast<ushort>(::metal::ctz(static_cast<ulong>(vote)))};
}

template <
    typename T,
    ::metal::enable_if_t<::metal::is_floating_point_v<T>, bool> = true>
inline ::c10::metal::pair<T, ushort> simd_argmin(T val) {
  const auto rc = simd_min(val);
  const auto vote = ::metal::simd_ballot(val == rc || ::metal::isnan(val));
  return {rc, static_cast<ushort>(::metal::ctz(static_cast<ulong>(vote)))};
}

template <
    typename T,
    ::metal::enable_if_t<::metal::is_integral_v<T>, bool> = true>
inline ::c10::metal::pair<T, ushort> simd_argmax(T val) {
  const auto rc = simd_max(val);
  const auto vote = ::metal::simd_ballot(val == rc);
  return {rc, static_cast<ushort>(::metal::ctz(static_cast<ulong>(vote)))};
}

template <
    typename T,
    ::metal::enable_if_t<::metal::is_floating_point_v<T>, bool> = true>
inline ::c10::metal::pair<T, ushort> simd_argmax(T val) {
  const auto rc = simd_max(val);
  const auto vote = ::metal::simd_ballot(val == rc || ::metal::isnan(val));
  return {rc, static_cast<ushort>(::metal::ctz(static_cast<ulong>(vote)))};
}

template <typename ARG_T, typename IDX_T>
inline c10::metal::pair<ARG_T, IDX_T> simd_argmin(ARG_T val, IDX_T idx_val) {
  auto rc = simd_argmin(val);
  return {rc.first, simd_broadcast(idx_val, rc.second)};
}

template <typename ARG_T, typename IDX_T>
inline c10::metal::pair<ARG_T, IDX_T> simd_argmax(ARG_T val, IDX_T idx_val) {
  auto rc = simd_argmax(val);
  return {rc.first, simd_broadcast(idx_val, rc.second)};
}

// Below algorithms are  written with hardcoded assumption that simdgroup is 32
// and threadgroup_max is 1024, i.e. reduction can be done in two stages max
template <typename T>
opmath_t<T> threadgroup_sum(
    threadgroup opmath_t<T>* data,
    T val,
    unsigned idx,
    unsigned size) {
  auto rc = simd_sum(static_cast<opmath_t<T>>(val));
  if (idx % simdgroup_size == 0) {
    data[idx / simdgroup_size] = rc;
  }
  if (size > simdgroup_size) {
    ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
    if (idx < ((size + simdgroup_size - 1) / simdgroup_size)) {
      auto rc1 = simd_sum(data[idx]);
      if (idx == 0) {
        data[0] = rc1;
      }
    }
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  return data[0];
}

template <typename T>
::metal::array<opmath_t<T>, 2> threadgroup_sum2(
    threadgroup opmath_t<T>* data_a,
    threadgroup opmath_t<T>* data_b,
    T val_a,
    T val_b,
    unsigned idx,
    unsigned size) {
  auto rc_a = simd_sum(static_cast<opmath_t<T>>(val_a));
  auto rc_b = simd_sum(static_cast<opmath_t<T>>(val_b));
  if (idx % simdgroup_size == 0) {
    data_a[idx / simdgroup_size] = rc_a;
    data_b[idx / simdgroup_size] = rc_b;
  }
  if (size > simdgroup_size) {
    ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
    if (idx < ((size + simdgroup_size - 1) / simdgroup_size)) {
      auto rc1_a = simd_sum(data_a[idx]);
      auto rc1_b = simd_sum(data_b[idx]);
      if (idx == 0) {
        data_a[0] = rc1_a;
        data_b[0] = rc1_b;
      }
    }
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  return ::metal::array<opmath_t<T>, 2>{data_a[0], data_b[0]};
}

template <typename T>
opmath_t<T> threadgroup_prod(
    threadgroup opmath_t<T>* data,
    T val,
    unsigned idx,
    unsigned size) {
  auto rc = simd_prod(static_cast<opmath_t<T>>(val));
  if (idx % simdgroup_size == 0) {
    data[idx / simdgroup_size] = rc;
  }
  if (size > simdgroup_size) {
    ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
    if (idx < ((size + simdgroup_size - 1) / simdgroup_size)) {
      auto rc1 = simd_prod(data[idx]);
      if (idx == 0) {
        data[0] = rc1;
      }
    }
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  return data[0];
}

template <typename T>
T threadgroup_max(threadgroup T* data, T val, unsigned idx, unsigned size) {
  auto rc = simd_max(val);
  if (idx % simdgroup_size == 0) {
    data[idx / simdgroup_size] = rc;
  }
  if (size > simdgroup_size) {
    ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
    if (idx < ((size + simdgroup_size - 1) / simdgroup_size)) {
      auto rc1 = simd_max(data[idx]);
      if (idx == 0) {
        data[0] = rc1;
      }
    }
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  return data[0];
}

template <typename T>
T threadgroup_min(threadgroup T* data, T val, unsigned idx, unsigned size) {
  auto rc = simd_min(val);
  if (idx % simdgroup_size == 0) {
    data[idx / simdgroup_size] = rc;
  }
  if (size > simdgroup_size) {
    ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
    if (idx < ((size + simdgroup_size - 1) / simdgroup_size)) {
      auto rc1 = simd_min(data[idx]);
      if (idx == 0) {
        data[0] = rc1;
      }
    }
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  return data[0];
}

template <typename T>
float3 threadgroup_welford_reduce(threadgroup T* data, unsigned size) {
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  float m = data[0];
  float m2 = 0;
  for (unsigned idx = 1; idx < size; ++idx) {
    float delta = data[idx] - m;
    m += delta / (idx + 1);
    m2 += delta * (data[idx] - m);
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  return float3(m, m2, size);
}

// Each vec3type is tuple of mean, m2 and weight
template <typename T>
float3 welford_combine(T a, T b) {
  float delta = b.x - a.x;
  float new_weight = a.z + b.z;
  auto w2_over_w = new_weight != 0 ? b.z / new_weight : 0.0;
  return float3(
      a.x + delta * w2_over_w,
      a.y + b.y + delta * delta * a.z * w2_over_w,
      new_weight);
}

template <typename T>
float3 threadgroup_welford_combine(threadgroup T* data, unsigned size) {
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  float3 rc = data[0];
  for (unsigned idx = 1; idx < size; ++idx) {
    rc = welford_combine(rc, data[idx]);
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  return rc;
}

template <typename ARG_T, typename IDX_T>
IDX_T threadgroup_argmax(
    threadgroup ARG_T* arg_data,
    threadgroup IDX_T* idx_data,
    ARG_T val,
    IDX_T idx_val,
    unsigned idx,
    unsigned size) {
  auto rc = simd_argmax(val, idx_val);
  if (size <= simdgroup_size) {
    return rc.second;
  }
  if (idx % simdgroup_size == 0) {
    arg_data[idx / simdgroup_size] = rc.first;
    idx_data[idx / simdgroup_size] = rc.second;
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  if (idx < ((size + simdgroup_size - 1) / simdgroup_size)) {
    auto rc1 = simd_argmax(arg_data[idx], idx_data[idx]);
    if (idx == 0) {
      idx_data[0] = rc1.second;
    }
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  return idx_data[0];
}

template <typename ARG_T, typename IDX_T>
IDX_T threadgroup_argmin(
    threadgroup ARG_T* arg_data,
    threadgroup IDX_T* idx_data,
    ARG_T val,
    IDX_T idx_val,
    unsigned idx,
    unsigned size) {
  auto rc = simd_argmin(val, idx_val);
  if (size <= simdgroup_size) {
    return rc.second;
  }
  if (idx % simdgroup_size == 0) {
    arg_data[idx / simdgroup_size] = rc.first;
    idx_data[idx / simdgroup_size] = rc.second;
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  if (idx < ((size + simdgroup_size - 1) / simdgroup_size)) {
    auto rc1 = simd_argmin(arg_data[idx], idx_data[idx]);
    if (idx == 0) {
      idx_data[0] = rc1.second;
    }
  }
  ::metal::threadgroup_barrier(::metal::mem_flags::mem_threadgroup);
  return idx_data[0];
}

// Reduction op functors bundling identity, replace predicate, and the value
// reduction helpers (combine / simd_reduce / threadgroup_reduce) used by both
// value and arg reductions. NaN handling: for floats, isnan-propagating
// max/min and a strict "replace" predicate that lets NaN beat any finite
// value and lets any finite value beat -INF/+INF identity.
//
// Float identity is +/-INFINITY (not numeric_limits::lowest/max, i.e.
// -/+FLT_MAX): max(-INF, x) = x for any finite x including -FLT_MAX, but
// max(-FLT_MAX, -INFINITY) would incorrectly return -FLT_MAX.
//
// The isnan() calls below route through static_cast<float>() so the float
// branch type-checks even when T is integral (Metal 3 lowers `if IF_CONSTEXPR`
// to a runtime `if` and parses both arms). Both branches' bodies still get
// dropped on Metal 4 where IF_CONSTEXPR is real `if constexpr`.
template <typename T>
struct MaxOp {
  static inline constexpr T identity() {
    if IF_CONSTEXPR (::metal::is_floating_point_v<T>) {
      return T(-INFINITY);
    } else {
      return ::metal::numeric_limits<T>::lowest();
    }
  }

  // Strict "should-replace" predicate: returns true iff cand strictly beats
  // cur. NaN-propagating: NaN cand beats finite cur; finite cand never beats
  // NaN cur.
  static inline bool replace(T cand, T cur) {
    if IF_CONSTEXPR (::metal::is_floating_point_v<T>) {
      if (::metal::isnan(static_cast<float>(cur))) {
        return false;
      }
      return ::metal::isnan(static_cast<float>(cand)) || cand > cur;
    }
    return cand > cur;
  }

  static inline T combine(T a, T b) {
    return c10::metal::max(a, b);
  }
  static inline T simd_reduce(T val) {
    return c10::metal::simd_max(val);
  }
  static inline T threadgroup_reduce(
      threadgroup T* shared,
      T val,
      uint tid,
      uint tptg) {
    return c10::metal::threadgroup_max(shared, val, tid, tptg);
  }
};

template <typename T>
struct MinOp {
  static inline constexpr T identity() {
    if IF_CONSTEXPR (::metal::is_floating_point_v<T>) {
      return T(INFINITY);
    } else {
      return ::metal::numeric_limits<T>::max();
    }
  }

  static inline bool replace(T cand, T cur) {
    if IF_CONSTEXPR (::metal::is_floating_point_v<T>) {
      if (::metal::isnan(static_cast<float>(cur))) {
        return false;
      }
      return ::metal::isnan(static_cast<float>(cand)) || cand < cur;
    }
    return cand < cur;
  }

  static inline T combine(T a, T b) {
    return c10::metal::min(a, b);
  }
  static inline T simd_reduce(T val) {
    return c10::metal::simd_min(val);
  }
  static inline T threadgroup_reduce(
      threadgroup T* shared,
      T val,
      uint tid,
      uint tptg) {
    return c10::metal::threadgroup_min(shared, val, tid, tptg);
  }
};

} // namespace metal
} // namespace c10

#else
#error "This file should not be included when either TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is defined."
#endif  // !defined(TORCH_STABLE_ONLY) && !defined(TORCH_TARGET_VERSION)

    [[max_total_threads_per_threadgroup(64)]]
    kernel void generated_kernel(
        device bfloat* out_ptr1,
        constant bfloat* in_ptr0,
        constant bfloat* in_ptr1,
        constant bfloat* in_ptr2,
        uint2 thread_pos [[thread_position_in_grid]],
        uint2 group_pos [[thread_position_in_threadgroup]]
    ) {
        auto xindex = thread_pos.x;
        auto r0_index = thread_pos.y;
        int r0_1 = r0_index;
        int x0 = xindex;
        threadgroup float tmp_acc_0[2];
        auto tmp0 = static_cast<float>(in_ptr0[r0_1 + 64*x0]);
        auto tmp1 = static_cast<float>(in_ptr1[r0_1 + 64*x0]);
        auto tmp2 = tmp0 + tmp1;
        auto tmp3 = static_cast<float>(tmp2);
        auto tmp4 = tmp3 * tmp3;
        auto tmp5 = c10::metal::threadgroup_sum(tmp_acc_0, tmp4, r0_index * 1, 64);
        auto tmp13 = static_cast<float>(in_ptr2[r0_1]);
        auto tmp6 = 64.0;
        auto tmp7 = tmp5 / tmp6;
        auto tmp8 = 9.999999747378752e-06;
        auto tmp9 = tmp7 + tmp8;
        auto tmp10 = metal::precise::rsqrt(tmp9);
        auto tmp11 = tmp3 * tmp10;
        auto tmp12 = static_cast<bfloat>(tmp11);
        auto tmp14 = tmp12 * tmp13;
        out_ptr1[r0_1 + 64*x0] = static_cast<bfloat>(tmp14);
    }
