// Fission: a synchronising kernel as loops over the threads of a threadgroup.
//
// The phases of a kernel come from fission/emit.rs. Here is what they stand on: arrays of the
// values that threads keep from one phase to the next, blocks of the elements that threads share,
// and the walk over the threadgroups of a grid.
#pragma once
#include "reduction.h"

// The same of a few threads: such a loop, once unrolled, would no longer become vectors.
#define MSL_SHORT_PHASE \
  _Pragma("clang loop vectorize(assume_safety) interleave(enable) unroll(disable)")

namespace msl {
namespace fission {

// --- parameters

template <uint Index, class First, class... Rest>
struct Nth : Nth<Index - 1, Rest...> {};
template <class First, class... Rest>
struct Nth<0, First, Rest...> {
  using type = First;
};
template <uint Index, class... P>
typename Nth<Index, P...>::type parameter_of(void (*)(P...));
// The type of a kernel's parameter.
template <auto Kernel, uint Index>
using parameter = decltype(parameter_of<Index>(Kernel));

// The element type of an array.
template <class A>
using element = metal::decay_t<decltype(metal::declval<A&>()[0])>;

// --- values that are kept for each thread

template <class... T>
struct Pack;
template <>
struct Pack<> {};
template <class First, class... Rest>
struct Pack<First, Rest...> {
  First first;
  Pack<Rest...> rest;
};
MSL_INLINE Pack<> pack() { return {}; }
template <class First, class... Rest>
MSL_INLINE Pack<First, Rest...> pack(First first, Rest... rest) {
  return {first, pack(rest...)};
}

template <class P, uint Count>
struct Kept;
template <uint Count>
struct alignas(64) Kept<Pack<>, Count> {
  MSL_INLINE void set(uint, Pack<>) {}
};
template <class First, class... Rest, uint Count>
struct Kept<Pack<First, Rest...>, Count> {
  alignas(64) First first[Count];
  Kept<Pack<Rest...>, Count> rest;
  MSL_INLINE void set(uint thread, const Pack<First, Rest...>& values) {
    first[thread] = values.first;
    rest.set(thread, values.rest);
  }
};
template <uint Index, class K>
MSL_INLINE auto& array(K& kept) {
  if constexpr (Index == 0) {
    return kept.first;
  } else {
    return array<Index - 1>(kept.rest);
  }
}

// --- loops over the elements that the threads of a group share

constexpr uint lanes = 256;       // of a block, where something is gathered in lanes
constexpr uint elements = 4096;  // of a block that has none
constexpr long unbounded = 0x7fffffffffffffffl;

// How often a loop `for (auto c = 0; c < n; ++c)` runs.
template <class N>
MSL_INLINE long trips(N n) {
  if constexpr (metal::is_integral_v<N>) return (long)n < 0 ? 0 : (long)n;
  else return n > 0 ? (long)__builtin_ceilf((float)n) : 0;
}
// The elements, counted from 0, of threads that each take `trips` neighbours.
MSL_INLINE long blocked(long trips, long bound, uint threads) {
  const long all = trips * threads;
  return bound < all ? (bound < 0 ? 0 : bound) : all;
}
// The same of threads that take each 1024th; negative if there are gaps between them.
MSL_INLINE long strided(long trips, long bound, uint threads) {
  if (trips > 1 && threads != 1024) return -1;
  return blocked(trips, bound, threads);
}
// Lanes that are used for so many elements.
MSL_INLINE uint width(long total) { return total < 1 ? 1 : total < lanes ? (uint)total : lanes; }
// Elements of a block with so many left.
template <uint Block>
MSL_INLINE uint filled(long left) { return left < Block ? (uint)left : Block; }

template <class T, uint Count>
MSL_INLINE void fill(T (&values)[Count], T value) {
  for (uint l = 0; l < Count; l++) values[l] = value;
}

constexpr uint columns = 64;  // groups that run side by side, at most

// Memory of a worker: the values that threads keep come first, then arrays with a value of each
// of up to 16384 elements of one group, or 2048 of each column, then threadgroup memory of columns.
constexpr ulong elements_offset = 16ul << 20;
constexpr ulong most_elements = 2048 * columns;
constexpr ulong columns_offset = elements_offset + 8 * most_elements * 16;
template <class T>
MSL_INLINE metal::decay_t<T>* values_of_elements(char* memory, uint array) {
  static_assert(sizeof(T) <= 16, "values of elements are small");
  return (metal::decay_t<T>*)(memory + elements_offset + array * most_elements * 16);
}

// Whether two buffers overlap, other than as the same from the same start.
MSL_INLINE bool overlap(const Launch* l, uint a, uint b, bool may_be_same) {
  const char *start_a = (const char*)l->buffers[a], *start_b = (const char*)l->buffers[b];
  if (may_be_same && start_a == start_b) return false;
  return start_a < start_b + l->sizes[b] && start_b < start_a + l->sizes[a];
}

// As `place_of`, but of equals the one with the least place: lanes are not in the order of places.
template <class Op, class R, class P, class T, class I, uint Most>
MSL_INLINE P least_place_of(const T (&values)[Most], const I (&places)[Most], uint count) {
  static_assert(metal::is_same_v<R, T>, "values of another type than the operation's");
  const T best = reduce<Op, T>(values, count);
  constexpr I none = metal::numeric_limits<I>::max();
  I least = none;
MSL_PHASE for (uint i = 0; i < count; i++) {
    bool is_best = values[i] == best;
    if constexpr (metal::is_floating_point_v<T>) is_best |= best != best && values[i] != values[i];
    const I place = is_best ? places[i] : none;
    least = place < least ? place : least;
  }
  return P(least);
}

// Mean and spread of numbers: each block in two passes, and then with those before it.
struct OfNumbers {
  alignas(64) float values[lanes];
  metal::float3 all = metal::float3(0.0f);
  MSL_INLINE void add(uint count) { all = welford_pair(all, welford(values, count)); }
};
MSL_INLINE metal::float3 together(const OfNumbers& of, uint) { return of.all; }
// Mean and spread of sets of numbers.
struct OfSets {
  metal::float3 sets[lanes];
  MSL_INLINE OfSets() {
    for (uint l = 0; l < lanes; l++) sets[l] = metal::float3(0.0f);
  }
};
MSL_INLINE metal::float3 together(const OfSets& of, uint width) {
  return welford_combine(of.sets, width);
}

// --- several threadgroups side by side

constexpr long rows = 128;    // elements whose sum is a part of the whole sum

// One column of an array with a row for each thread.
template <class T>
struct Column {
  T* first;
  MSL_INLINE T& operator[](ulong row) const { return first[row * columns]; }
};
// The array number `Number`, in the memory of a worker.
template <class T, uint Number>
MSL_INLINE auto& columns_of(char* memory) {
  static_assert(sizeof(T) <= 16 && Number < 64, "threadgroup memory is small");
  constexpr ulong bytes = max_threads * columns * 16;
  static_assert(stacks_offset + columns_offset + 64 * bytes <= arena_size, "the arena is larger");
  return *(T(*)[max_threads * columns])(memory + columns_offset + Number * bytes);
}

// Adds parts to the whole, and starts them anew.
template <class Op, class T>
MSL_INLINE void fold(T (&all)[columns], T (&part)[columns], T start) {
  for (uint l = 0; l < columns; l++) {
    all[l] = Op::template apply<T>(all[l], part[l]);
    part[l] = start;
  }
}
template <class R, class T>
MSL_INLINE void together(const T (&all)[columns], R (&result)[columns]) {
  for (uint l = 0; l < columns; l++) result[l] = R(all[l]);
}

// The reduction of each of `wide` columns.
template <class Op, class R, class T, uint Most>
MSL_INLINE void reduce_columns(const T (&values)[Most], uint count, uint wide,
                               R (&result)[columns]) {
  static_assert(metal::is_scalar_v<R>, "only numbers are reduced");
  for (uint l = 0; l < wide; l++) result[l] = R(values[l]);
  for (uint block = 1; block < count; block += (uint)rows) {
    const uint end = block + (uint)rows < count ? block + (uint)rows : count;
    R part[columns];
    for (uint l = 0; l < wide; l++) part[l] = R(values[block * columns + l]);
    for (uint row = block + 1; row < end; row++) {
MSL_PHASE for (uint l = 0; l < wide; l++)
        part[l] = Op::template apply<R>(part[l], R(values[row * columns + l]));
    }
    for (uint l = 0; l < wide; l++) result[l] = Op::template apply<R>(result[l], part[l]);
  }
}

// The entry of `places` beside the greatest (or least) value of each column, as `place_of`.
template <class Op, class T, class I, uint Most>
MSL_INLINE void places_of_columns(const T (&values)[Most], const I (&places)[Most], uint count,
                                  uint wide, I (&result)[columns]) {
  T best[columns];
  for (uint l = 0; l < wide; l++) {
    best[l] = values[l];
    result[l] = places[l];
  }
  for (uint row = 1; row < count; row++) {
MSL_PHASE for (uint l = 0; l < wide; l++)
      keep_first<Op, T, I>(best[l], result[l], values[row * columns + l], places[row * columns + l]);
  }
}

// Mean and spread of the numbers of each column.
template <class T, uint Most>
MSL_INLINE void welford_columns(const T (&values)[Most], uint count, uint wide,
                                metal::float3 (&result)[columns]) {
  alignas(64) float mean[columns], spread[columns];
  reduce_columns<Add, float>(values, count, wide, mean);
  for (uint l = 0; l < wide; l++) mean[l] /= (float)count;
  fill(spread, 0.0f);
  for (uint block = 0; block < count; block += (uint)rows) {
    const uint end = block + (uint)rows < count ? block + (uint)rows : count;
    float part[columns] = {};
    for (uint row = block; row < end; row++) {
MSL_PHASE for (uint l = 0; l < wide; l++) {
        const float d = (float)values[row * columns + l] - mean[l];
        part[l] += d * d;
      }
    }
    for (uint l = 0; l < wide; l++) spread[l] += part[l];
  }
  for (uint l = 0; l < wide; l++) result[l] = metal::float3(mean[l], spread[l], (float)count);
}

// The same of numbers that come row by row.
struct ColumnsOfNumbers {
  alignas(64) float mean[columns] = {}, spread[columns] = {};
  float count = 0;
  // For the next row: what its distance from the mean weighs.
  MSL_INLINE float next() { return 1.0f / (count += 1.0f); }
  MSL_INLINE void add(uint lane, float value, float weight) {
    const float distance = value - mean[lane], moved = mean[lane] + distance * weight;
    spread[lane] += distance * (value - moved);
    mean[lane] = moved;
  }
};
MSL_INLINE void together(const ColumnsOfNumbers& of, metal::float3 (&result)[columns]) {
  for (uint l = 0; l < columns; l++)
    result[l] = metal::float3(of.mean[l], of.spread[l], of.count);
}

// --- the walk over a grid

// Threads along one axis, at most: their places are numbers with a sign.
constexpr uint most_threads = INT_MAX;

// Thread `number` of a group whose threads lie along `Axis`; in rows of `Width` of them along the
// next axis, if that is not 0.
template <uint Axis, bool OneGroup, uint Width>
MSL_INLINE Thread thread_of(const Launch* l, const uint3& where, uint count, uint number) {
  const uint in_row = Width ? number % (Width ? Width : 1) : number;
  const uint row = Width ? number / (Width ? Width : 1) : 0;
  const uint in_rows = Width ? Width : count, rows = Width ? count / (Width ? Width : 1) : 1;
  // With a sign: that the place does not wrap is what makes neighbouring threads' indices, and so
  // what they load, neighbours for the compiler. `run` has seen that it fits.
  const uint at = Axis == 0 ? where.x : Axis == 1 ? where.y : where.z;
  const uint first = OneGroup ? 0 : at * l->group[Axis];
  const uint place = (uint)((int)first + (int)in_row);
  // Of an axis: `own` along `Axis`, `next` along the one behind it.
  const auto along = [](uint axis, uint own, uint next, uint other) MSL_ALWAYS_INLINE {
    return axis == Axis ? own : Width && axis == Axis + 1 ? next : other;
  };
  Thread t;
  t.launch = l;
  t.context = nullptr;
  t.group = where;
  t.index = number;
  t.group_size = uint3(along(0, in_rows, rows, 1), along(1, in_rows, rows, 1),
                       along(2, in_rows, rows, 1));
  t.in_group = uint3(along(0, in_row, row, 0), along(1, in_row, row, 0), along(2, in_row, row, 0));
  t.in_grid = uint3(along(0, place, row, where.x), along(1, place, row, where.y),
                    along(2, place, row, where.z));
  return t;
}

// Threads of the group at `where`, if they all lie as a kernel's loops ask for, else 0.
template <uint Axis, bool OneGroup, uint Width>
MSL_INLINE uint threads_of(const Launch* l, const uint3& where) {
  constexpr uint next = Width ? Axis + 1 : 3, other = Axis == 0 ? 2 : 0;
  if constexpr (Width != 0) {
    static_assert(Axis < 2, "the rows of threads lie along another axis");
    const bool fits = l->grid[Axis] == Width && l->group[Axis] == Width && l->groups[next] == 1 &&
                      l->group[other] == 1;
    return fits ? Width * l->grid[next] : 0;
  } else {
    const uint at = Axis == 0 ? where.x : Axis == 1 ? where.y : where.z;
    return at_most(l->group[Axis], l->grid[Axis] - at * l->group[Axis]);
  }
}

// The linear threadgroups begin..end of the grid, x fastest, by `group`, as long as their threads
// lie as `threads_of` says (`Size` of them, if that is not 0); with `OneGroup` the grid must have
// one group along the axis. Gives the first that was not run.
template <uint Axis, bool OneGroup, uint Width, uint Size, class Group>
MSL_INLINE ulong run(const Launch* l, char* memory, ulong begin, ulong end, Group group) {
  constexpr uint second = Axis == 0 ? 1 : 0, third = Axis == 2 ? 1 : 2;
  if ((Width == 0 && (l->group[second] != 1 || l->group[third] != 1)) ||
      (OneGroup && l->groups[Axis] != 1) || l->grid[0] > most_threads ||
      l->grid[1] > most_threads || l->grid[2] > most_threads)
    return begin;
  uint3 where((uint)(begin % l->groups[0]), 0u, 0u);
  const ulong row = begin / l->groups[0];
  where.y = (uint)(row % l->groups[1]);
  where.z = (uint)(row / l->groups[1]);
  for (ulong g = begin; g < end; g++) {
    const uint size = threads_of<Axis, OneGroup, Width>(l, where);
    const bool fits = Size == 0 ? size != 0 : size == Size;
    if (__builtin_expect(!fits || !group(l, memory, where, size), 0)) return g;
    if (++where.x == l->groups[0]) {
      where.x = 0;
      if (++where.y == l->groups[1]) {
        where.y = 0;
        where.z++;
      }
    }
  }
  return end;
}

// Thread `number` of the group `lane` behind `where` in x; groups are one thread wide in x.
template <uint Axis>
MSL_INLINE Thread column_thread(const Launch* l, const uint3& where, uint count, uint number,
                                uint lane) {
  Thread t;
  t.launch = l;
  t.context = nullptr;
  const uint x = (uint)((int)where.x + (int)lane);  // with a sign, as in `thread_of`
  t.group = uint3(x, where.y, where.z);
  t.index = number;
  t.group_size = uint3(1u, Axis == 1 ? count : 1u, Axis == 2 ? count : 1u);
  t.in_group = uint3(0u, Axis == 1 ? number : 0u, Axis == 2 ? number : 0u);
  // One group along the axis, and one thread along the others.
  t.in_grid = uint3(x, Axis == 1 ? number : where.y, Axis == 2 ? number : where.z);
  return t;
}

// As `run`, with up to `columns` groups at once by `together`.
template <uint Axis, bool OneGroup, uint Width, uint Size, class Group, class Together>
MSL_INLINE ulong run_columns(const Launch* l, char* memory, ulong begin, ulong end, Group group,
                             Together together) {
  static_assert(Axis != 0 && OneGroup && Width == 0, "groups lie side by side in x");
  const uint size = at_most(l->group[Axis], l->grid[Axis]);
  const bool fits = l->group[0] == 1 && l->grid[0] <= most_threads && l->group[3 - Axis] == 1 &&
                    l->groups[Axis] == 1 && (Size == 0 || size == Size);
  while (begin < end) {
    uint3 where((uint)(begin % l->groups[0]), 0u, 0u);
    const ulong row = begin / l->groups[0], left = end - begin;
    where.y = (uint)(row % l->groups[1]);
    where.z = (uint)(row / l->groups[1]);
    uint wide = at_most(columns, l->groups[0] - where.x);
    if (left < wide) wide = (uint)left;
    const bool done =
        fits && wide >= 4 &&
        (wide == columns
             ? together(l, memory, where, size, metal::integral_constant<uint, columns>())
             : together(l, memory, where, size, wide));
    const ulong next =
        done ? begin + wide
             : run<Axis, OneGroup, Width, Size>(l, memory, begin, begin + wide, group);
    if (next < begin + wide) return next;
    begin = next;
  }
  return end;
}

}  // namespace fission
}  // namespace msl

