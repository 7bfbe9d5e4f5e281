// Geometric functions.
#pragma once
#include "math.h"

namespace metal {

template <class T, uint N>
MSL_INLINE T dot(const vec<T, N>& a, const vec<T, N>& b) {
  return msl::fold([](T x, T y) { return T(x + y); }, a * b);
}
template <class T, uint N>
MSL_INLINE T length_squared(const vec<T, N>& v) {
  return dot(v, v);
}
template <class T, uint N>
MSL_INLINE T length(const vec<T, N>& v) {
  return sqrt(dot(v, v));
}
template <class T, uint N>
MSL_INLINE T distance(const vec<T, N>& a, const vec<T, N>& b) {
  return length(a - b);
}
template <class T, uint N>
MSL_INLINE T distance_squared(const vec<T, N>& a, const vec<T, N>& b) {
  return length_squared(a - b);
}
template <class T, uint N>
MSL_INLINE vec<T, N> normalize(const vec<T, N>& v) {
  return v * rsqrt(dot(v, v));
}
template <class T>
MSL_INLINE vec<T, 3> cross(const vec<T, 3>& a, const vec<T, 3>& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
template <class T, uint N>
MSL_INLINE vec<T, N> reflect(const vec<T, N>& incident, const vec<T, N>& normal) {
  return incident - T(2) * dot(normal, incident) * normal;
}
template <class T, uint N>
MSL_INLINE vec<T, N> faceforward(const vec<T, N>& n, const vec<T, N>& incident,
                                 const vec<T, N>& reference) {
  return dot(reference, incident) < T(0) ? n : -n;
}

}  // namespace metal
