// Elementary functions of one float: inline, without branches and without a math library, so
// that loops over them vectorise and give the same bits on every machine.
//
// Most functions compute in double and round once, so that they err by one unit in the last place
// at most. Those that models call for each element are faster, and err by as much as this table
// says; tests/accuracy.rs measures it over all floats. With MSL_PRECISE (ETMETAL_MATH=precise) they
// compute in double too.
//
//   function   bound in ulp   measured
//   exp        1.5            0.99
//   log        1.5            0.77
//   tanh       5              4.56
//   erf        5              4.49
//   rsqrt      2              1.47
//   sin, cos   2.5            2.04
#pragma once
#include "base.h"

namespace msl {

MSL_INLINE uint bits_of(float x) { return __builtin_bit_cast(uint, x); }
MSL_INLINE ulong bits_of(double x) { return __builtin_bit_cast(ulong, x); }
MSL_INLINE float float_of(uint bits) { return __builtin_bit_cast(float, bits); }
MSL_INLINE double double_of(ulong bits) { return __builtin_bit_cast(double, bits); }
constexpr float infinity_f = __builtin_inff();
constexpr float nan_f = __builtin_nanf("");

// a * b + c, rounded once.
MSL_INLINE constexpr float fused(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  // The product is exact in double. The sum is rounded to odd, so that rounding to float is
  // right; an infinite or NaN sum is left alone.
  double product = (double)a * b, sum = product + c;
  double part = sum - product, error = (product - (sum - part)) + (c - part);
  ulong bits = __builtin_bit_cast(ulong, sum);
  if (error != 0 && !(bits & 1) && sum - sum == 0)
    bits += ((error > 0) == (sum > 0)) ? 1 : -1;
  return (float)__builtin_bit_cast(double, bits);
#endif
}

// The polynomial with these coefficients, the highest power first (Horner).
template <class T, class... C>
MSL_INLINE T polynomial(T x, T first, C... rest) {
  T result = first;
  ((result = result * x + rest), ...);
  return result;
}
template <class... C>
MSL_INLINE float fused_polynomial(float x, float first, C... rest) {
  float result = first;
  ((result = fused(result, x, rest)), ...);
  return result;
}

// --- exponentials

// e^r * 2^k, for |r| <= 0.35 and k of any size: overflow gives infinity, underflow rounds.
MSL_INLINE float scaled_exp(float r, float k) {
  float p = fused_polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                             4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  float y = fused(p, r * r, r) + 1.0f;
  // Two factors, because 2^k alone may leave the range where the result does not.
  int exponent = (int)k, half_exponent = exponent >> 1, rest = exponent - half_exponent;
  return y * float_of((uint)(half_exponent + 127) << 23) * float_of((uint)(rest + 127) << 23);
}
// Adding and subtracting this rounds a float below 2^22 to an integer.
constexpr float rounding_magic = 12582912.0f;

MSL_INLINE double exp_double(double x);
#ifdef MSL_PRECISE
MSL_INLINE float exp(float x) { return (float)exp_double((double)x); }
#else
MSL_INLINE float exp(float x) {
  float c = x > 89.0f ? 89.0f : x;
  c = c < -104.0f ? -104.0f : c;
  float k = fused(c, 1.44269504f, rounding_magic) - rounding_magic;
  float r = fused(k, -1.42860677e-6f, fused(k, -0.693145752f, c));
  float y = scaled_exp(r, k);
  return x != x ? x : y;
}
#endif

// 2^x for any double: beyond the range of double it saturates.
MSL_INLINE double exp2_double(double x) {
  double c = x > 1020.0 ? 1020.0 : x;
  c = c < -1020.0 ? -1020.0 : c;
  constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
  double shifted = c + magic, r = c - (shifted - magic);
  double y = polynomial(r, 7.054911620801123e-9, 1.0178086009239699e-7, 1.3215486790144307e-6,
                        1.5252733804059841e-5, 1.5403530393381608e-4, 1.3333558146428443e-3,
                        9.6181291076284772e-3, 5.5504108664821580e-2, 2.4022650695910072e-1,
                        6.9314718055994531e-1, 1.0);
  ulong scale = (bits_of(shifted) + 1023) << 52;
  return x != x ? x : y * double_of(scale);
}
MSL_INLINE float exp2(float x) { return (float)exp2_double((double)x); }
MSL_INLINE float exp10(float x) { return (float)exp2_double((double)x * 3.3219280948873623); }
MSL_INLINE double exp_double(double x) { return exp2_double(x * 1.4426950408889634); }

// --- logarithms

MSL_INLINE double log_double(double x);
#ifdef MSL_PRECISE
MSL_INLINE float log(float x) { return (float)log_double((double)x); }
#else
MSL_INLINE float log(float x) {
  bool subnormal = x < 0x1p-126f;
  uint bits = bits_of(subnormal ? x * 0x1p24f : x);
  int e = (int)(bits - 0x3f3504f3u) >> 23;  // the significand lies in [sqrt(1/2), sqrt(2))
  float m = float_of(bits - ((uint)e << 23)) - 1.0f;
  float exponent = (float)(e - (subnormal ? 24 : 0));
  float p = fused_polynomial(m, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f,
                             -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f,
                             2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
  float square = m * m, y = m * square * p;
  y = fused(exponent, -2.12194440e-4f, y);
  y = fused(-0.5f, square, y);
  float result = fused(exponent, 0.693359375f, m + y);
  result = x == 0.0f ? -infinity_f : result;
  result = x < 0.0f ? nan_f : result;
  result = x == infinity_f ? x : result;
  return x != x ? x : result;
}
#endif

// log2 of a double that is 0 or has a normal exponent (any float is such a double).
MSL_INLINE double log2_double(double x) {
  ulong bits = bits_of(x);
  long e = (long)(bits - 0x3fe6a09e667f3bcdul) >> 52;
  double m = double_of(bits - ((ulong)e << 52));
  double s = (m - 1.0) / (m + 1.0), square = s * s;
  // 2 * atanh(s) / ln 2
  double series = polynomial(square, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7,
                             1.0 / 5, 1.0 / 3, 1.0);
  double result = (double)(int)e + 2.8853900817779268 * s * series;
  result = x == 0.0 ? -__builtin_inf() : result;
  result = x < 0.0 ? __builtin_nan("") : result;
  result = x == __builtin_inf() ? x : result;
  return x != x ? x : result;
}
MSL_INLINE double log_double(double x) { return log2_double(x) * 0.69314718055994531; }
MSL_INLINE float log2(float x) { return (float)log2_double((double)x); }
MSL_INLINE float log10(float x) { return (float)(log2_double((double)x) * 0.30102999566398120); }

MSL_INLINE float pow(float x, float y) {
  float magnitude = __builtin_fabsf(x);
  double result = exp2_double((double)y * log2_double((double)magnitude));
  bool whole = __builtin_truncf(y) == y;
  float halved = y * 0.5f;
  bool odd = whole && __builtin_truncf(halved) != halved && __builtin_fabsf(y) < 0x1p24f;
  bool negative = bits_of(x) >> 31;
  float r = (float)result;
  r = negative && odd ? -r : r;
  r = x < 0.0f && !whole && magnitude != infinity_f ? nan_f : r;
  bool one = y == 0.0f || x == 1.0f || (magnitude == 1.0f && __builtin_fabsf(y) == infinity_f);
  r = x != x || y != y ? nan_f : r;
  return one ? 1.0f : r;
}

// --- trigonometry

// x = quadrant * pi/2 + rest, rest in [-pi/4, pi/4], exact enough for every float.
struct Reduced {
  double rest;
  int quadrant;
};

// For |x| below 2^23: multiples of pi/2 in three parts are taken off. The first two have 27 bits,
// so that their products with the quadrant are exact.
MSL_INLINE Reduced reduce_small_angle(float x) {
  constexpr double magic = 6755399441055744.0;  // adding it rounds to an integer
  double shifted = (double)x * 0.63661977236758138 + magic, k = shifted - magic;
  double rest = ((double)x - k * 0x1.921fb54p+0) - k * 0x1.10b461p-30;
  return {rest - k * 0x1.a62633145c06ep-58, (int)bits_of(shifted)};
}

// For larger x = m * 2^s with an integer m: m times the 96 bits of 2/pi that matter, modulo 4
// quadrants (Payne and Hanek), in fixed point with 62 bits behind the point.
MSL_INLINE Reduced reduce_large_angle(float x) {
  constexpr ulong two_over_pi[4] = {0x28be60db9391054aul, 0x7f09d5f47d4d3770ul,
                                    0x36d8a5664f10e410ul, 0x7f9458eaf7aef158ul};
  uint bits = bits_of(x);
  int s = (int)(bits >> 23 & 0xff) - 150;
  s = s < 0 ? 0 : s;
  bool skip = s >= 64;
  uint shift = (uint)s & 63;
  ulong first = skip ? two_over_pi[1] : two_over_pi[0];
  ulong second = skip ? two_over_pi[2] : two_over_pi[1];
  ulong third = skip ? two_over_pi[3] : two_over_pi[2];
  ulong high = first << shift | second >> 1 >> (63 - shift);
  ulong low = second << shift | third >> 1 >> (63 - shift);
  ulong m = (bits & 0x7fffffu) | 0x800000u;
  ulong product = m * high + (m * (low >> 32) >> 32);
  uint quadrant = (uint)((product + (1ul << 61)) >> 62);
  ulong fraction = product - ((ulong)quadrant << 62);
  // The two halves are exact as doubles.
  double value = (double)(int)(uint)(fraction >> 32) * 0x1p32 + (double)(uint)fraction;
  double rest = value * (1.5707963267948966 * 0x1p-62);
  bool negative = bits >> 31;
  return {negative ? -rest : rest, negative ? -(int)quadrant : (int)quadrant};
}
MSL_INLINE Reduced reduce_angle(float x) {
  Reduced small = reduce_small_angle(x), large = reduce_large_angle(x);
  bool is_small = __builtin_fabsf(x) < 0x1p23f;
  return {is_small ? small.rest : large.rest, is_small ? small.quadrant : large.quadrant};
}
MSL_INLINE double sine_polynomial(double r) {
  double q = r * r;
  return r + r * q * polynomial(q, 1.6059043836821613e-10, -2.5052108385441719e-8,
                                2.7557319223985891e-6, -1.9841269841269841e-4,
                                8.3333333333333332e-3, -1.6666666666666666e-1);
}
MSL_INLINE double cosine_polynomial(double r) {
  double q = r * r;
  return polynomial(q, 2.0876756987868099e-9, -2.7557319223985888e-7, 2.4801587301587302e-5,
                    -1.3888888888888889e-3, 4.1666666666666664e-2, -0.5, 1.0);
}
MSL_INLINE double sine_of(Reduced a) {
  double value = a.quadrant & 1 ? cosine_polynomial(a.rest) : sine_polynomial(a.rest);
  return a.quadrant & 2 ? -value : value;
}
MSL_INLINE double cosine_of(Reduced a) { return sine_of({a.rest, a.quadrant + 1}); }
MSL_INLINE double tangent_of(Reduced a) {
  double s = sine_polynomial(a.rest), c = cosine_polynomial(a.rest);
  return a.quadrant & 1 ? -c / s : s / c;
}
MSL_INLINE bool not_finite(float x) { return x - x != 0.0f; }

MSL_INLINE float sin_double(float x) {
  float y = (float)sine_of(reduce_angle(x));
  y = x == 0.0f ? x : y;
  return not_finite(x) ? nan_f : y;
}
MSL_INLINE float cos_double(float x) {
  return not_finite(x) ? nan_f : (float)cosine_of(reduce_angle(x));
}
#ifdef MSL_VECTOR_MATH
// Calls that the compiler replaces by those of vector_math.h where it vectorises.
MSL_INLINE float sin(float x) { return __builtin_sinf(x); }
MSL_INLINE float cos(float x) { return __builtin_cosf(x); }
#else
MSL_INLINE float sin(float x) { return sin_double(x); }
MSL_INLINE float cos(float x) { return cos_double(x); }
#endif
MSL_INLINE float tan(float x) {
  float y = (float)tangent_of(reduce_angle(x));
  y = x == 0.0f ? x : y;
  return not_finite(x) ? nan_f : y;
}

// The angle pi * x: its quadrant is exact, whatever the size of x.
MSL_INLINE Reduced reduce_half_turns(float x) {
  float turns = x - 2.0f * __builtin_rintf(x * 0.5f);  // in [-1, 1]
  float quadrant = __builtin_rintf(turns * 2.0f);
  return {(double)(turns - quadrant * 0.5f) * 3.1415926535897931, (int)quadrant};
}
MSL_INLINE float sinpi(float x) {
  float y = (float)sine_of(reduce_half_turns(x));
  y = __builtin_truncf(x) == x ? __builtin_copysignf(0.0f, x) : y;
  return not_finite(x) ? nan_f : y;
}
MSL_INLINE float cospi(float x) {
  return not_finite(x) ? nan_f : (float)cosine_of(reduce_half_turns(x));
}
MSL_INLINE float tanpi(float x) {
  float y = (float)tangent_of(reduce_half_turns(x));
  y = __builtin_truncf(x) == x ? __builtin_copysignf(0.0f, x) : y;
  return not_finite(x) ? nan_f : y;
}

// The angle of (x, y) as a double, for finite or infinite arguments of any sign.
MSL_INLINE double atan2_double(double y, double x) {
  double ay = __builtin_fabs(y), ax = __builtin_fabs(x);
  bool steep = ay > ax;
  double small = steep ? ax : ay, large = steep ? ay : ax;
  double t = large == 0.0 ? 0.0 : small / large;
  t = small == __builtin_inf() ? 1.0 : t;
  // atan(t) = pi/8 + atan((t - tan pi/8) / (1 + t tan pi/8)), once more halved by pi/16 steps.
  double step = t > 0.66817863791929890 ? 0.66817863791929892
                                        : (t > 0.19891236737965800 ? 0.41421356237309503 : 0.0);
  double angle = t > 0.66817863791929890 ? 0.58904862254808621
                                         : (t > 0.19891236737965800 ? 0.39269908169872414 : 0.0);
  double u = (t - step) / (1.0 + t * step), q = u * u;
  angle = angle + u * polynomial(q, 1.0 / 17, -1.0 / 15, 1.0 / 13, -1.0 / 11, 1.0 / 9, -1.0 / 7,
                                 1.0 / 5, -1.0 / 3, 1.0);
  angle = steep ? 1.5707963267948966 - angle : angle;
  angle = bits_of(x) >> 63 ? 3.1415926535897931 - angle : angle;
  angle = __builtin_copysign(angle, y);
  return x != x || y != y ? __builtin_nan("") : angle;
}
MSL_INLINE float atan2(float y, float x) { return (float)atan2_double(y, x); }
MSL_INLINE float atan(float x) { return (float)atan2_double(x, 1.0); }
MSL_INLINE float asin(float x) {
  double d = x;
  return (float)atan2_double(d, __builtin_sqrt((1.0 - d) * (1.0 + d)));
}
MSL_INLINE float acos(float x) {
  double d = x;
  return (float)atan2_double(__builtin_sqrt((1.0 - d) * (1.0 + d)), d);
}

// --- hyperbolic functions

MSL_INLINE float sinh(float x) {
  double d = x, e = exp_double(d), q = d * d;
  double small = d + d * q * polynomial(q, 1.0 / 5040, 1.0 / 120, 1.0 / 6);
  float y = (float)(__builtin_fabs(d) < 0.1 ? small : (e - 1.0 / e) * 0.5);
  return x == 0.0f || not_finite(x) ? x : y;
}
MSL_INLINE float cosh(float x) {
  double e = exp_double((double)x);
  return not_finite(x) ? __builtin_fabsf(x) : (float)((e + 1.0 / e) * 0.5);
}
#ifdef MSL_PRECISE
MSL_INLINE float tanh(float x) {
  double d = x, q = d * d;
  double small = d + d * q * polynomial(q, 62.0 / 2835, -17.0 / 315, 2.0 / 15, -1.0 / 3);
  double c = d > 20.0 ? 20.0 : d < -20.0 ? -20.0 : d, e = exp_double(2.0 * c);
  float y = (float)(__builtin_fabs(d) < 0.05 ? small : (e - 1.0) / (e + 1.0));
  return x == 0.0f || x != x ? x : y;
}
#else
// One rational function, with the coefficients that Eigen uses.
MSL_INLINE float tanh(float x) {
  constexpr float limit = 7.90531110763549805f;
  float c = x > limit ? limit : x;
  c = c < -limit ? -limit : c;
  float s = c * c;
  float p = c * fused_polynomial(s, -2.76076847742355e-16f, 2.00018790482477e-13f,
                                 -8.60467152213735e-11f, 5.12229709037114e-08f,
                                 1.48572235717979e-05f, 6.37261928875436e-04f,
                                 4.89352455891786e-03f);
  float q = fused_polynomial(s, 1.19825839466702e-06f, 1.18534705686654e-04f,
                             2.26843463243900e-03f, 4.89352518554385e-03f);
  float y = __builtin_fabsf(c) < 4e-4f ? c : p / q;
  y = __builtin_fabsf(x) > 7.90531f ? __builtin_copysignf(1.0f, x) : y;
  return x != x ? x : y;
}
#endif

// The error function, as one rational function with the coefficients that Eigen uses. Calls of
// c10::metal::erf in generated kernels become calls of this one (see rewrite.rs).
#ifdef MSL_PRECISE
#define MSL_MATH c10::metal
#else
#define MSL_MATH msl
#endif
MSL_INLINE float erf(float x) {
  float c = x > 4.0f ? 4.0f : x;
  c = c < -4.0f ? -4.0f : c;
  float s = c * c;
  float p = fused_polynomial(s, -2.72614225801306e-10f, 2.77068142495902e-08f,
                             -2.10102402082508e-06f, -5.69250639462346e-05f,
                             -7.34990630326855e-04f, -2.95459980854025e-03f,
                             -1.60960333262415e-02f);
  float q = fused_polynomial(s, -1.45660718464996e-05f, -2.13374055278905e-04f,
                             -1.68282697438203e-03f, -7.37332916720468e-03f,
                             -1.42647390514189e-02f);
  float y = c * (p / q);
  return x != x ? x : y;
}
MSL_INLINE float asinh(float x) {
  double a = __builtin_fabs((double)x);
  double y = log_double(a + __builtin_sqrt(a * a + 1.0));
  y = a < 1e-3 ? a * (1.0 - a * a / 6) : y;
  return not_finite(x) ? x : __builtin_copysignf((float)y, x);
}
MSL_INLINE float acosh(float x) {
  double d = x;
  return (float)log_double(d + __builtin_sqrt((d - 1.0) * (d + 1.0)));
}
MSL_INLINE float atanh(float x) {
  double a = __builtin_fabs((double)x);
  double y = 0.5 * log_double((1.0 + a) / (1.0 - a));
  y = a < 1e-3 ? a * (1.0 + a * a / 3) : y;
  return x != x ? x : __builtin_copysignf((float)y, x);
}

#ifdef MSL_PRECISE
MSL_INLINE float rsqrt(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
#else
MSL_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
#endif

// --- parts of numbers

MSL_INLINE float round(float x) {
  // Half away from zero: 0.5 less one ulp is added, so that 0.49999997 stays below 1.
  return __builtin_truncf(x + __builtin_copysignf(0x1.fffffep-2f, x));
}
MSL_INLINE float fract(float x) {
  float f = x - __builtin_floorf(x);
  f = f > 0x1.fffffep-1f ? 0x1.fffffep-1f : f;
  return x == infinity_f || x == -infinity_f ? 0.0f : f;
}
// x - y * trunc(x / y), exactly.
MSL_INLINE float fmod(float x, float y) {
  double rest = __builtin_fabs((double)x), divisor = __builtin_fabs((double)y);
  // A quotient below 2^29 keeps the product exact; a larger one is taken off in parts.
  while (rest >= divisor * 0x1p29 && rest - rest == 0.0 && divisor > 0.0) {
    ulong gap = (bits_of(rest) >> 52) - (bits_of(divisor) >> 52);
    double scaled = divisor * double_of((1023 + (gap - 28)) << 52);
    double quotient = __builtin_trunc(rest / scaled);
    rest = rest - quotient * scaled;
    rest = rest < 0.0 ? rest + scaled : rest;
  }
  double quotient = __builtin_trunc(rest / divisor);
  rest = divisor == __builtin_inf() ? rest : rest - quotient * divisor;
  rest = rest < 0.0 ? rest + divisor : rest;
  rest = rest >= divisor ? rest - divisor : rest;
  bool invalid = not_finite(x) || y == 0.0f || y != y;
  return invalid ? nan_f : __builtin_copysignf((float)rest, x);
}
MSL_INLINE float ldexp(float x, int k) {
  // Three steps reach any exponent from any other; each is clamped to what a float can hold.
  int first = k / 3, second = (k - first) / 2, third = k - first - second;
  auto power = [](int e) {
    e = e < -126 ? -126 : e > 127 ? 127 : e;
    return (double)float_of((uint)(e + 127) << 23);
  };
  return (float)((double)x * power(first) * power(second) * power(third));
}
MSL_INLINE float frexp(float x, int& exponent) {
  bool special = x == 0.0f || not_finite(x);
  ulong bits = bits_of((double)x);
  exponent = special ? 0 : (int)(bits >> 52 & 0x7ff) - 1022;
  return special ? x : (float)double_of((bits & ~(0x7fful << 52)) | 1022ul << 52);
}
MSL_INLINE int ilogb(float x) {
  if (x == 0.0f) return -2147483647 - 1;
  if (not_finite(x)) return 2147483647;
  return (int)(bits_of((double)x) >> 52 & 0x7ff) - 1023;
}
MSL_INLINE float nextafter(float from, float to) {
  if (from != from || to != to) return nan_f;
  if (from == to) return to;
  if (from == 0.0f) return float_of(bits_of(to) & 0x80000000u | 1);
  uint bits = bits_of(from);
  return float_of((from < to) == (from > 0.0f) ? bits + 1 : bits - 1);
}

}  // namespace msl
