// Barriers and SIMD-group and quad-group functions.
//
// Every lane leaves its value in the context and waits; the last one to come performs the
// operation for all of them.
#pragma once
#include "atomic.h"
#include "launch.h"
#include "math.h"

namespace msl {

template <class T>
MSL_INLINE T* inputs(Context* c, uint simdgroup) {
  return (T*)c->input[simdgroup];
}
template <class T>
MSL_INLINE T* outputs(Context* c, uint simdgroup) {
  return (T*)c->output[simdgroup];
}

// Leaves `value` and `argument` for `complete`, waits, and gives this lane's result.
template <class R, class T>
MSL_INLINE R exchange(const T& value, Complete complete, uint site, ushort argument = 0) {
  static_assert(sizeof(T) <= slot_bytes && sizeof(R) <= slot_bytes,
                "SIMD-group functions take values of at most 16 bytes");
  Context* c = context();
  const uint thread = c->current, simdgroup = thread / simd_width, lane = thread % simd_width;
  inputs<T>(c, simdgroup)[lane] = value;
  c->argument[thread] = argument;
  compiler_fence();
  if (void* stack = enter_simd_operation(c, complete, site))
    switch_stack(&c->stack_pointer[thread], stack);
  compiler_fence();
  return outputs<R>(c, simdgroup)[lane];
}

// --- operators of reductions and scans
//
// Whole numbers that do not fit wrap round, which C++ has unsigned ones do.

template <class T>
constexpr bool wraps = metal::is_integral_v<T> && metal::is_scalar_v<T>;
template <class T>
using Wrapping = metal::conditional_t<sizeof(T) == 8, ulong, uint>;
struct Sum {
  template <class T>
  static T identity() { return T(0); }
  template <class T>
  static MSL_INLINE T apply(const T& a, const T& b) {
    if constexpr (wraps<T>) return T((Wrapping<T>)a + (Wrapping<T>)b);
    else return T(a + b);
  }
};
struct Product {
  template <class T>
  static T identity() { return T(1); }
  template <class T>
  static MSL_INLINE T apply(const T& a, const T& b) {
    if constexpr (wraps<T>) return T((Wrapping<T>)a * (Wrapping<T>)b);
    else return T(a * b);
  }
};
struct Maximum {
  template <class T>
  static MSL_INLINE T apply(const T& a, const T& b) { return metal::max(a, b); }
};
struct Minimum {
  template <class T>
  static MSL_INLINE T apply(const T& a, const T& b) { return metal::min(a, b); }
};
struct BitAnd {
  template <class T>
  static MSL_INLINE T apply(const T& a, const T& b) { return T(a & b); }
};
struct BitOr {
  template <class T>
  static MSL_INLINE T apply(const T& a, const T& b) { return T(a | b); }
};
struct BitXor {
  template <class T>
  static MSL_INLINE T apply(const T& a, const T& b) { return T(a ^ b); }
};

// The mask of the lanes of the group of `Width` lanes that starts at `first`.
template <uint Width>
MSL_INLINE uint lanes_of_group(uint first) {
  return Width == 32 ? all_lanes : ((1u << (Width % 32)) - 1) << first;
}

// What a SIMD group makes of the values `in` of its lanes, of which those in `mask` take part: the
// values `out`. Fibers come here when all lanes have left their values, loops after a phase.

// The reduction over each group of `Width` lanes. A full SIMD group is reduced as a tree: lanes 16
// apart, then 8, 4, 2, 1.
template <class Op, uint Width>
struct Reduction {
  template <class T>
  static MSL_INLINE void apply(const T* in, T* out, const ushort*, uint mask) {
    for (uint first = 0; first < simd_width; first += Width) {
      uint lanes = mask & lanes_of_group<Width>(first);
      if (!lanes) continue;
      T result;
      if (lanes == lanes_of_group<Width>(first)) {
        T partial[Width / 2];
        for (uint i = 0; i < Width / 2; i++)
          partial[i] = Op::apply(in[first + i], in[first + i + Width / 2]);
        for (uint distance = Width / 4; distance; distance /= 2)
          for (uint i = 0; i < distance; i++)
            partial[i] = Op::apply(partial[i], partial[i + distance]);
        result = partial[0];
      } else {
        result = in[__builtin_ctz(lanes)];
        for (uint rest = lanes & (lanes - 1); rest; rest &= rest - 1)
          result = Op::apply(result, in[__builtin_ctz(rest)]);
      }
      for (uint lane = first; lane < first + Width; lane++) out[lane] = result;
    }
  }
};

// The reductions of each lane and those before it in its group; without itself if not inclusive.
template <class Op, uint Width, bool Inclusive>
struct Scan {
  template <class T>
  static MSL_INLINE void apply(const T* in, T* out, const ushort*, uint mask) {
    for (uint first = 0; first < simd_width; first += Width) {
      T running = Op::template identity<T>();
      for (uint lanes = mask & lanes_of_group<Width>(first); lanes; lanes &= lanes - 1) {
        uint lane = (uint)__builtin_ctz(lanes);
        T next = Op::apply(running, in[lane]);
        out[lane] = Inclusive ? next : running;
        running = next;
      }
    }
  }
};

// Where a shuffle reads, as a distance within the group; outside of 0..Width there is no lane.
struct FromLane {
  static MSL_INLINE uint source(uint, uint argument, uint) { return argument; }
};
struct FromXor {
  static MSL_INLINE uint source(uint lane, uint argument, uint) { return lane ^ argument; }
};
struct FromAbove {
  static MSL_INLINE uint source(uint lane, uint argument, uint) { return lane + argument; }
};
struct FromBelow {
  static MSL_INLINE uint source(uint lane, uint argument, uint) { return lane - argument; }
};
struct RotateDown {
  static MSL_INLINE uint source(uint lane, uint argument, uint width) {
    return (lane + argument) % width;
  }
};
struct RotateUp {
  static MSL_INLINE uint source(uint lane, uint argument, uint width) {
    return (lane - argument) % width;
  }
};

// Each lane gets the value of its source lane. Where that lane does not exist or does not take
// part, Metal leaves the result open; here it is the lane's own value.
template <class From, uint Width>
struct Shuffle {
  template <class T>
  static MSL_INLINE void apply(const T* in, T* out, const ushort* arguments, uint mask) {
    for (uint lanes = mask; lanes; lanes &= lanes - 1) {
      uint lane = (uint)__builtin_ctz(lanes), first = lane / Width * Width;
      uint source = From::source(lane - first, arguments[lane], Width);
      bool there = source < Width && (mask >> (first + source) & 1);
      out[lane] = in[there ? first + source : lane];
    }
  }
};

// The last lane to come performs the operation for all of its SIMD group.
template <class T, class Operation>
MSL_UNCHECKED void perform(Context* c, uint simdgroup, uint mask) {
  Operation::apply(inputs<T>(c, simdgroup), outputs<T>(c, simdgroup),
                   c->argument + simdgroup * simd_width, mask);
}

// A shuffle whose missing sources are taken from the filling values of other lanes: beyond the
// end those of the first lanes, before the start those of the last. `modulo` lanes form a unit.
template <class T>
struct Filled {
  T value, filling;
};
template <class T, class From, uint Width>
MSL_UNCHECKED void shuffle_and_fill(Context* c, uint simdgroup, uint mask) {
  const Filled<T>* in = inputs<Filled<T>>(c, simdgroup);
  T* out = outputs<T>(c, simdgroup);
  const ushort* arguments = c->argument + simdgroup * simd_width;
  for (uint lanes = mask; lanes; lanes &= lanes - 1) {
    uint lane = (uint)__builtin_ctz(lanes);
    uint delta = arguments[lane] & 0xff, modulo = arguments[lane] >> 8;
    uint first = lane / modulo * modulo;
    uint source = From::source(lane - first, delta, modulo);
    bool fills = source >= modulo;
    uint from = first + (fills ? source % modulo : source);
    bool there = mask >> from & 1;
    // Of a lane that does not take part comes the filling: PyTorch reduces 64-bit integers this
    // way, with what changes nothing as the filling.
    out[lane] = there && !fills ? in[from].value : in[there ? from : lane].filling;
  }
}

template <class T>
MSL_UNCHECKED void broadcast_first(Context* c, uint simdgroup, uint mask) {
  T value = inputs<T>(c, simdgroup)[__builtin_ctz(mask)];
  for (uint lane = 0; lane < simd_width; lane++) outputs<T>(c, simdgroup)[lane] = value;
}

// The lanes of each group of `Width` whose value is true, as a mask relative to the group.
template <uint Width>
MSL_UNCHECKED inline void ballot(Context* c, uint simdgroup, uint mask) {
  const bool* in = inputs<bool>(c, simdgroup);
  uint votes = 0;
  for (uint lanes = mask; lanes; lanes &= lanes - 1) {
    uint lane = (uint)__builtin_ctz(lanes);
    votes |= (uint)in[lane] << lane;
  }
  ulong* out = outputs<ulong>(c, simdgroup);
  for (uint lane = 0; lane < simd_width; lane++) {
    uint first = lane / Width * Width;
    out[lane] = (votes & lanes_of_group<Width>(first)) >> first;
  }
}

MSL_UNCHECKED inline void meet(Context*, uint, uint) {}

template <class Mask>
struct Vote {
  Mask mask, everyone;
  explicit constexpr Vote(Mask m = 0, Mask all = Mask(~Mask(0))) : mask(m), everyone(all) {}
  explicit constexpr operator Mask() const { return mask; }
  constexpr bool all() const { return mask == everyone; }
  constexpr bool any() const { return mask != 0; }
};

}  // namespace msl

