// Operations of a whole threadgroup on fibers. PyTorch's helpers let every thread go through the
// values of all others, or meet several times in SIMD groups, which a GPU does side by side; here
// the first to get there does it for all.
// Calls of those helpers become calls of these (rewrite.rs).
#pragma once
#include "simdgroup.h"

namespace msl {

// --- the greatest and the least

// NaN wins, as in PyTorch. On numbers, and on vectors of them.
template <bool greatest>
struct Extreme {
  static constexpr bool chooses = true, is_greatest = greatest;
  // What no number is beyond.
  template <class T>
  static MSL_INLINE constexpr T nothing() {
    using Limits = metal::numeric_limits<T>;
    if constexpr (metal::is_integral_v<T>) return greatest ? Limits::lowest() : Limits::max();
    else return T(greatest ? -Limits::infinity() : Limits::infinity());
  }
  template <class T>
  static MSL_INLINE constexpr auto better(T a, T b) {
    if constexpr (greatest) return a > b;
    else return a < b;
  }
  template <class T>
  static MSL_INLINE T apply(T a, T b) {
    if constexpr (metal::is_integral_v<T>) return better(a, b) ? a : b;
    else return (a != a) | better(a, b) ? a : b;
  }
};
using Greatest = Extreme<true>;
using Least = Extreme<false>;

// Takes a value and its place instead of those so far if the value is better: the first of equals
// stays, and so does the first NaN.
template <class Op, class T, class I>
MSL_INLINE void keep_first(T& best, I& place, T value, I at) {
  bool better = Op::better(value, best);
  if constexpr (!metal::is_integral_v<T>) better |= value != value && best == best;
  best = better ? value : best;
  place = better ? at : place;
}

// --- operations of all threads

// Mean, sum of squared distances from it, and number of two sets of values, each given by these.
MSL_INLINE metal::float3 welford_pair(const metal::float3& a, const metal::float3& b) {
  const float distance = b.x - a.x, weight = a.z + b.z;
  const float part = weight != 0 ? b.z / weight : 0.0f;
  return metal::float3(a.x + distance * part, a.y + b.y + distance * distance * a.z * part,
                       weight);
}

// What `compute` gives, to all threads: called by one of them between two barriers.
template <class R, class Compute>
MSL_INLINE R once_for_all(Compute compute) {
  static_assert(sizeof(R) <= slot_bytes, "results are of at most 16 bytes");
  Context* c = context();
  wait_at_barrier();
  if (!c->has_result) {
    *(R*)c->result = compute();
    c->has_result = true;
  }
  const R result = *(const R*)c->result;
  wait_at_barrier();
  c->has_result = false;
  return result;
}

// What the lanes of a SIMD group have left for an operation.
template <class T>
MSL_INLINE T* operands(Context* c, uint simdgroup) {
  static_assert(sizeof(T) <= slot_bytes, "operands are of at most 16 bytes");
  return (T*)c->operand[simdgroup];
}
// This thread takes part in an operation with `value`.
template <class T>
MSL_INLINE void take_part(Context* c, const T& value) {
  const uint simdgroup = c->current / simd_width, lane = c->current % simd_width;
  c->taking_part[simdgroup] |= 1u << lane;
  operands<T>(c, simdgroup)[lane] = value;
}
// The lanes of a SIMD group that took part in an operation of the first `size` threads, in the end;
// its last SIMD group counts as a whole, as with PyTorch.
MSL_INLINE uint took_part(Context* c, uint simdgroup, uint size) {
  const uint lanes = c->taking_part[simdgroup];
  c->taking_part[simdgroup] = 0;
  return simdgroup == 0 || simdgroup * simd_width < size ? lanes : 0;
}

// The reduction of what the threads have left: of each SIMD group, and then of their results, in
// the order in which a GPU does it.
template <class Op, class T>
__attribute__((noinline)) MSL_UNCHECKED T reduction_of_all(Context* c, uint size) {
  T partial[simd_width], reduced[simd_width];
  uint groups = 0;
  for (uint s = 0; s * simd_width < c->thread_count; s++) {
    const uint lanes = took_part(c, s, size);
    if (!lanes) continue;
    Reduction<Op, simd_width>::apply(operands<T>(c, s), reduced, nullptr, lanes);
    partial[s] = reduced[0];
    groups |= 1u << s;
  }
  Reduction<Op, simd_width>::apply(partial, reduced, nullptr, groups);
  return reduced[0];
}
template <class Op, class T>
MSL_INLINE T reduced_by_all(const T& value, uint size) {
  Context* c = context();
  take_part(c, value);
  return once_for_all<T>([=] { return reduction_of_all<Op, T>(c, size); });
}

// The index of the greatest or least value, the first of equals.
template <class T, class I>
struct Candidate {
  T value;
  I index;
};
template <class Op, class T, class I>
__attribute__((noinline)) MSL_UNCHECKED I index_of_all(Context* c, uint size) {
  Candidate<T, I> best{};
  bool has_any = false;
  for (uint s = 0; s * simd_width < c->thread_count; s++) {
    for (uint lanes = took_part(c, s, size); lanes; lanes &= lanes - 1) {
      const auto next = operands<Candidate<T, I>>(c, s)[__builtin_ctz(lanes)];
      if (has_any) keep_first<Op, T, I>(best.value, best.index, next.value, next.index);
      else best = next;
      has_any = true;
    }
  }
  return best.index;
}
template <class Op, class T, class I>
MSL_INLINE I index_by_all(const T& value, const I& index, uint size) {
  Context* c = context();
  take_part(c, Candidate<T, I>{value, index});
  return once_for_all<I>([=] { return index_of_all<Op, T, I>(c, size); });
}

// Of complex numbers.
struct ComplexProduct {
  static MSL_INLINE metal::float2 apply(const metal::float2& a, const metal::float2& b) {
    return metal::float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
  }
};

}  // namespace msl

