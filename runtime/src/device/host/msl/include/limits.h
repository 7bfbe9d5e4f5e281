// metal::numeric_limits.
#pragma once
#include "bfloat.h"

namespace metal {

template <class T>
struct numeric_limits {
  static constexpr bool is_specialized = is_integral_v<T>, is_integer = is_integral_v<T>,
                        is_signed = is_signed_v<T>, is_exact = true, is_iec559 = false,
                        has_infinity = false, has_quiet_NaN = false;
  static constexpr int radix = 2, digits = sizeof(T) * 8 - is_signed_v<T>,
                       digits10 = digits * 30103 / 100000;
  static constexpr T max() {
    return is_signed ? T(make_unsigned_t<T>(~make_unsigned_t<T>(0)) >> 1) : T(~T(0));
  }
  static constexpr T lowest() { return is_signed ? T(-max() - 1) : T(0); }
  static constexpr T min() { return lowest(); }
  static constexpr T epsilon() { return T(0); }
  static constexpr T infinity() { return T(0); }
  static constexpr T quiet_NaN() { return T(0); }
};

template <>
struct numeric_limits<bool> {
  static constexpr bool is_specialized = true, is_integer = true, is_signed = false,
                        is_exact = true, is_iec559 = false, has_infinity = false,
                        has_quiet_NaN = false;
  static constexpr int radix = 2, digits = 1, digits10 = 0;
  static constexpr bool max() { return true; }
  static constexpr bool lowest() { return false; }
  static constexpr bool min() { return false; }
};

// MAX: largest finite value; MIN: smallest normal; DIGITS: bits of the significand.
#define MSL_FLOAT_LIMITS(T, MAX, MIN, EPSILON, DIGITS, DIGITS10, MAX_EXPONENT, MIN_EXPONENT)  \
  template <>                                                                                 \
  struct numeric_limits<T> {                                                                  \
    static constexpr bool is_specialized = true, is_integer = false, is_signed = true,        \
                          is_exact = false, is_iec559 = true, has_infinity = true,            \
                          has_quiet_NaN = true;                                               \
    static constexpr int radix = 2, digits = DIGITS, digits10 = DIGITS10,                     \
                         max_exponent = MAX_EXPONENT, min_exponent = MIN_EXPONENT;            \
    static constexpr T max() { return T(MAX); }                                               \
    static constexpr T lowest() { return T(-MAX); }                                           \
    static constexpr T min() { return T(MIN); }                                               \
    static constexpr T epsilon() { return T(EPSILON); }                                       \
    static constexpr T infinity() { return T(INFINITY); }                                     \
    static constexpr T quiet_NaN() { return T(NAN); }                                         \
  };
MSL_FLOAT_LIMITS(float, 0x1.fffffep127f, 0x1p-126f, 0x1p-23f, 24, 6, 128, -125)
MSL_FLOAT_LIMITS(half, 65504.0f, 0x1p-14f, 0x1p-10f, 11, 3, 16, -13)
MSL_FLOAT_LIMITS(bfloat, 0x1.fep127f, 0x1p-126f, 0x1p-7f, 8, 2, 128, -125)
#undef MSL_FLOAT_LIMITS

}  // namespace metal