namespace metal {

MSL_INLINE void threadgroup_barrier(mem_flags) { msl::wait_at_barrier(); }
MSL_INLINE void threadgroup_barrier(mem_flags, memory_order, thread_scope = thread_scope_device) {
  msl::wait_at_barrier();
}
MSL_INLINE void simdgroup_barrier(mem_flags, uint site = MSL_SITE) {
  msl::exchange<int>(0, &msl::meet, site);
}

struct simd_vote : msl::Vote<ulong> {
  using vote_t = ulong;
  explicit constexpr simd_vote(ulong m = 0) : msl::Vote<ulong>(m, msl::all_lanes) {}
};
struct quad_vote : msl::Vote<uint> {
  using vote_t = uint;
  explicit constexpr quad_vote(uint m = 0) : msl::Vote<uint>(m, 0xf) {}
};

#define MSL_REDUCTION(name, Op)                                                                \
  template <class T>                                                                           \
  MSL_INLINE T simd_##name(T value, uint site = MSL_SITE) {                                    \
    return msl::exchange<T>(value, &msl::perform<T, msl::Reduction<msl::Op, 32>>, site);       \
  }                                                                                            \
  template <class T>                                                                           \
  MSL_INLINE T quad_##name(T value, uint site = MSL_SITE) {                                    \
    return msl::exchange<T>(value, &msl::perform<T, msl::Reduction<msl::Op, 4>>, site);        \
  }
