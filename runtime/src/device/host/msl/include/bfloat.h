// bfloat: the upper half of a float. Arithmetic is done in float and rounded to nearest even
// after every operation. A float or half becomes a bfloat only where the program says so, as
// with Apple's compiler.
#pragma once
#include "base.h"

namespace msl {

// What a binary operation of a bfloat and a T gives.
template <class T>
struct bfloat_mix {
  static constexpr bool valid = is_integer_element<T>;
  using result = bfloat;
};
template <>
struct bfloat_mix<float> {
  static constexpr bool valid = true;
  using result = float;
};
template <>
struct bfloat_mix<half> {
  static constexpr bool valid = true;
  using result = float;
};
template <class T>
using bfloat_result =
    typename metal::enable_if<bfloat_mix<T>::valid, typename bfloat_mix<T>::result>::type;
template <class T, class R>
using if_bfloat_operand = metal::enable_if_t<bfloat_mix<T>::valid, R>;

// The bfloat nearest to a float, ties to even; NaN stays NaN. Written so that the compiler sees
// that what was a bfloat before stays as it is: none of the sums then reaches the upper half.
// (The instructions that AVX-512 has for it take denormals for zero, and are not used.)
MSL_INLINE constexpr ushort bfloat_bits(float value) {
  const uint bits = __builtin_bit_cast(uint, value);
  const uint rounded = bits + (0x7fffu + ((bits >> 16) & 1));
  // A bit of the lower half is carried into the upper one, lest the NaN become an infinity.
  const uint still_nan = bits | (bits + 0xffffu);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return (ushort)((nan ? still_nan : rounded) >> 16);
}

}  // namespace msl

struct bfloat {
  ushort bits;

  bfloat() = default;
  template <class T, class = metal::enable_if_t<msl::is_integer_element<T>>>
  MSL_INLINE constexpr bfloat(T value) : bits(msl::bfloat_bits((float)value)) {}
  MSL_INLINE constexpr explicit bfloat(float value) : bits(msl::bfloat_bits(value)) {}
  MSL_INLINE constexpr explicit bfloat(half value) : bits(msl::bfloat_bits((float)value)) {}

  MSL_INLINE constexpr operator float() const {
    return __builtin_bit_cast(float, (uint)bits << 16);
  }
  MSL_INLINE constexpr bfloat operator+() const { return *this; }
  MSL_INLINE constexpr bfloat operator-() const {
    bfloat negated = *this;
    negated.bits ^= 0x8000;
    return negated;
  }
  MSL_INLINE bfloat& operator++() { return *this = bfloat((float)*this + 1.0f); }
  MSL_INLINE bfloat& operator--() { return *this = bfloat((float)*this - 1.0f); }
  MSL_INLINE bfloat operator++(int) {
    bfloat old = *this;
    ++*this;
    return old;
  }
  MSL_INLINE bfloat operator--(int) {
    bfloat old = *this;
    --*this;
    return old;
  }
  MSL_INLINE bfloat& operator+=(float o) { return *this = bfloat((float)*this + o); }
  MSL_INLINE bfloat& operator-=(float o) { return *this = bfloat((float)*this - o); }
  MSL_INLINE bfloat& operator*=(float o) { return *this = bfloat((float)*this * o); }
  MSL_INLINE bfloat& operator/=(float o) { return *this = bfloat((float)*this / o); }
};

#define MSL_BFLOAT_ARITHMETIC(op)                                            \
  MSL_INLINE constexpr bfloat operator op(bfloat a, bfloat b) {              \
    return bfloat((float)a op(float) b);                                     \
  }                                                                          \
  template <class T>                                                         \
  MSL_INLINE constexpr msl::bfloat_result<T> operator op(bfloat a, T b) {    \
    return msl::bfloat_result<T>((float)a op(float) b);                      \
  }                                                                          \
  template <class T>                                                         \
  MSL_INLINE constexpr msl::bfloat_result<T> operator op(T a, bfloat b) {    \
    return msl::bfloat_result<T>((float)a op(float) b);                      \
  }
MSL_BFLOAT_ARITHMETIC(+)
MSL_BFLOAT_ARITHMETIC(-)
MSL_BFLOAT_ARITHMETIC(*)
MSL_BFLOAT_ARITHMETIC(/)
#undef MSL_BFLOAT_ARITHMETIC

#define MSL_BFLOAT_COMPARISON(op)                                                     \
  MSL_INLINE constexpr bool operator op(bfloat a, bfloat b) {                         \
    return (float)a op(float) b;                                                      \
  }                                                                                   \
  template <class T>                                                                  \
  MSL_INLINE constexpr msl::if_bfloat_operand<T, bool> operator op(bfloat a, T b) {   \
    return (float)a op(float) b;                                                      \
  }                                                                                   \
  template <class T>                                                                  \
  MSL_INLINE constexpr msl::if_bfloat_operand<T, bool> operator op(T a, bfloat b) {   \
    return (float)a op(float) b;                                                      \
  }
MSL_BFLOAT_COMPARISON(<)
MSL_BFLOAT_COMPARISON(>)
MSL_BFLOAT_COMPARISON(<=)
MSL_BFLOAT_COMPARISON(>=)
MSL_BFLOAT_COMPARISON(==)
MSL_BFLOAT_COMPARISON(!=)
#undef MSL_BFLOAT_COMPARISON