// In the place of PyTorch's helpers: the memory that these ask for tells the type of the result.
namespace c10 {
namespace metal {

template <class R, class T>
MSL_INLINE R fiber_sum(R*, T value, uint, uint size) {
  return msl::reduced_by_all<msl::Sum>(static_cast<R>(value), size);
}
template <class R, class T>
MSL_INLINE R fiber_prod(R*, T value, uint, uint size) {
  return msl::reduced_by_all<msl::Product>(static_cast<R>(value), size);
}
template <class T>
MSL_INLINE ::metal::float2 fiber_prod(::metal::float2*, T value, uint, uint size) {
  return msl::reduced_by_all<msl::ComplexProduct>(::metal::float2(value), size);
}
template <class T>
MSL_INLINE T fiber_max(T*, T value, uint, uint size) {
  return msl::reduced_by_all<msl::Greatest>(value, size);
}
template <class T>
MSL_INLINE T fiber_min(T*, T value, uint, uint size) {
  return msl::reduced_by_all<msl::Least>(value, size);
}
template <class T, class I>
MSL_INLINE I fiber_argmax(T*, I*, T value, I index, uint, uint size) {
  return msl::index_by_all<msl::Greatest>(value, index, size);
}
template <class T, class I>
MSL_INLINE I fiber_argmin(T*, I*, T value, I index, uint, uint size) {
  return msl::index_by_all<msl::Least>(value, index, size);
}

// Mean, sum of squared distances from it, and number of the values.
template <class T>
::metal::float3 fiber_welford_reduce(T* data, uint size) {
  return msl::once_for_all<::metal::float3>([=] {
    float mean = data[0], spread = 0;
    for (uint i = 1; i < size; i++) {
      const float distance = data[i] - mean;
      mean += distance / (i + 1);
      spread += distance * (data[i] - mean);
    }
    return ::metal::float3(mean, spread, size);
  });
}

// The same of sets of values, each of which is (mean, sum of squared distances, number).
template <class T>
::metal::float3 fiber_welford_combine(T* data, uint size) {
  return msl::once_for_all<::metal::float3>([=] {
    ::metal::float3 all = data[0];
    for (uint i = 1; i < size; i++) all = msl::welford_pair(all, data[i]);
    return all;
  });
}

}  // namespace metal
}  // namespace c10
