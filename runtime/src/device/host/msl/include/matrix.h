// Matrices: columns of vectors.
#pragma once
#include "vec.h"

namespace metal {

template <class T, uint Columns, uint Rows>
struct matrix {
  using column_type = vec<T, Rows>;
  column_type columns[Columns];

  matrix() = default;
  // The matrix with `value` on its diagonal.
  template <class S, class = msl::if_scalar<S>>
  MSL_INLINE explicit matrix(S value) {
    for (uint c = 0; c < Columns; c++) {
      columns[c] = column_type(T(0));
      if (c < Rows) columns[c][c] = T(value);
    }
  }
  template <class... V,
            class = enable_if_t<sizeof...(V) == Columns && (is_convertible_v<V, column_type> && ...) &&
                                !(is_scalar_v<V> && ...)>>
  MSL_INLINE matrix(const V&... values) : columns{column_type(values)...} {}
  // All elements, column after column.
  template <class... S, class = enable_if_t<sizeof...(S) == Columns * Rows &&
                                            (is_scalar_v<S> && ...)>, class = void>
  MSL_INLINE matrix(S... elements) {
    const T list[] = {T(elements)...};
    for (uint c = 0; c < Columns; c++)
      for (uint r = 0; r < Rows; r++) columns[c][r] = list[c * Rows + r];
  }
  template <class S, class = enable_if_t<!is_same_v<S, T>>>
  MSL_INLINE explicit matrix(const matrix<S, Columns, Rows>& o) {
    for (uint c = 0; c < Columns; c++) columns[c] = column_type(o.columns[c]);
  }

  MSL_INLINE column_type& operator[](uint c) { return columns[c]; }
  MSL_INLINE const column_type& operator[](uint c) const { return columns[c]; }
};

template <class T, uint C, uint R>
MSL_INLINE matrix<T, C, R> operator+(const matrix<T, C, R>& a, const matrix<T, C, R>& b) {
  matrix<T, C, R> result;
  for (uint c = 0; c < C; c++) result[c] = a[c] + b[c];
  return result;
}
template <class T, uint C, uint R>
MSL_INLINE matrix<T, C, R> operator-(const matrix<T, C, R>& a, const matrix<T, C, R>& b) {
  matrix<T, C, R> result;
  for (uint c = 0; c < C; c++) result[c] = a[c] - b[c];
  return result;
}
template <class T, uint C, uint R>
MSL_INLINE matrix<T, C, R> operator-(const matrix<T, C, R>& a) {
  matrix<T, C, R> result;
  for (uint c = 0; c < C; c++) result[c] = -a[c];
  return result;
}
template <class T, uint C, uint R, class S, class = msl::if_scalar<S>>
MSL_INLINE matrix<T, C, R> operator*(const matrix<T, C, R>& a, S s) {
  matrix<T, C, R> result;
  for (uint c = 0; c < C; c++) result[c] = a[c] * T(s);
  return result;
}
template <class T, uint C, uint R, class S, class = msl::if_scalar<S>>
MSL_INLINE matrix<T, C, R> operator*(S s, const matrix<T, C, R>& a) {
  return a * s;
}
template <class T, uint C, uint R>
MSL_INLINE vec<T, R> operator*(const matrix<T, C, R>& m, const vec<T, C>& v) {
  vec<T, R> result = m[0] * v[0];
  for (uint c = 1; c < C; c++) result = result + m[c] * v[c];
  return result;
}
template <class T, uint C, uint R>
MSL_INLINE vec<T, C> operator*(const vec<T, R>& v, const matrix<T, C, R>& m) {
  vec<T, C> result;
  for (uint c = 0; c < C; c++) {
    T sum = v[0] * m[c][0];
    for (uint r = 1; r < R; r++) sum = sum + v[r] * m[c][r];
    result[c] = sum;
  }
  return result;
}
template <class T, uint K, uint R, uint C>
MSL_INLINE matrix<T, C, R> operator*(const matrix<T, K, R>& a, const matrix<T, C, K>& b) {
  matrix<T, C, R> result;
  for (uint c = 0; c < C; c++) result[c] = a * b[c];
  return result;
}
template <class T, uint C, uint R, class O>
MSL_INLINE matrix<T, C, R>& operator+=(matrix<T, C, R>& a, const O& b) {
  return a = a + b;
}
template <class T, uint C, uint R, class O>
MSL_INLINE matrix<T, C, R>& operator-=(matrix<T, C, R>& a, const O& b) {
  return a = a - b;
}
template <class T, uint C, uint R, class O>
MSL_INLINE matrix<T, C, R>& operator*=(matrix<T, C, R>& a, const O& b) {
  return a = a * b;
}

template <class T, uint C, uint R>
MSL_INLINE matrix<T, R, C> transpose(const matrix<T, C, R>& m) {
  matrix<T, R, C> result;
  for (uint c = 0; c < C; c++)
    for (uint r = 0; r < R; r++) result[r][c] = m[c][r];
  return result;
}
template <class T>
MSL_INLINE T determinant(const matrix<T, 2, 2>& m) {
  return m[0][0] * m[1][1] - m[1][0] * m[0][1];
}
template <class T>
MSL_INLINE T determinant(const matrix<T, 3, 3>& m) {
  return m[0][0] * (m[1][1] * m[2][2] - m[2][1] * m[1][2]) -
         m[1][0] * (m[0][1] * m[2][2] - m[2][1] * m[0][2]) +
         m[2][0] * (m[0][1] * m[1][2] - m[1][1] * m[0][2]);
}
template <class T>
MSL_INLINE T determinant(const matrix<T, 4, 4>& m) {
  T result = T(0);
  for (uint c = 0; c < 4; c++) {
    matrix<T, 3, 3> minor;
    for (uint k = 0, to = 0; k < 4; k++)
      if (k != c) minor[to++] = vec<T, 3>(m[k][1], m[k][2], m[k][3]);
    T term = m[c][0] * determinant(minor);
    result = c % 2 ? result - term : result + term;
  }
  return result;
}

}  // namespace metal

// float2x2, half3x4, ...: columns x rows.
#define MSL_MATRIX_NAME(T, C, R)           \
  using T##C##x##R = metal::matrix<T, C, R>; \
  namespace metal {                        \
  using ::T##C##x##R;                      \
  }
#define MSL_MATRIX_NAMES(T)                                                     \
  MSL_MATRIX_NAME(T, 2, 2) MSL_MATRIX_NAME(T, 2, 3) MSL_MATRIX_NAME(T, 2, 4)    \
  MSL_MATRIX_NAME(T, 3, 2) MSL_MATRIX_NAME(T, 3, 3) MSL_MATRIX_NAME(T, 3, 4)    \
  MSL_MATRIX_NAME(T, 4, 2) MSL_MATRIX_NAME(T, 4, 3) MSL_MATRIX_NAME(T, 4, 4)
MSL_MATRIX_NAMES(float)
MSL_MATRIX_NAMES(half)
MSL_MATRIX_NAMES(bfloat)
#undef MSL_MATRIX_NAMES
#undef MSL_MATRIX_NAME
