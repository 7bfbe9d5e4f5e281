// Accesses to threadgroup memory that no barrier separates: what the checked mode remembers of
// each byte, and how it knows that one thread's access comes before another's.
//
// A threadgroup barrier orders all that was done before it: it starts a new epoch. A SIMD
// operation orders the lanes that take part in it: each lane has a clock, and `seen` tells up to
// which time of each lane of its SIMD group a thread comes later. Without MSL_CHECKED nothing of
// it is there.
#pragma once
#include "base.h"

namespace msl {

constexpr uint max_threads = 1024;  // of a threadgroup
constexpr uint simd_width = 32;

#ifdef MSL_CHECKED

// Code that runs outside of kernels, or only on memory that is the runtime's own.
#define MSL_UNCHECKED __attribute__((no_sanitize("address")))

constexpr uint atomic_flag = 1u << 31;

// One access to a byte. Of an epoch that is over (0 is always over), it is forgotten.
struct Access {
  uint epoch;
  uint clock;   // of its thread
  uint thread;  // index in the threadgroup; with atomic_flag if it was atomic
  uint place;   // of the instruction, in bytes from the start of the library
};

// What is known of one byte: the last store, and loads that a store could conflict with.
constexpr uint remembered_loads = 3;
struct Shadow {
  Access store;
  Access loads[remembered_loads];
};

// A store to what another thread has stored to, as all threads of generated kernels do to clear a
// variable: a fault only if it changes the value, which shows when it is done.
struct DoubtfulStore {
  ulong bytes;  // 0: there is none
  char* address;
  const void* instruction;
  Access earlier;
  char before[16];
};

struct Races {
  uint epoch;
  bool atomic;  // whether the running thread is inside of an atomic function
  DoubtfulStore doubtful;  // of the running thread
  uint seen[max_threads][simd_width];
};

MSL_INLINE uint thread_of(const Access& a) { return a.thread & ~atomic_flag; }
MSL_INLINE bool same_simdgroup(uint a, uint b) {
  return a / simd_width == b / simd_width;
}

// Whether an earlier access is over for `thread`: by itself, or ordered by a barrier.
MSL_INLINE bool is_over(const Races& races, const Access& a, uint thread) {
  if (a.epoch != races.epoch || thread_of(a) == thread) return true;
  return same_simdgroup(thread_of(a), thread) &&
         races.seen[thread][thread_of(a) % simd_width] >= a.clock;
}

MSL_INLINE bool conflicts(const Races& races, const Access& earlier, const Access& now) {
  if (is_over(races, earlier, thread_of(now))) return false;
  return !(earlier.thread & now.thread & atomic_flag);
}

// Keeps a load in place of one that is over. If all that are kept come from one other SIMD group,
// which may order them by itself, one of them makes way: a barrier of theirs says nothing here.
MSL_UNCHECKED inline void remember_load(const Races& races, Shadow& byte, const Access& load) {
  const uint thread = thread_of(load), first = thread_of(byte.loads[0]);
  bool elsewhere = !same_simdgroup(first, thread);
  for (Access& known : byte.loads) {
    if (is_over(races, known, thread)) {
      known = load;
      return;
    }
    elsewhere = elsewhere && same_simdgroup(thread_of(known), first);
  }
  if (elsewhere) byte.loads[0] = load;
}

// What an access conflicts with.
struct Race {
  bool is_there;
  bool with_store;
  Access earlier;
};

// Remembers `now`, and gives what it conflicts with; with stores only if not with loads.
MSL_UNCHECKED inline Race find_race(const Races& races, Shadow* bytes, ulong count,
                                    const Access& now, bool is_store) {
  Race race{};
  for (ulong i = 0; i < count; i++) {
    Shadow& byte = bytes[i];
    if (!race.is_there && conflicts(races, byte.store, now)) race = {true, true, byte.store};
    if (!is_store) {
      remember_load(races, byte, now);
      continue;
    }
    for (const Access& load : byte.loads)
      if (conflicts(races, load, now)) return {true, false, load};
    byte.store = now;
  }
  return race;
}

// Starts an epoch; `shadow` has `count` bytes' entries. Number 0 stays that of no access.
MSL_INLINE void start_epoch(Races& races, Shadow* shadow, ulong count) {
  if (++races.epoch != 0) return;
  __builtin_memset(shadow, 0, count * sizeof(Shadow));
  races.epoch = 1;
}

// The lanes in `mask` have met: each comes after what the others did before.
MSL_UNCHECKED inline void lanes_met(Races& races, uint simdgroup, uint mask) {
  uint(*rows)[simd_width] = &races.seen[simdgroup * simd_width];
  uint latest[simd_width] = {};
  for (uint m = mask; m; m &= m - 1)
    for (uint i = 0; i < simd_width; i++) {
      const uint clock = rows[__builtin_ctz(m)][i];
      latest[i] = clock > latest[i] ? clock : latest[i];
    }
  for (uint m = mask; m; m &= m - 1) {
    const uint lane = (uint)__builtin_ctz(m);
    __builtin_memcpy(rows[lane], latest, sizeof(latest));
    rows[lane][lane]++;
  }
}

// A thread's own clock starts ahead of what the others have seen of it.
MSL_UNCHECKED inline void start_clocks(Races& races, uint threads) {
  races.atomic = false;
  races.doubtful.bytes = 0;
  const uint simdgroups = (threads + simd_width - 1) / simd_width;
  __builtin_memset(races.seen, 0, simdgroups * simd_width * sizeof(races.seen[0]));
  for (uint i = 0; i < simdgroups * simd_width; i++)
    races.seen[i][i % simd_width] = 1;
}

#else

#define MSL_UNCHECKED

struct Races {};
MSL_INLINE void lanes_met(Races&, uint, uint) {}

#endif

}  // namespace msl
