// sin and cos of several floats at once, under the names by which clang calls a vector library
// (-fveclib): they can look at all lanes before they take the slow way, which code that the compiler
// vectorises itself cannot. They come behind the shader, and are the only definitions of sinf and
// cosf there are.
#ifdef MSL_VECTOR_MATH
namespace msl {

template <int N>
struct Lanes {
  typedef float floats __attribute__((vector_size(4 * N)));
  typedef int ints __attribute__((vector_size(4 * N)));
};

// Up to here the multiple of pi/2 that is taken off is exact, and the rest good to one ulp.
constexpr float small_angle = 0x1p20f;

struct Sine {
  static MSL_INLINE float slow(float x) { return sin_double(x); }
  // x as n * pi + rest; the bit of n that decides the sign.
  template <class F>
  static MSL_INLINE F multiple(F x) {
    return __builtin_elementwise_fma(x, F{} + 0.318309886f, F{} + rounding_magic);
  }
  template <class F>
  static MSL_INLINE F rest(F x, F n) {
    F r = __builtin_elementwise_fma(n, F{} - 0x1.921fb6p+1f, x);
    r = __builtin_elementwise_fma(n, F{} + 0x1.777a5cp-24f, r);
    return __builtin_elementwise_fma(n, F{} + 0x1.ee59dap-49f, r);
  }
  static constexpr int flipped = 0;
  static constexpr bool keeps_zero = true;
};

struct Cosine {
  static MSL_INLINE float slow(float x) { return cos_double(x); }
  // x as (n + 1/2) * pi + rest.
  template <class F>
  static MSL_INLINE F multiple(F x) {
    F half = __builtin_elementwise_fma(x, F{} + 0.318309886f, F{} - 0.5f);
    return half + rounding_magic;
  }
  template <class F>
  static MSL_INLINE F rest(F x, F n) {
    F odd = n + n + 1.0f;
    F r = __builtin_elementwise_fma(odd, F{} - 0x1.921fb6p+0f, x);
    r = __builtin_elementwise_fma(odd, F{} + 0x1.777a5cp-25f, r);
    return __builtin_elementwise_fma(odd, F{} + 0x1.ee59dap-50f, r);
  }
  static constexpr int flipped = 1;
  static constexpr bool keeps_zero = false;
};

template <class Function, int N>
static __attribute__((noinline, cold)) typename Lanes<N>::floats slow_lanes(
    typename Lanes<N>::floats x) {
  for (int i = 0; i < N; i++) x[i] = Function::slow(x[i]);
  return x;
}

template <int N>
static MSL_INLINE bool any_lane(typename Lanes<N>::ints mask) {
#ifdef __AVX__
  if constexpr (N == 8)
    return __builtin_ia32_movmskps256((typename Lanes<8>::floats)mask) != 0;
  else if constexpr (N == 4)
    return __builtin_ia32_movmskps((typename Lanes<4>::floats)mask) != 0;
#endif
  return __builtin_reduce_or(mask) != 0;
}

template <class Function, int N>
static MSL_INLINE typename Lanes<N>::floats angle_function(typename Lanes<N>::floats x) {
  using F = typename Lanes<N>::floats;
  using I = typename Lanes<N>::ints;
  F shifted = Function::multiple(x);
  I sign = ((I)shifted + Function::flipped) << 31;
  F r = Function::rest(x, shifted - rounding_magic);
  F s = r * r;
  // sin(r) = r + r^3 * p for |r| <= pi/2
  F p = __builtin_elementwise_fma(s, F{} + 2.605590225e-06f, F{} - 1.980952075e-04f);
  p = __builtin_elementwise_fma(p, s, F{} + 8.333065547e-03f);
  p = __builtin_elementwise_fma(p, s, F{} - 1.666665971e-01f);
  F y = (F)((I)__builtin_elementwise_fma(p * s, r, r) ^ sign);
  if constexpr (Function::keeps_zero) y = x == 0.0f ? x : y;
  I large = !(__builtin_elementwise_abs(x) < small_angle);
  if (__builtin_expect(any_lane<N>(large), 0)) return slow_lanes<Function, N>(x);
  return y;
}

template <class Function>
static MSL_INLINE float angle_function_of_one(float x) {
  if (!(__builtin_fabsf(x) < small_angle)) return Function::slow(x);
  typename Lanes<4>::floats lanes = {x, x, x, x};
  return angle_function<Function, 4>(lanes)[0];
}

}  // namespace msl

#define MSL_VECTOR_FUNCTION(symbol, function, count)                                        \
  extern "C" __attribute__((used, visibility("hidden"))) msl::Lanes<count>::floats symbol(  \
      msl::Lanes<count>::floats x) {                                                        \
    return msl::angle_function<msl::function, count>(x);                                    \
  }
#define MSL_ONE_FUNCTION(symbol, function)                                     \
  extern "C" __attribute__((visibility("hidden"))) float symbol(float x) {     \
    return msl::angle_function_of_one<msl::function>(x);                       \
  }
MSL_ONE_FUNCTION(sinf, Sine)
MSL_ONE_FUNCTION(cosf, Cosine)
// What clang makes of both for the same number.
extern "C" __attribute__((visibility("hidden"))) void sincosf(float x, float* sine, float* cosine) {
  *sine = msl::angle_function_of_one<msl::Sine>(x);
  *cosine = msl::angle_function_of_one<msl::Cosine>(x);
}
// By the names of x86-64: 4 lanes, and 8.
MSL_VECTOR_FUNCTION(_ZGVbN4v_sinf, Sine, 4)
MSL_VECTOR_FUNCTION(_ZGVbN4v_cosf, Cosine, 4)
MSL_VECTOR_FUNCTION(_ZGVdN8v_sinf, Sine, 8)
MSL_VECTOR_FUNCTION(_ZGVdN8v_cosf, Cosine, 8)
#endif
