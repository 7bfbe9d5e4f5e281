// Types, macros and traits that everything else stands on.
//
// These headers are freestanding: they include nothing of a C or C++ library, and the code they
// make calls nothing but memcpy, memmove and memset.
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
typedef ulong size_t;
typedef long ptrdiff_t;
typedef ulong uintptr_t;
typedef long intptr_t;
typedef _Float16 half;

static_assert(sizeof(long) == 8 && sizeof(void*) == 8, "MSL's long is 64 bits wide");

// vector_math.h needs a fused multiply-add.
#ifndef __FMA__
#undef MSL_VECTOR_MATH
#endif

#define MSL_INLINE inline __attribute__((always_inline))
#define METAL_FUNC MSL_INLINE

#define NAN __builtin_nanf("")
#define INFINITY __builtin_inff()
#define HUGE_VALF __builtin_inff()
#define MAXFLOAT 0x1.fffffep127f
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1p-126f
#define FLT_EPSILON 0x1p-23f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_EXP 128
#define FLT_MIN_EXP (-125)
#define FLT_RADIX 2
#define HALF_MAX ((half)65504.0f)
#define HALF_MIN ((half)0x1p-14f)
#define HALF_EPSILON ((half)0x1p-10f)
#define CHAR_BIT 8
#define CHAR_MAX 127
#define CHAR_MIN (-128)
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807l
#define LONG_MIN (-9223372036854775807l - 1)
#define ULONG_MAX 18446744073709551615ul
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.43429448190325182765f
#define M_LN2_F 0.69314718055994530942f
#define M_LN10_F 2.30258509299404568402f
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.78539816339744830962f
#define M_1_PI_F 0.31830988618379067154f
#define M_2_PI_F 0.63661977236758134308f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define M_PI_H ((half)M_PI_F)
#define M_E_H ((half)M_E_F)

extern "C" {
void* memcpy(void*, const void*, size_t);
void* memset(void*, int, size_t);
}

struct bfloat;

// The same bits as another type of the same size.
template <class To, class From>
MSL_INLINE constexpr To as_type(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of the same size");
  return __builtin_bit_cast(To, from);
}

namespace metal {

template <class T, uint N>
struct vec;

template <class T, T V>
struct integral_constant {
  static constexpr T value = V;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const { return V; }
};
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;
template <bool B>
using bool_constant = integral_constant<bool, B>;

template <bool B, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool B, class T = void>
using enable_if_t = typename enable_if<B, T>::type;

template <bool B, class T, class F>
struct conditional {
  using type = T;
};
template <class T, class F>
struct conditional<false, T, F> {
  using type = F;
};
template <bool B, class T, class F>
using conditional_t = typename conditional<B, T, F>::type;

template <class...>
using void_t = void;

template <class T, class U>
struct is_same : false_type {};
template <class T>
struct is_same<T, T> : true_type {};
template <class T, class U>
constexpr bool is_same_v = is_same<T, U>::value;

template <class T>
struct remove_const {
  using type = T;
};
template <class T>
struct remove_const<const T> {
  using type = T;
};
template <class T>
using remove_const_t = typename remove_const<T>::type;
template <class T>
struct remove_volatile {
  using type = T;
};
template <class T>
struct remove_volatile<volatile T> {
  using type = T;
};
template <class T>
using remove_volatile_t = typename remove_volatile<T>::type;
template <class T>
using remove_cv_t = remove_volatile_t<remove_const_t<T>>;
template <class T>
struct remove_cv {
  using type = remove_cv_t<T>;
};

template <class T>
struct remove_reference {
  using type = T;
};
template <class T>
struct remove_reference<T&> {
  using type = T;
};
template <class T>
struct remove_reference<T&&> {
  using type = T;
};
template <class T>
using remove_reference_t = typename remove_reference<T>::type;
template <class T>
using decay_t = remove_cv_t<remove_reference_t<T>>;
template <class T>
struct decay {
  using type = decay_t<T>;
};

template <class T>
struct remove_pointer {
  using type = T;
};
template <class T>
struct remove_pointer<T*> {
  using type = T;
};
template <class T>
using remove_pointer_t = typename remove_pointer<T>::type;
template <class T>
struct is_pointer : false_type {};
template <class T>
struct is_pointer<T*> : true_type {};
template <class T>
constexpr bool is_pointer_v = is_pointer<remove_cv_t<T>>::value;
template <class T>
struct is_const : false_type {};
template <class T>
struct is_const<const T> : true_type {};
template <class T>
constexpr bool is_const_v = is_const<T>::value;

template <class T>
T&& declval();
template <class T>
MSL_INLINE constexpr T&& forward(remove_reference_t<T>& value) {
  return static_cast<T&&>(value);
}
template <class T>
MSL_INLINE constexpr remove_reference_t<T>&& move(T&& value) {
  return static_cast<remove_reference_t<T>&&>(value);
}

template <class From, class To>
constexpr bool is_convertible_v = __is_convertible_to(From, To);
template <class From, class To>
struct is_convertible : bool_constant<is_convertible_v<From, To>> {};
template <class T>
constexpr bool is_enum_v = __is_enum(T);
template <class T>
struct is_enum : bool_constant<is_enum_v<T>> {};
template <class T>
constexpr bool is_class_v = __is_class(T);
template <class T>
constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);

}  // namespace metal

