// Vectors. They are structs of scalars and not vector-extension types, so that clang can
// vectorise a loop over threads through them.
#pragma once
#include "bfloat.h"

namespace msl {

template <class T>
using if_scalar = metal::enable_if_t<metal::is_scalar_v<T>>;

}  // namespace msl

// One swizzle is a property. Those with distinct components can be assigned to (SET), the others
// only read (GET). The functions have no attributes and the lists no repetition beyond need:
// every compilation reads them.
#define MSL_GET2(a, b)                                      \
  __declspec(property(get = get_##a##b)) vec<T, 2> a##b;    \
  vec<T, 2> get_##a##b() const { return {a, b}; }
#define MSL_GET3(a, b, c)                                       \
  __declspec(property(get = get_##a##b##c)) vec<T, 3> a##b##c;  \
  vec<T, 3> get_##a##b##c() const { return {a, b, c}; }
#define MSL_GET4(a, b, c, d)                                           \
  __declspec(property(get = get_##a##b##c##d)) vec<T, 4> a##b##c##d;   \
  vec<T, 4> get_##a##b##c##d() const { return {a, b, c, d}; }
#define MSL_SET2(a, b)                                                            \
  __declspec(property(get = get_##a##b, put = put_##a##b)) vec<T, 2> a##b;        \
  vec<T, 2> get_##a##b() const { return {a, b}; }                                 \
  void put_##a##b(const vec<T, 2>& value) {                                       \
    const vec<T, 2> v = value;                                                    \
    a = v.x, b = v.y;                                                             \
  }
#define MSL_SET3(a, b, c)                                                               \
  __declspec(property(get = get_##a##b##c, put = put_##a##b##c)) vec<T, 3> a##b##c;     \
  vec<T, 3> get_##a##b##c() const { return {a, b, c}; }                                 \
  void put_##a##b##c(const vec<T, 3>& value) {                                          \
    const vec<T, 3> v = value;                                                          \
    a = v.x, b = v.y, c = v.z;                                                          \
  }
#define MSL_SET4(a, b, c, d)                                                                  \
  __declspec(property(get = get_##a##b##c##d, put = put_##a##b##c##d)) vec<T, 4> a##b##c##d;  \
  vec<T, 4> get_##a##b##c##d() const { return {a, b, c, d}; }                                 \
  void put_##a##b##c##d(const vec<T, 4>& value) {                                             \
    const vec<T, 4> v = value;                                                                \
    a = v.x, b = v.y, c = v.z, d = v.w;                                                       \
  }
// r, g, b, a are other names of x, y, z, w. (Swizzles of them are renamed by the rewriter.)
#define MSL_ALIAS(name, component)                                                 \
  __declspec(property(get = get_##name, put = put_##name)) T name;                 \
  MSL_INLINE constexpr T get_##name() const { return component; }                  \
  MSL_INLINE constexpr void put_##name(T value) { component = value; }

// All swizzles over two components.
#define MSL_GET4_XY(a, b, c) MSL_GET4(a, b, c, x) MSL_GET4(a, b, c, y)
#define MSL_GET34_XY(a, b) \
  MSL_GET3(a, b, x) MSL_GET3(a, b, y) MSL_GET4_XY(a, b, x) MSL_GET4_XY(a, b, y)
#define MSL_SWIZZLES_XY                                          \
  MSL_SET2(x, y) MSL_SET2(y, x) MSL_GET2(x, x) MSL_GET2(y, y)    \
  MSL_GET34_XY(x, x) MSL_GET34_XY(x, y) MSL_GET34_XY(y, x) MSL_GET34_XY(y, y)

// All swizzles over three components: those that start with a pair of different ones (the third
// is `other`), and those that start with a twice.
#define MSL_GET4_XYZ(a, b, c) MSL_GET4_XY(a, b, c) MSL_GET4(a, b, c, z)
#define MSL_GET44_XYZ(a, b) \
  MSL_GET4_XYZ(a, b, x) MSL_GET4_XYZ(a, b, y) MSL_GET4_XYZ(a, b, z)
#define MSL_PAIR_XYZ(a, b, other)                                                       \
  MSL_SET2(a, b) MSL_SET3(a, b, other) MSL_GET3(a, b, a) MSL_GET3(a, b, b) MSL_GET44_XYZ(a, b)
#define MSL_TWICE_XYZ(a) \
  MSL_GET2(a, a) MSL_GET3(a, a, x) MSL_GET3(a, a, y) MSL_GET3(a, a, z) MSL_GET44_XYZ(a, a)
#define MSL_SWIZZLES_XYZ                                              \
  MSL_PAIR_XYZ(x, y, z) MSL_PAIR_XYZ(x, z, y) MSL_PAIR_XYZ(y, x, z)   \
  MSL_PAIR_XYZ(y, z, x) MSL_PAIR_XYZ(z, x, y) MSL_PAIR_XYZ(z, y, x)   \
  MSL_TWICE_XYZ(x) MSL_TWICE_XYZ(y) MSL_TWICE_XYZ(z)

// The same over four components.
#define MSL_GET4_XYZW(a, b, c) MSL_GET4_XYZ(a, b, c) MSL_GET4(a, b, c, w)
#define MSL_TRIPLE_XYZW(a, b, c, other)                                             \
  MSL_SET3(a, b, c) MSL_SET4(a, b, c, other) MSL_GET4(a, b, c, a) MSL_GET4(a, b, c, b) \
  MSL_GET4(a, b, c, c)
#define MSL_PAIR_XYZW(a, b, c, d)                                                   \
  MSL_SET2(a, b) MSL_TRIPLE_XYZW(a, b, c, d) MSL_TRIPLE_XYZW(a, b, d, c)            \
  MSL_GET3(a, b, a) MSL_GET4_XYZW(a, b, a) MSL_GET3(a, b, b) MSL_GET4_XYZW(a, b, b)
#define MSL_TWICE_XYZW(a)                                                           \
  MSL_GET2(a, a) MSL_GET3(a, a, x) MSL_GET3(a, a, y) MSL_GET3(a, a, z) MSL_GET3(a, a, w) \
  MSL_GET4_XYZW(a, a, x) MSL_GET4_XYZW(a, a, y) MSL_GET4_XYZW(a, a, z) MSL_GET4_XYZW(a, a, w)
#define MSL_SWIZZLES_XYZW                                                                 \
  MSL_PAIR_XYZW(x, y, z, w) MSL_PAIR_XYZW(x, z, y, w) MSL_PAIR_XYZW(x, w, y, z)           \
  MSL_PAIR_XYZW(y, x, z, w) MSL_PAIR_XYZW(y, z, x, w) MSL_PAIR_XYZW(y, w, x, z)           \
  MSL_PAIR_XYZW(z, x, y, w) MSL_PAIR_XYZW(z, y, x, w) MSL_PAIR_XYZW(z, w, x, y)           \
  MSL_PAIR_XYZW(w, x, y, z) MSL_PAIR_XYZW(w, y, x, z) MSL_PAIR_XYZW(w, z, x, y)           \
  MSL_TWICE_XYZW(x) MSL_TWICE_XYZW(y) MSL_TWICE_XYZW(z) MSL_TWICE_XYZW(w)

// Members that vectors of every length have.
#define MSL_VEC_COMMON                                                                \
  using element_type = T;                                                             \
  vec() = default;                                                                    \
  MSL_INLINE constexpr const T& operator[](uint i) const { return (&x)[i]; }          \
  MSL_INLINE constexpr T& operator[](uint i) { return (&x)[i]; }

namespace metal {

template <class T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
  T x, y;
  MSL_VEC_COMMON
  template <class S, class = msl::if_scalar<S>>
  MSL_INLINE constexpr vec(S value) : x(T(value)), y(T(value)) {}
  MSL_INLINE constexpr vec(T a, T b) : x(a), y(b) {}
  template <class S, class = enable_if_t<!is_same_v<S, T>>>
  MSL_INLINE constexpr explicit vec(const vec<S, 2>& o) : x(T(o.x)), y(T(o.y)) {}
  MSL_SWIZZLES_XY
  MSL_ALIAS(r, x)
  MSL_ALIAS(g, y)
};

template <class T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
  T x, y, z;
  MSL_VEC_COMMON
  template <class S, class = msl::if_scalar<S>>
  MSL_INLINE constexpr vec(S value) : x(T(value)), y(T(value)), z(T(value)) {}
  MSL_INLINE constexpr vec(T a, T b, T c) : x(a), y(b), z(c) {}
  MSL_INLINE constexpr vec(const vec<T, 2>& a, T b) : x(a.x), y(a.y), z(b) {}
  MSL_INLINE constexpr vec(T a, const vec<T, 2>& b) : x(a), y(b.x), z(b.y) {}
  template <class S, class = enable_if_t<!is_same_v<S, T>>>
  MSL_INLINE constexpr explicit vec(const vec<S, 3>& o) : x(T(o.x)), y(T(o.y)), z(T(o.z)) {}
  MSL_SWIZZLES_XYZ
  MSL_ALIAS(r, x)
  MSL_ALIAS(g, y)
  MSL_ALIAS(b, z)
};

template <class T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
  T x, y, z, w;
  MSL_VEC_COMMON
  template <class S, class = msl::if_scalar<S>>
  MSL_INLINE constexpr vec(S value) : x(T(value)), y(T(value)), z(T(value)), w(T(value)) {}
  MSL_INLINE constexpr vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  MSL_INLINE constexpr vec(const vec<T, 2>& a, const vec<T, 2>& b)
      : x(a.x), y(a.y), z(b.x), w(b.y) {}
  MSL_INLINE constexpr vec(const vec<T, 2>& a, T b, T c) : x(a.x), y(a.y), z(b), w(c) {}
  MSL_INLINE constexpr vec(T a, const vec<T, 2>& b, T c) : x(a), y(b.x), z(b.y), w(c) {}
  MSL_INLINE constexpr vec(T a, T b, const vec<T, 2>& c) : x(a), y(b), z(c.x), w(c.y) {}
  MSL_INLINE constexpr vec(const vec<T, 3>& a, T b) : x(a.x), y(a.y), z(a.z), w(b) {}
  MSL_INLINE constexpr vec(T a, const vec<T, 3>& b) : x(a), y(b.x), z(b.y), w(b.z) {}
  template <class S, class = enable_if_t<!is_same_v<S, T>>>
  MSL_INLINE constexpr explicit vec(const vec<S, 4>& o)
      : x(T(o.x)), y(T(o.y)), z(T(o.z)), w(T(o.w)) {}
  MSL_SWIZZLES_XYZW
  MSL_ALIAS(r, x)
  MSL_ALIAS(g, y)
  MSL_ALIAS(b, z)
  MSL_ALIAS(a, w)
};

}  // namespace metal

namespace msl {

// The vector of f over the components of its arguments.
template <class R, uint N, class F, class... V>
MSL_INLINE constexpr metal::vec<R, N> map(F f, const V&... v) {
  if constexpr (N == 2)
    return metal::vec<R, 2>(f(v.x...), f(v.y...));
  else if constexpr (N == 3)
    return metal::vec<R, 3>(f(v.x...), f(v.y...), f(v.z...));
  else
    return metal::vec<R, 4>(f(v.x...), f(v.y...), f(v.z...), f(v.w...));
}

// f over all components, from the first to the last.
template <class T, uint N, class F>
MSL_INLINE constexpr T fold(F f, const metal::vec<T, N>& v) {
  T result = f(v.x, v.y);
  if constexpr (N > 2) result = f(result, v.z);
  if constexpr (N > 3) result = f(result, v.w);
  return result;
}

}  // namespace msl

namespace metal {

#define MSL_VEC_ARITHMETIC(op)                                                             \
  template <class T, uint N>                                                               \
  MSL_INLINE constexpr vec<T, N> operator op(const vec<T, N>& a, const vec<T, N>& b) {     \
    return msl::map<T, N>([](T x, T y) { return T(x op y); }, a, b);                       \
  }                                                                                        \
  template <class T, uint N, class S, class = msl::if_scalar<S>>                           \
  MSL_INLINE constexpr vec<T, N> operator op(const vec<T, N>& a, S b) {                    \
    return a op vec<T, N>(T(b));                                                           \
  }                                                                                        \
  template <class T, uint N, class S, class = msl::if_scalar<S>>                           \
  MSL_INLINE constexpr vec<T, N> operator op(S a, const vec<T, N>& b) {                    \
    return vec<T, N>(T(a)) op b;                                                           \
  }                                                                                        \
  template <class T, uint N, class S>                                                      \
  MSL_INLINE constexpr vec<T, N>& operator op##=(vec<T, N>& a, const S& b) {               \
    return a = a op b;                                                                     \
  }
MSL_VEC_ARITHMETIC(+)
MSL_VEC_ARITHMETIC(-)
MSL_VEC_ARITHMETIC(*)
MSL_VEC_ARITHMETIC(/)
MSL_VEC_ARITHMETIC(%)
MSL_VEC_ARITHMETIC(&)
MSL_VEC_ARITHMETIC(|)
MSL_VEC_ARITHMETIC(^)
MSL_VEC_ARITHMETIC(<<)
MSL_VEC_ARITHMETIC(>>)
#undef MSL_VEC_ARITHMETIC

#define MSL_VEC_COMPARISON(op)                                                             \
  template <class T, uint N>                                                               \
  MSL_INLINE constexpr vec<bool, N> operator op(const vec<T, N>& a, const vec<T, N>& b) {  \
    return msl::map<bool, N>([](T x, T y) { return bool(x op y); }, a, b);                 \
  }                                                                                        \
  template <class T, uint N, class S, class = msl::if_scalar<S>>                           \
  MSL_INLINE constexpr vec<bool, N> operator op(const vec<T, N>& a, S b) {                 \
    return a op vec<T, N>(T(b));                                                           \
  }                                                                                        \
  template <class T, uint N, class S, class = msl::if_scalar<S>>                           \
  MSL_INLINE constexpr vec<bool, N> operator op(S a, const vec<T, N>& b) {                 \
    return vec<T, N>(T(a)) op b;                                                           \
  }
MSL_VEC_COMPARISON(==)
MSL_VEC_COMPARISON(!=)
MSL_VEC_COMPARISON(<)
MSL_VEC_COMPARISON(>)
MSL_VEC_COMPARISON(<=)
MSL_VEC_COMPARISON(>=)
MSL_VEC_COMPARISON(&&)
MSL_VEC_COMPARISON(||)
#undef MSL_VEC_COMPARISON

template <class T, uint N>
MSL_INLINE constexpr vec<T, N> operator+(const vec<T, N>& a) {
  return a;
}
template <class T, uint N>
MSL_INLINE constexpr vec<T, N> operator-(const vec<T, N>& a) {
  return msl::map<T, N>([](T x) { return T(-x); }, a);
}
template <class T, uint N>
MSL_INLINE constexpr vec<T, N> operator~(const vec<T, N>& a) {
  return msl::map<T, N>([](T x) { return T(~x); }, a);
}
template <class T, uint N>
MSL_INLINE constexpr vec<bool, N> operator!(const vec<T, N>& a) {
  return msl::map<bool, N>([](T x) { return !x; }, a);
}
template <class T, uint N>
MSL_INLINE vec<T, N>& operator++(vec<T, N>& a) {
  return a = a + T(1);
}
template <class T, uint N>
MSL_INLINE vec<T, N>& operator--(vec<T, N>& a) {
  return a = a - T(1);
}
template <class T, uint N>
MSL_INLINE vec<T, N> operator++(vec<T, N>& a, int) {
  vec<T, N> old = a;
  ++a;
  return old;
}
template <class T, uint N>
MSL_INLINE vec<T, N> operator--(vec<T, N>& a, int) {
  vec<T, N> old = a;
  --a;
  return old;
}

// A vector without padding and with the alignment of its element: packed_float3 has 12 bytes.
// Arithmetic on it is that of vec.
template <class T, uint N>
struct packed_vec {
  T elements[N];

  packed_vec() = default;
  MSL_INLINE constexpr packed_vec(const vec<T, N>& v) : elements{} {
    elements[0] = v.x, elements[1] = v.y;
    if constexpr (N > 2) elements[2] = v.z;
    if constexpr (N > 3) elements[3] = v.w;
  }
  template <class... S, class = enable_if_t<sizeof...(S) == N>>
  MSL_INLINE constexpr packed_vec(S... values) : elements{T(values)...} {}
  template <class S, class = msl::if_scalar<S>>
  MSL_INLINE constexpr explicit packed_vec(S value) : packed_vec(vec<T, N>(value)) {}

  MSL_INLINE constexpr operator vec<T, N>() const {
    if constexpr (N == 2)
      return {elements[0], elements[1]};
    else if constexpr (N == 3)
      return {elements[0], elements[1], elements[2]};
    else
      return {elements[0], elements[1], elements[2], elements[3]};
  }
  template <class S, class = enable_if_t<!is_same_v<S, T>>>
  MSL_INLINE constexpr explicit operator vec<S, N>() const {
    return vec<S, N>(vec<T, N>(*this));
  }
  MSL_INLINE constexpr const T& operator[](uint i) const { return elements[i]; }
  MSL_INLINE constexpr T& operator[](uint i) { return elements[i]; }

  __declspec(property(get = get_0, put = put_0)) T x;
  __declspec(property(get = get_1, put = put_1)) T y;
  __declspec(property(get = get_2, put = put_2)) T z;
  __declspec(property(get = get_3, put = put_3)) T w;
  __declspec(property(get = get_01)) vec<T, 2> xy;
  __declspec(property(get = get_012)) vec<T, 3> xyz;
  MSL_INLINE constexpr T get_0() const { return elements[0]; }
  MSL_INLINE constexpr T get_1() const { return elements[1]; }
  template <uint M = N>
  MSL_INLINE constexpr enable_if_t<(M > 2), T> get_2() const {
    return elements[2];
  }
  template <uint M = N>
  MSL_INLINE constexpr enable_if_t<(M > 3), T> get_3() const {
    return elements[3];
  }
  MSL_INLINE constexpr vec<T, 2> get_01() const { return {elements[0], elements[1]}; }
  template <uint M = N>
  MSL_INLINE constexpr enable_if_t<(M > 2), vec<T, 3>> get_012() const {
    return {elements[0], elements[1], elements[2]};
  }
  MSL_INLINE void put_0(T value) { elements[0] = value; }
  MSL_INLINE void put_1(T value) { elements[1] = value; }
  template <uint M = N>
  MSL_INLINE enable_if_t<(M > 2)> put_2(T value) {
    elements[2] = value;
  }
  template <uint M = N>
  MSL_INLINE enable_if_t<(M > 3)> put_3(T value) {
    elements[3] = value;
  }
};

}  // namespace metal

namespace msl {

template <class T>
constexpr bool is_packed = false;
template <class T, uint N>
constexpr bool is_packed<metal::packed_vec<T, N>> = true;
template <class T>
MSL_INLINE constexpr T unpacked(const T& value) {
  return value;
}
template <class T, uint N>
MSL_INLINE constexpr metal::vec<T, N> unpacked(const metal::packed_vec<T, N>& value) {
  return value;
}

}  // namespace msl

namespace metal {

#define MSL_PACKED_OPERATOR(op)                                                              \
  template <class A, class B, class = enable_if_t<msl::is_packed<A> || msl::is_packed<B>>>   \
  MSL_INLINE constexpr auto operator op(const A& a, const B& b) {                            \
    return msl::unpacked(a) op msl::unpacked(b);                                             \
  }
#define MSL_PACKED_ARITHMETIC(op)                                                \
  MSL_PACKED_OPERATOR(op)                                                        \
  template <class T, uint N, class S>                                            \
  MSL_INLINE packed_vec<T, N>& operator op##=(packed_vec<T, N>& a, const S& b) { \
    return a = a op b;                                                           \
  }
MSL_PACKED_ARITHMETIC(+)
MSL_PACKED_ARITHMETIC(-)
MSL_PACKED_ARITHMETIC(*)
MSL_PACKED_ARITHMETIC(/)
MSL_PACKED_ARITHMETIC(%)
MSL_PACKED_ARITHMETIC(&)
MSL_PACKED_ARITHMETIC(|)
MSL_PACKED_ARITHMETIC(^)
MSL_PACKED_OPERATOR(==)
MSL_PACKED_OPERATOR(!=)
MSL_PACKED_OPERATOR(<)
MSL_PACKED_OPERATOR(>)
MSL_PACKED_OPERATOR(<=)
MSL_PACKED_OPERATOR(>=)
#undef MSL_PACKED_ARITHMETIC
#undef MSL_PACKED_OPERATOR
template <class T, uint N>
MSL_INLINE constexpr vec<T, N> operator-(const packed_vec<T, N>& a) {
  return -msl::unpacked(a);
}

}  // namespace metal

// float2, float3, float4, packed_float3, ...: global, and in metal, too.
#define MSL_VECTOR_NAMES_OF_LENGTH(T, N)               \
  using T##N = metal::vec<T, N>;                       \
  using packed_##T##N = metal::packed_vec<T, N>;       \
  namespace metal {                                    \
  using ::T##N;                                        \
  using ::packed_##T##N;                               \
  }
#define MSL_VECTOR_NAMES(T)         \
  MSL_VECTOR_NAMES_OF_LENGTH(T, 2)  \
  MSL_VECTOR_NAMES_OF_LENGTH(T, 3)  \
  MSL_VECTOR_NAMES_OF_LENGTH(T, 4)
MSL_VECTOR_NAMES(bool)
MSL_VECTOR_NAMES(char)
MSL_VECTOR_NAMES(uchar)
MSL_VECTOR_NAMES(short)
MSL_VECTOR_NAMES(ushort)
MSL_VECTOR_NAMES(int)
MSL_VECTOR_NAMES(uint)
MSL_VECTOR_NAMES(long)
MSL_VECTOR_NAMES(ulong)
MSL_VECTOR_NAMES(half)
MSL_VECTOR_NAMES(float)
MSL_VECTOR_NAMES(bfloat)
#undef MSL_VECTOR_NAMES
#undef MSL_VECTOR_NAMES_OF_LENGTH
namespace metal {
using ::bfloat;
using ::half;
using ::uchar;
using ::uint;
using ::ulong;
using ::ushort;
using ::int8_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::uint8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::size_t;
using ::ptrdiff_t;
}  // namespace metal
