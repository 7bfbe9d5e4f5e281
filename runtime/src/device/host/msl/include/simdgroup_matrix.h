// simdgroup_matrix: an 8x8 matrix spread over a SIMD group. Each lane holds two neighbouring
// elements of one row, in Apple's layout, which kernels use through thread_elements().
#pragma once
#include "simdgroup.h"

namespace msl {

MSL_INLINE uint matrix_row(uint lane) { return (lane / 4 & 4) + lane / 2 % 4; }
MSL_INLINE uint matrix_column(uint lane) { return (lane / 4 & 2) * 2 + lane % 2 * 2; }

// What a lane brings to a multiplication: its elements of both factors.
struct Factors {
  float a[2], b[2];
};

// The product of the 8x8 matrices that the lanes hold, accumulated in float.
MSL_UNCHECKED inline void multiply_matrices(Context* c, uint simdgroup, uint) {
  const Factors* in = inputs<Factors>(c, simdgroup);
  metal::vec<float, 2>* out = outputs<metal::vec<float, 2>>(c, simdgroup);
  float a[8][8], b[8][8], product[8][8] = {};
  for (uint lane = 0; lane < simd_width; lane++) {
    uint row = matrix_row(lane), column = matrix_column(lane);
    for (uint i = 0; i < 2; i++) {
      a[row][column + i] = in[lane].a[i];
      b[row][column + i] = in[lane].b[i];
    }
  }
  for (uint row = 0; row < 8; row++)
    for (uint k = 0; k < 8; k++)
      for (uint column = 0; column < 8; column++)
        product[row][column] += a[row][k] * b[k][column];
  for (uint lane = 0; lane < simd_width; lane++) {
    const float* elements = &product[matrix_row(lane)][matrix_column(lane)];
    out[lane] = metal::vec<float, 2>(elements[0], elements[1]);
  }
}

}  // namespace msl

namespace metal {

template <class T, int Columns, int Rows>
struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "simdgroup_matrix has 8 columns and 8 rows");
  using storage_type = vec<T, 2>;
  storage_type elements;

  simdgroup_matrix() = default;
  // The diagonal matrix with `value` on its diagonal.
  explicit MSL_INLINE simdgroup_matrix(T value) {
    uint lane = msl::context()->current % msl::simd_width;
    uint row = msl::matrix_row(lane), column = msl::matrix_column(lane);
    elements = storage_type(row == column ? value : T(0), row == column + 1 ? value : T(0));
  }
  MSL_INLINE storage_type& thread_elements() { return elements; }
  MSL_INLINE const storage_type& thread_elements() const { return elements; }
};

using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat, 8, 8>;

template <class T, int Columns, int Rows>
MSL_INLINE simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Columns, Rows> result;
  result.elements = vec<T, 2>(value);
  return result;
}
template <class T, int Columns, int Rows = Columns>
MSL_INLINE simdgroup_matrix<T, Columns, Rows> make_diagonal_simdgroup_matrix(T value) {
  return simdgroup_matrix<T, Columns, Rows>(value);
}

template <class D, class A, class B, class C>
MSL_INLINE void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d,
                                              const simdgroup_matrix<A, 8, 8>& a,
                                              const simdgroup_matrix<B, 8, 8>& b,
                                              const simdgroup_matrix<C, 8, 8>& c,
                                              uint site = MSL_SITE) {
  msl::Factors factors{{(float)a.elements.x, (float)a.elements.y},
                       {(float)b.elements.x, (float)b.elements.y}};
  auto product = msl::exchange<vec<float, 2>>(factors, &msl::multiply_matrices, site);
  d.elements = vec<D, 2>(D((float)c.elements.x + product.x), D((float)c.elements.y + product.y));
}
template <class D, class A, class B>
MSL_INLINE void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d,
                                   const simdgroup_matrix<A, 8, 8>& a,
                                   const simdgroup_matrix<B, 8, 8>& b, uint site = MSL_SITE) {
  simdgroup_matrix<D, 8, 8> zero = make_filled_simdgroup_matrix<D, 8, 8>(D(0));
  simdgroup_multiply_accumulate(d, a, b, zero, site);
}
template <class T>
MSL_INLINE simdgroup_matrix<T, 8, 8> operator*(const simdgroup_matrix<T, 8, 8>& a,
                                               const simdgroup_matrix<T, 8, 8>& b) {
  simdgroup_matrix<T, 8, 8> result;
  simdgroup_multiply(result, a, b);
  return result;
}

}  // namespace metal

namespace msl {

// Calls f(i, element) for this lane's elements: i is 0 or 1, element its place in memory.
template <class F>
MSL_INLINE void for_each_place(ulong row_stride, metal::vec<ulong, 2> origin, bool transposed,
                               F f) {
  const uint lane = context()->current % simd_width;
  const ulong row = matrix_row(lane), column = matrix_column(lane);
  for (uint i = 0; i < 2; i++) {
    const ulong r = transposed ? column + i : row, k = transposed ? row : column + i;
    f(i, (origin.y + r) * row_stride + origin.x + k);
  }
}

}  // namespace msl

namespace metal {

template <class T, class U>
MSL_INLINE void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const U* source,
                               ulong elements_per_row = 8,
                               vec<ulong, 2> origin = vec<ulong, 2>(0ul),
                               bool transposed = false) {
  msl::for_each_place(elements_per_row, origin, transposed,
                      [&](uint i, ulong place) { m.elements[i] = T(source[place]); });
}
template <class T, class U>
MSL_INLINE void simdgroup_store(const simdgroup_matrix<T, 8, 8>& m, U* destination,
                                ulong elements_per_row = 8,
                                vec<ulong, 2> origin = vec<ulong, 2>(0ul),
                                bool transposed = false) {
  msl::for_each_place(elements_per_row, origin, transposed,
                      [&](uint i, ulong place) { destination[place] = U(m.elements[i]); });
}

}  // namespace metal