// What the shim itself asks of types.
namespace msl {

// The element type and count of a scalar or a vector.
template <class T>
struct shape_of {
  using element = T;
  static constexpr uint count = 1;
};
template <class T, uint N>
struct shape_of<metal::vec<T, N>> {
  using element = T;
  static constexpr uint count = N;
};
template <class T>
using element_t = typename shape_of<metal::remove_cv_t<T>>::element;
template <class T>
constexpr uint count_v = shape_of<metal::remove_cv_t<T>>::count;

template <class T, class... Others>
constexpr bool is_one_of = (metal::is_same_v<T, Others> || ...);

template <class T>
constexpr bool is_float_element = is_one_of<T, float, half, bfloat, double>;
template <class T>
constexpr bool is_integer_element =
    is_one_of<T, bool, char, signed char, uchar, short, ushort, int, uint, long, ulong, long long,
              unsigned long long>;
template <class T>
constexpr bool is_signed_element =
    is_float_element<T> || is_one_of<T, char, signed char, short, int, long, long long>;

}  // namespace msl

namespace metal {

template <class T>
constexpr bool is_floating_point_v = msl::is_float_element<msl::element_t<T>>;
template <class T>
constexpr bool is_integral_v = msl::is_integer_element<msl::element_t<T>>;
template <class T>
constexpr bool is_arithmetic_v = is_floating_point_v<T> || is_integral_v<T>;
template <class T>
constexpr bool is_scalar_v = msl::count_v<T> == 1 && is_arithmetic_v<T>;
template <class T>
constexpr bool is_vector_v = (msl::count_v<T> > 1);
template <class T>
constexpr bool is_signed_v = msl::is_signed_element<msl::element_t<T>>;
template <class T>
constexpr bool is_unsigned_v = is_integral_v<T> && !is_signed_v<T>;
template <class T>
struct is_floating_point : bool_constant<is_floating_point_v<T>> {};
template <class T>
struct is_integral : bool_constant<is_integral_v<T>> {};
template <class T>
struct is_arithmetic : bool_constant<is_arithmetic_v<T>> {};
template <class T>
struct is_scalar : bool_constant<is_scalar_v<T>> {};
template <class T>
struct is_vector : bool_constant<is_vector_v<T>> {};
template <class T>
struct is_signed : bool_constant<is_signed_v<T>> {};
template <class T>
struct is_unsigned : bool_constant<is_unsigned_v<T>> {};

template <class T>
struct make_unsigned {
  using type = T;
};
template <class T>
struct make_signed {
  using type = T;
};
#define MSL_SIGNED_PAIR(S, U)  \
  template <>                  \
  struct make_unsigned<S> {    \
    using type = U;            \
  };                           \
  template <>                  \
  struct make_signed<U> {      \
    using type = S;            \
  };
MSL_SIGNED_PAIR(char, uchar)
MSL_SIGNED_PAIR(short, ushort)
MSL_SIGNED_PAIR(int, uint)
MSL_SIGNED_PAIR(long, ulong)
#undef MSL_SIGNED_PAIR
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;
template <class T>
using make_signed_t = typename make_signed<T>::type;

template <class T, size_t N>
struct array {
  T elements[N];
  MSL_INLINE constexpr T& operator[](size_t i) { return elements[i]; }
  MSL_INLINE constexpr const T& operator[](size_t i) const { return elements[i]; }
  MSL_INLINE constexpr T* data() { return elements; }
  MSL_INLINE constexpr const T* data() const { return elements; }
  MSL_INLINE constexpr T* begin() { return elements; }
  MSL_INLINE constexpr const T* begin() const { return elements; }
  MSL_INLINE constexpr T* end() { return elements + N; }
  MSL_INLINE constexpr const T* end() const { return elements + N; }
  static constexpr size_t size() { return N; }
  static constexpr bool empty() { return N == 0; }
};

}  // namespace metal
