// Integer functions.
#pragma once
#include "math.h"

namespace msl {

template <class T, class R = T>
using if_integer = metal::enable_if_t<metal::is_scalar_v<T> && metal::is_integral_v<T>, R>;
template <class T>
constexpr uint bit_width = sizeof(T) * 8;

// T with twice the bits, for products and sums that must not overflow.
template <class T>
using wide = metal::conditional_t<
    sizeof(T) == 8, metal::conditional_t<metal::is_signed_v<T>, __int128, unsigned __int128>,
    metal::conditional_t<metal::is_signed_v<T>, long, ulong>>;

template <class T>
MSL_INLINE constexpr T saturated(wide<T> value) {
  constexpr wide<T> lowest = metal::numeric_limits<T>::lowest();
  constexpr wide<T> highest = metal::numeric_limits<T>::max();
  return T(value < lowest ? lowest : value > highest ? highest : value);
}

}  // namespace msl

namespace metal {

template <class T>
MSL_INLINE constexpr enable_if_t<is_scalar_v<T>, T> abs(T x) {
  if constexpr (is_same_v<T, float>)
    return __builtin_fabsf(x);
  else if constexpr (is_floating_point_v<T>)
    return T(__builtin_fabsf((float)x));
  else
    return x < T(0) ? T(-x) : x;
}
template <class T, uint N>
MSL_INLINE constexpr vec<T, N> abs(const vec<T, N>& v) {
  return msl::map<T, N>([](T x) { return abs(x); }, v);
}
namespace precise {
using metal::abs;
}

#define MSL_INTEGER_FUNCTION(name, expression)                                            \
  template <class T>                                                                      \
  MSL_INLINE constexpr msl::if_integer<T> name(T x) {                                     \
    using U = make_unsigned_t<T>;                                                         \
    constexpr uint width = msl::bit_width<T>;                                             \
    return T(expression);                                                                 \
  }                                                                                       \
  template <class T, uint N>                                                              \
  MSL_INLINE constexpr vec<T, N> name(const vec<T, N>& v) {                               \
    return msl::map<T, N>([](T x) { return name(x); }, v);                                \
  }
MSL_INTEGER_FUNCTION(popcount, __builtin_popcountl((ulong)U(x)))
MSL_INTEGER_FUNCTION(clz, x == 0 ? width : (uint)__builtin_clzl((ulong)U(x)) - (64 - width))
MSL_INTEGER_FUNCTION(ctz, x == 0 ? width : (uint)__builtin_ctzl((ulong)U(x)))
MSL_INTEGER_FUNCTION(reverse_bits, __builtin_bitreverse64((ulong)U(x)) >> (64 - width))
#undef MSL_INTEGER_FUNCTION

#define MSL_INTEGER_FUNCTION_2(name, R, expression)                                       \
  template <class T>                                                                      \
  MSL_INLINE constexpr msl::if_integer<T, R> name(T a, T b) {                             \
    using W = msl::wide<T>;                                                               \
    using U = make_unsigned_t<T>;                                                         \
    constexpr uint width = msl::bit_width<T>;                                             \
    return R(expression);                                                                 \
  }                                                                                       \
  template <class T, uint N>                                                              \
  MSL_INLINE constexpr vec<R, N> name(const vec<T, N>& a, const vec<T, N>& b) {           \
    return msl::map<R, N>([](T x, T y) { return name(x, y); }, a, b);                     \
  }
MSL_INTEGER_FUNCTION_2(absdiff, make_unsigned_t<T>, a < b ? U(b) - U(a) : U(a) - U(b))
MSL_INTEGER_FUNCTION_2(addsat, T, msl::saturated<T>(W(a) + W(b)))
MSL_INTEGER_FUNCTION_2(subsat, T,
                       is_signed_v<T> ? msl::saturated<T>(W(a) - W(b))
                                      : (a < b ? T(0) : T(a - b)))
MSL_INTEGER_FUNCTION_2(hadd, T, (W(a) + W(b)) >> 1)
MSL_INTEGER_FUNCTION_2(rhadd, T, (W(a) + W(b) + 1) >> 1)
MSL_INTEGER_FUNCTION_2(mulhi, T, (W(a) * W(b)) >> width)
MSL_INTEGER_FUNCTION_2(rotate, T,
                       U(a) << (U(b) % width) | U(a) >> ((width - U(b) % width) % width))
#undef MSL_INTEGER_FUNCTION_2

// Only the lower 24 bits of the operands count.
template <class T>
MSL_INLINE constexpr T mul24(T a, T b) {
  return T(a * b);
}
template <class T>
MSL_INLINE constexpr T mad24(T a, T b, T c) {
  return T(mul24(a, b) + c);
}
template <class T>
MSL_INLINE constexpr msl::if_integer<T> madhi(T a, T b, T c) {
  return T(mulhi(a, b) + c);
}
template <class T>
MSL_INLINE constexpr msl::if_integer<T> madsat(T a, T b, T c) {
  return msl::saturated<T>(msl::wide<T>(a) * msl::wide<T>(b) + msl::wide<T>(c));
}

// `bits` bits of x from bit `offset` up, with the sign of the highest for signed types.
template <class T>
MSL_INLINE constexpr msl::if_integer<T> extract_bits(T x, uint offset, uint bits) {
  constexpr uint width = msl::bit_width<T>;
  if (bits == 0) return T(0);
  if (bits >= width) return x;
  using U = make_unsigned_t<T>;
  return T(T(U(x) << (width - offset - bits)) >> (width - bits));
}
// x with `bits` bits from bit `offset` up replaced by the lowest ones of `insert`.
template <class T>
MSL_INLINE constexpr msl::if_integer<T> insert_bits(T x, T insert, uint offset, uint bits) {
  constexpr uint width = msl::bit_width<T>;
  using U = make_unsigned_t<T>;
  U mask = bits >= width ? U(~U(0)) : U(((ulong)1 << bits) - 1);
  mask = U(mask << offset);
  return T((U(x) & U(~mask)) | (U(U(insert) << offset) & mask));
}

}  // namespace metal