// The loops of a kernel by `msl_group`, and by `msl_columns` where several groups lie side by side
// in x. They give the first threadgroup that was not run, which is for fibers.
#define MSL_ROWS_ENTRY(lie, threadgroup_bytes)                                        \
  MSL_LOOPS_ENTRY((msl::fission::run<MSL_REMOVE_PARENTHESES lie>), (&msl_group),      \
                  threadgroup_bytes)
#define MSL_COLUMNS_ENTRY(lie, threadgroup_bytes)                                     \
  MSL_LOOPS_ENTRY(                                                                    \
      (msl::fission::run_columns<MSL_REMOVE_PARENTHESES lie>),                        \
      (&msl_group, [](auto... of) MSL_ALWAYS_INLINE { return msl_columns(of...); }),  \
      threadgroup_bytes)
#define MSL_LOOPS_ENTRY(run, functions, threadgroup_bytes)                            \
  MSL_EXPORT uint static_threadgroup_memory() { return threadgroup_bytes; }           \
  MSL_EXPORT __attribute__((flatten)) ulong loops(const msl::Launch* l, void* arena,  \
                                                  ulong begin, ulong end) {           \
    char* const memory = (char*)arena + msl::stacks_offset;                           \
    return MSL_REMOVE_PARENTHESES run(l, memory, begin, end,                          \
                                      MSL_REMOVE_PARENTHESES functions);              \
  }
#define MSL_REMOVE_PARENTHESES(...) __VA_ARGS__