MSL_REDUCTION(sum, Sum)
MSL_REDUCTION(product, Product)
MSL_REDUCTION(max, Maximum)
MSL_REDUCTION(min, Minimum)
MSL_REDUCTION(and, BitAnd)
MSL_REDUCTION(or, BitOr)
MSL_REDUCTION(xor, BitXor)
#undef MSL_REDUCTION

#define MSL_SCAN(name, Op)                                                                     \
  template <class T>                                                                           \
  MSL_INLINE T simd_prefix_inclusive_##name(T value, uint site = MSL_SITE) {                   \
    return msl::exchange<T>(value, &msl::perform<T, msl::Scan<msl::Op, 32, true>>, site);      \
  }                                                                                            \
  template <class T>                                                                           \
  MSL_INLINE T simd_prefix_exclusive_##name(T value, uint site = MSL_SITE) {                   \
    return msl::exchange<T>(value, &msl::perform<T, msl::Scan<msl::Op, 32, false>>, site);     \
  }                                                                                            \
  template <class T>                                                                           \
  MSL_INLINE T quad_prefix_inclusive_##name(T value, uint site = MSL_SITE) {                   \
    return msl::exchange<T>(value, &msl::perform<T, msl::Scan<msl::Op, 4, true>>, site);       \
  }                                                                                            \
  template <class T>                                                                           \
  MSL_INLINE T quad_prefix_exclusive_##name(T value, uint site = MSL_SITE) {                   \
    return msl::exchange<T>(value, &msl::perform<T, msl::Scan<msl::Op, 4, false>>, site);      \
  }
MSL_SCAN(sum, Sum)
MSL_SCAN(product, Product)
#undef MSL_SCAN

#define MSL_SHUFFLE(name, From)                                                                \
  template <class T>                                                                           \
  MSL_INLINE T simd_##name(T value, ushort argument, uint site = MSL_SITE) {                   \
    using Operation = msl::Shuffle<msl::From, 32>;                                             \
    return msl::exchange<T>(value, &msl::perform<T, Operation>, site, argument);               \
  }                                                                                            \
  template <class T>                                                                           \
  MSL_INLINE T quad_##name(T value, ushort argument, uint site = MSL_SITE) {                   \
    using Operation = msl::Shuffle<msl::From, 4>;                                              \
    return msl::exchange<T>(value, &msl::perform<T, Operation>, site, argument);               \
  }
MSL_SHUFFLE(shuffle, FromLane)
MSL_SHUFFLE(broadcast, FromLane)
MSL_SHUFFLE(shuffle_xor, FromXor)
MSL_SHUFFLE(shuffle_down, FromAbove)
MSL_SHUFFLE(shuffle_up, FromBelow)
MSL_SHUFFLE(shuffle_rotate_down, RotateDown)
MSL_SHUFFLE(shuffle_rotate_up, RotateUp)
#undef MSL_SHUFFLE

