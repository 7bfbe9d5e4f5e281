// Fission: the operations of a whole group, and of its SIMD groups, on arrays of its threads' values.
#pragma once
#include "collective.h"

#define MSL_ALWAYS_INLINE __attribute__((always_inline))
// In front of a loop over threads: they are independent between two waits.
#define MSL_PHASE _Pragma("clang loop vectorize(assume_safety) interleave(enable)")

namespace msl {
namespace fission {

// --- operators, on numbers and on vectors of them
//
// Threads add and multiply in any order, so the compiler may choose one that makes vectors:
// `nothing` is what such a sum starts with.

struct Add {
  static constexpr bool chooses = false;  // whether the result is one of the operands
  template <class T>
  static MSL_INLINE T apply(T a, T b) {
#pragma clang fp reassociate(on)
    if constexpr (metal::is_integral_v<T>) return Sum::apply<T>(a, b);
    else return T(a + b);
  }
  template <class T>
  static MSL_INLINE constexpr T nothing() { return T(-0.0f); }
};
struct Multiply {
  static constexpr bool chooses = false;
  template <class T>
  static MSL_INLINE T apply(T a, T b) {
#pragma clang fp reassociate(on)
    if constexpr (metal::is_integral_v<T>) return Product::apply<T>(a, b);
    else return T(a * b);
  }
  template <class T>
  static MSL_INLINE constexpr T nothing() { return T(1.0f); }
};
using msl::Greatest;
using msl::Least;
using msl::keep_first;

// --- numbers that are gathered

// Whether numbers of type `V` may be gathered in one of type `T` in any order. A whole number drops
// the fraction of what is added to it each time: what comes out is then a matter of the order.
template <class T, class V>
constexpr bool in_any_order =
    !metal::is_integral_v<metal::decay_t<T>> || metal::is_integral_v<metal::decay_t<V>>;

// The greatest or the least of floats, in a form of which the compiler knows that the order does not
// matter: two of their bits as integers. Floats of the sign that wins are in the order of their bits
// (`outer`), and those of the other sign in the opposite one (`inner`). The NaNs of both signs, which
// win too, lie behind the infinities: in `outer` where they have to be, and in `inner` once all are
// moved so far that those of the other sign come round.
template <class Op>
struct Ends {
  static constexpr bool is_greatest = Op::is_greatest;
  using Outer = metal::conditional_t<is_greatest, int, uint>;
  using Inner = metal::conditional_t<is_greatest, uint, int>;
  static constexpr uint nans = 0x7fffff;  // of one sign
  Outer outer;
  Inner inner;
  MSL_INLINE explicit Ends(float value) {
    const uint bits = __builtin_bit_cast(uint, value);
    outer = (Outer)bits;
    inner = (Inner)(bits + nans);
  }
  MSL_INLINE void merge(const Ends& other) {
    outer = outer > other.outer ? outer : other.outer;
    inner = inner < other.inner ? inner : other.inner;
  }
  MSL_INLINE float value() const {
    constexpr uint sign = 0x80000000, least = is_greatest ? 0 : sign;
    const bool has_winner = ((uint)outer & sign) == least;
    const bool has_other_nan = inner < (Inner)(least + nans);
    const uint bits = has_winner && !has_other_nan ? (uint)outer : (uint)inner - nans;
    return __builtin_bit_cast(float, bits);
  }
};

// What is added up, or the greatest or least, of what has come so far.
template <class Op, class T>
struct Held {
  static constexpr bool is_ends = Op::chooses && metal::is_floating_point_v<T>;
  metal::conditional_t<is_ends, Ends<Op>, T> all;
  MSL_INLINE explicit Held(T first = Op::template nothing<T>()) : all(first) {}
  template <class V>
  MSL_INLINE void take(V value) {
    static_assert(Op::chooses || in_any_order<T, V>, "fractions for a whole number");
    if constexpr (Op::chooses) merge(Held(T(value)));
    else all = Op::template apply<decltype(all + value)>(all, value);
  }
  MSL_INLINE void merge(const Held& other) {
    if constexpr (is_ends) all.merge(other.all);
    else all = Op::template apply<T>(all, other.all);
  }
  MSL_INLINE T value() const {
    if constexpr (is_ends) return T(all.value());
    else return all;
  }
};

// --- operations of a whole group

// The reduction of `Width` lanes that each have gone through the values `Width` apart, and then
// of the lanes as a tree, as SIMD groups do it: lanes 16 apart, then 8, 4, 2, 1. The lanes are
// vectors of the language: loops over arrays are unrolled before they would become vectors.
template <class T, uint Width>
using Lanes = T __attribute__((ext_vector_type(Width), aligned(sizeof(T))));
template <class Op, uint Width, class T>
MSL_INLINE T across(const Lanes<T, Width>& lanes) {
  if constexpr (Width == 1) {
    return lanes[0];
  } else {
    return across<Op, Width / 2, T>(Op::template apply<Lanes<T, Width / 2>>(lanes.lo, lanes.hi));
  }
}
template <class Op, uint Width, class T>
MSL_INLINE T reduce_lanes(const T* values, uint count) {
  using Vector = Lanes<T, Width>;
  Vector lanes = *(const Vector*)values;
  uint at = Width;
  for (; at + Width <= count; at += Width)
    lanes = Op::template apply<Vector>(lanes, *(const Vector*)(values + at));
  for (uint l = 0; at + l < count; l++) lanes[l] = Op::template apply<T>(lanes[l], values[at + l]);
  return across<Op, Width, T>(lanes);
}

template <class Op, class T>
MSL_INLINE T reduce_same(const T* values, uint count) {
  static_assert(metal::is_scalar_v<T>, "only numbers are reduced");
  // A vector of the language holds a truth value in a bit.
  if constexpr (!metal::is_same_v<T, bfloat> && !metal::is_same_v<T, bool>) {
    if (count >= 32) return reduce_lanes<Op, 32>(values, count);
    if (count >= 8) return reduce_lanes<Op, 8>(values, count);
  }
  T all = values[0];
  for (uint i = 1; i < count; i++) all = Op::template apply<T>(all, values[i]);
  return all;
}

// The reduction of an array, in the type `R`. The greatest bfloat is found among floats.
template <class Op, class R, class T, uint Most>
MSL_INLINE R reduce(const T (&values)[Most], uint count) {
  constexpr bool as_float = Op::chooses && metal::is_same_v<R, bfloat>;
  using Via = metal::conditional_t<as_float, float, R>;
  if constexpr (metal::is_same_v<Via, T>) {
    return R(reduce_same<Op>(values, count));
  } else {
    alignas(64) Via converted[Most];
MSL_PHASE for (uint i = 0; i < count; i++) converted[i] = Via(R(values[i]));
    return R(reduce_same<Op>(converted, count));
  }
}

// The first of the values that `is` holds for: one is among them.
template <class T, class Is>
MSL_INLINE uint first_that(const T* values, uint count, Is is) {
  constexpr uint block = 8;
  if (count <= 4 * block) {
    using Bits = bool __attribute__((ext_vector_type(block)));
    uint found = 0, at = 0;
    for (; at + block <= count; at += block) {
      const auto bits = __builtin_convertvector(is(*(const Lanes<T, block>*)(values + at)), Bits);
      found |= (uint)__builtin_bit_cast(uchar, bits) << at;
    }
    for (; at < count; at++) found |= (uint)(bool)is(values[at]) << at;
    return (uint)__builtin_ctz(found);
  }
  uint least = count - 1;
MSL_PHASE for (uint i = 0; i < count; i++) {
    const uint place = is(values[i]) ? i : count;
    least = place < least ? place : least;
  }
  return least;
}

// What `place` gives for the thread that has the value `best`, the first of equals; for the first
// NaN, if `best` is one.
template <class R, class T, uint Most, class Place>
MSL_INLINE auto place_of(const T (&values)[Most], uint count, R best, Place place) {
  static_assert(metal::is_same_v<R, T>, "values of another type than the operation's");
  if constexpr (metal::is_same_v<T, bool>) {
    return place_of<uchar>((const uchar(&)[Most])values, count, (uchar)best, place);
  } else if constexpr (metal::is_integral_v<T>) {
    return place(first_that(values, count, [=](auto v) { return v == best; }));
  } else if constexpr (metal::is_same_v<T, float>) {
    if (best != best) return place(first_that(values, count, [](auto v) { return v != v; }));
    return place(first_that(values, count, [=](auto v) { return v == best; }));
  } else {
    alignas(64) float converted[Most];
MSL_PHASE for (uint i = 0; i < count; i++) converted[i] = (float)values[i];
    return place_of<float>(converted, count, (float)best, place);
  }
}

// Mean, sum of squared distances from it, and number of the values: in two passes, which is at
// least as accurate as one value after the other.
template <class T, uint Most>
MSL_INLINE metal::float3 welford(const T (&values)[Most], uint count) {
  alignas(64) float distance[Most];
MSL_PHASE for (uint i = 0; i < count; i++) distance[i] = (float)values[i];
  const float mean = reduce_same<Add, float>(distance, count) / (float)count;
MSL_PHASE for (uint i = 0; i < count; i++) {
    const float d = (float)values[i] - mean;
    distance[i] = d * d;
  }
  return metal::float3(mean, reduce_same<Add, float>(distance, count), (float)count);
}

// The same of many sets of values.
template <uint Most>
MSL_INLINE metal::float3 welford_combine(const metal::float3 (&sets)[Most], uint count) {
  constexpr uint width = 16;
  float mean[width] = {}, spread[width] = {}, weight[width] = {};
  for (uint at = 0; at < count; at += width) {
    for (uint l = 0; l < width && at + l < count; l++) {
      const metal::float3 both = welford_pair(metal::float3(mean[l], spread[l], weight[l]), sets[at + l]);
      mean[l] = both.x;
      spread[l] = both.y;
      weight[l] = both.z;
    }
  }
  metal::float3 all(mean[0], spread[0], weight[0]);
  for (uint l = 1; l < width && l < count; l++)
    all = welford_pair(all, metal::float3(mean[l], spread[l], weight[l]));
  return all;
}

// An operation of SIMD groups (`simdgroup.h`) on the values of all threads, taken as `Value`;
// `argument` gives that of a thread, `typed` makes of a result what is kept.
template <class Operation, class Value, class T, class R, uint Most, class Argument, class Typed>
MSL_INLINE void of_simdgroups(const T (&values)[Most], uint count, Argument argument, Typed typed,
                              R (&results)[Most]) {
  for (uint first = 0; first < count; first += simd_width) {
    const uint filled = count - first < simd_width ? count - first : simd_width;
    Value in[simd_width], out[simd_width];
    ushort arguments[simd_width];
    for (uint lane = 0; lane < filled; lane++) {
      in[lane] = Value(values[first + lane]);
      arguments[lane] = argument(first + lane);
    }
    if (filled == simd_width) Operation::apply(in, out, arguments, all_lanes);
    else Operation::apply(in, out, arguments, (1u << filled) - 1);
    for (uint lane = 0; lane < filled; lane++) results[first + lane] = typed(out[lane]);
  }
}

}  // namespace fission
}  // namespace msl