#define MSL_VOTE(name, Op)                                                                     \
  MSL_INLINE bool simd_##name(bool vote, uint site = MSL_SITE) {                               \
    using Operation = msl::Reduction<msl::Op, 32>;                                             \
    return msl::exchange<bool>(vote, &msl::perform<bool, Operation>, site);                    \
  }                                                                                            \
  MSL_INLINE bool quad_##name(bool vote, uint site = MSL_SITE) {                               \
    using Operation = msl::Reduction<msl::Op, 4>;                                              \
    return msl::exchange<bool>(vote, &msl::perform<bool, Operation>, site);                    \
  }
MSL_VOTE(any, BitOr)
MSL_VOTE(all, BitAnd)
#undef MSL_VOTE

}  // namespace metal

namespace msl {

// A filling shuffle needs two values per lane; a 16-byte value travels in two halves.
template <class T, class From, uint Width>
MSL_INLINE T exchange_filled(const T& value, const T& filling, ushort delta, ushort modulo,
                             uint site) {
  const ushort argument = (ushort)(delta | modulo << 8);
  if constexpr (sizeof(T) <= slot_bytes / 2) {
    return exchange<T>(Filled<T>{value, filling}, &shuffle_and_fill<T, From, Width>, site,
                       argument);
  } else {
    struct Halves {
      ulong low, high;
    };
    Halves v = __builtin_bit_cast(Halves, value), f = __builtin_bit_cast(Halves, filling);
    v.low = exchange_filled<ulong, From, Width>(v.low, f.low, delta, modulo, site);
    v.high = exchange_filled<ulong, From, Width>(v.high, f.high, delta, modulo, site);
    return __builtin_bit_cast(T, v);
  }
}

}  // namespace msl

namespace metal {

#define MSL_FILLING_SHUFFLE(name, From)                                                        \
  template <class T>                                                                           \
  MSL_INLINE T simd_##name(T value, T filling, ushort delta, uint site = MSL_SITE) {           \
    return msl::exchange_filled<T, msl::From, 32>(value, filling, delta, 32, site);            \
  }                                                                                            \
  template <class T>                                                                           \
  MSL_INLINE T simd_##name(T value, T filling, ushort delta, ushort modulo,                    \
                           uint site = MSL_SITE) {                                             \
    return msl::exchange_filled<T, msl::From, 32>(value, filling, delta, modulo, site);        \
  }                                                                                            \
  template <class T>                                                                           \
  MSL_INLINE T quad_##name(T value, T filling, ushort delta, uint site = MSL_SITE) {           \
    return msl::exchange_filled<T, msl::From, 4>(value, filling, delta, 4, site);              \
  }                                                                                            \
  template <class T>                                                                           \
  MSL_INLINE T quad_##name(T value, T filling, ushort delta, ushort modulo,                    \
                           uint site = MSL_SITE) {                                             \
    return msl::exchange_filled<T, msl::From, 4>(value, filling, delta, modulo, site);         \
  }
MSL_FILLING_SHUFFLE(shuffle_and_fill_down, FromAbove)
MSL_FILLING_SHUFFLE(shuffle_and_fill_up, FromBelow)
#undef MSL_FILLING_SHUFFLE

template <class T>
MSL_INLINE T simd_broadcast_first(T value, uint site = MSL_SITE) {
  return msl::exchange<T>(value, &msl::broadcast_first<T>, site);
}
MSL_INLINE simd_vote simd_ballot(bool vote, uint site = MSL_SITE) {
  return simd_vote(msl::exchange<ulong>(vote, &msl::ballot<32>, site));
}
MSL_INLINE simd_vote simd_active_threads_mask(uint site = MSL_SITE) {
  return simd_ballot(true, site);
}
MSL_INLINE bool simd_is_first(uint site = MSL_SITE) {
  uint lane = msl::context()->current % msl::simd_width;
  return msl::exchange<uint>(lane, &msl::broadcast_first<uint>, site) == lane;
}
MSL_INLINE bool simd_is_helper_thread() { return false; }
MSL_INLINE quad_vote quad_ballot(bool vote, uint site = MSL_SITE) {
  return quad_vote((uint)msl::exchange<ulong>(vote, &msl::ballot<4>, site));
}
MSL_INLINE quad_vote quad_active_threads_mask(uint site = MSL_SITE) {
  return quad_ballot(true, site);
}
MSL_INLINE bool quad_is_first(uint site = MSL_SITE) {
  uint lane = msl::context()->current % 4;
  return lane == (uint)__builtin_ctz((uint)quad_ballot(true, site));
}
MSL_INLINE bool quad_is_helper_thread() { return false; }
template <class T>
MSL_INLINE T quad_broadcast_first(T value, uint site = MSL_SITE) {
  ushort first = (ushort)__builtin_ctz((uint)quad_ballot(true, site));
  return quad_shuffle(value, first, site);
}

}  // namespace metal
