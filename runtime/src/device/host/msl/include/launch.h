// Kernel arguments and the entry of a kernel.
#pragma once
#include "fiber.h"
#include "split.h"
#include "threadgroup.h"

namespace msl {

struct Fault;

// What an entry gets to know about one dispatch; `Launch` in mod.rs.
struct Launch {
  void* const* buffers;
  const ulong* sizes;
  ulong buffer_count;
  uint grid[3], group[3], groups[3];
  uint writable;  // a bit for each buffer that the kernel may write to
  uint threadgroup_lengths[8];
  Fault* fault;   // null without MSL_CHECKED
};

using metal::uint3;

// Where one thread stands.
struct Thread {
  const Launch* launch;
  Context* context;   // null in a plain kernel
  uint3 in_grid;      // thread_position_in_grid
  uint3 in_group;     // thread_position_in_threadgroup
  uint3 group;        // threadgroup_position_in_grid
  uint3 group_size;   // threads_per_threadgroup, smaller for groups at the edge
  uint index;         // thread_index_in_threadgroup
  int split_base, split_rest;  // of a split index
};

MSL_INLINE uint simdgroups_of(uint threads) { return (threads + simd_width - 1) / simd_width; }

// --- what a kernel parameter is bound to

template <uint Index>
struct Buffer {};
template <uint Index>
struct ThreadgroupBuffer {};

// Each builtin is a function of the thread. The names are those of the attributes.
#define MSL_BUILTIN(name, expression)                               \
  struct name {                                                     \
    static MSL_INLINE auto get(const Thread& t) { return expression; } \
  };
namespace builtin {
MSL_BUILTIN(thread_position_in_grid, t.in_grid)
MSL_BUILTIN(thread_position_in_threadgroup, t.in_group)
MSL_BUILTIN(threadgroup_position_in_grid, t.group)
MSL_BUILTIN(threads_per_threadgroup, t.group_size)
MSL_BUILTIN(dispatch_threads_per_threadgroup,
            uint3(t.launch->group[0], t.launch->group[1], t.launch->group[2]))
MSL_BUILTIN(threads_per_grid, uint3(t.launch->grid[0], t.launch->grid[1], t.launch->grid[2]))
MSL_BUILTIN(grid_size, uint3(t.launch->grid[0], t.launch->grid[1], t.launch->grid[2]))
MSL_BUILTIN(grid_origin, uint3(0u))
MSL_BUILTIN(threadgroups_per_grid,
            uint3(t.launch->groups[0], t.launch->groups[1], t.launch->groups[2]))
MSL_BUILTIN(thread_index_in_threadgroup, t.index)
MSL_BUILTIN(thread_index_in_simdgroup, t.index % simd_width)
MSL_BUILTIN(simdgroup_index_in_threadgroup, t.index / simd_width)
MSL_BUILTIN(threads_per_simdgroup, simd_width)
MSL_BUILTIN(thread_execution_width, simd_width)
MSL_BUILTIN(simdgroups_per_threadgroup,
            simdgroups_of(t.group_size.x* t.group_size.y* t.group_size.z))
MSL_BUILTIN(dispatch_simdgroups_per_threadgroup,
            simdgroups_of(t.launch->group[0] * t.launch->group[1] * t.launch->group[2]))
MSL_BUILTIN(thread_index_in_quadgroup, t.index % 4)
MSL_BUILTIN(quadgroup_index_in_threadgroup, t.index / 4)
MSL_BUILTIN(quadgroups_per_threadgroup,
            (t.group_size.x * t.group_size.y * t.group_size.z + 3) / 4)
MSL_BUILTIN(dispatch_quadgroups_per_threadgroup,
            (t.launch->group[0] * t.launch->group[1] * t.launch->group[2] + 3) / 4)
}  // namespace builtin
#undef MSL_BUILTIN

// A builtin in the type of the parameter: uint, ushort, uint2, ushort3, ...
template <class P>
struct Converted {
  static MSL_INLINE P from(uint value) { return P(value); }
  static MSL_INLINE P from(const uint3& value) { return P(value.x); }
};
template <class T>
struct Converted<metal::vec<T, 2>> {
  static MSL_INLINE metal::vec<T, 2> from(const uint3& v) { return {T(v.x), T(v.y)}; }
};
template <class T>
struct Converted<metal::vec<T, 3>> {
  static MSL_INLINE metal::vec<T, 3> from(const uint3& v) { return {T(v.x), T(v.y), T(v.z)}; }
};

// One argument: read from the launch once, given to each thread.
template <class P, class Binding>
struct Argument {
  MSL_INLINE Argument(const Launch*) {}
  MSL_INLINE P get(const Thread& t) const {
    return Converted<metal::remove_cv_t<P>>::from(Binding::get(t));
  }
};
template <uint Width, bool Tiled, class Binding>
struct Argument<SplitIndex<Width, Tiled>, Binding> {
  MSL_INLINE Argument(const Launch*) {}
  MSL_INLINE SplitIndex<Width, Tiled> get(const Thread& t) const {
    return {t.split_base, t.split_rest};
  }
};
template <class T, uint Index>
struct Argument<T*, Buffer<Index>> {
  T* pointer;
  MSL_INLINE Argument(const Launch* l) : pointer((T*)l->buffers[Index]) {}
  MSL_INLINE T* get(const Thread&) const { return pointer; }
};
template <class T, uint Index>
struct Argument<T&, Buffer<Index>> {
  T* pointer;
  MSL_INLINE Argument(const Launch* l) : pointer((T*)l->buffers[Index]) {}
  MSL_INLINE T& get(const Thread&) const { return *pointer; }
};
// A constant reference to a plain value is a copy: the loop over threads need not load it again.
template <class T>
constexpr bool is_copied = metal::is_trivially_copyable_v<T> && !__is_array(T) && sizeof(T) <= 256;
template <class T, uint Index>
struct Argument<const T&, Buffer<Index>> {
  metal::conditional_t<is_copied<T>, const T, const T&> value;
  MSL_INLINE Argument(const Launch* l) : value(*(const T*)l->buffers[Index]) {}
  MSL_INLINE const T& get(const Thread&) const { return value; }
};

template <class T, uint Index>
struct Argument<T*, ThreadgroupBuffer<Index>> {
  ulong offset;
  MSL_INLINE Argument(const Launch* l)
      : offset(threadgroup_argument_offset(l->threadgroup_lengths, Index)) {}
  MSL_INLINE T* get(const Thread& t) const {
    return (T*)(t.context->threadgroup_memory() + offset);
  }
};
template <class T, uint Index>
struct Argument<T&, ThreadgroupBuffer<Index>> {
  Argument<T*, ThreadgroupBuffer<Index>> pointer;
  MSL_INLINE Argument(const Launch* l) : pointer(l) {}
  MSL_INLINE T& get(const Thread& t) const { return *pointer.get(t); }
};

// --- calling the kernel

template <class... Arguments>
struct ArgumentList;
template <>
struct ArgumentList<> {
  MSL_INLINE ArgumentList(const Launch*) {}
  template <class Kernel, class... Values>
  MSL_INLINE void call(const Thread&, Kernel kernel, Values&&... values) const {
    kernel(static_cast<Values&&>(values)...);
  }
};
template <class P, class Binding>
struct Bound : Argument<P, Binding> {
  using Argument<P, Binding>::Argument;
};
template <class P, class Binding, class... Rest>
struct ArgumentList<Bound<P, Binding>, Rest...> {
  Bound<P, Binding> first;
  ArgumentList<Rest...> rest;
  MSL_INLINE ArgumentList(const Launch* l) : first(l), rest(l) {}
  template <class Kernel, class... Values>
  MSL_INLINE void call(const Thread& t, Kernel kernel, Values&&... values) const {
    rest.call(t, kernel, static_cast<Values&&>(values)..., static_cast<P>(first.get(t)));
  }
};

MSL_INLINE uint at_most(uint a, uint b) { return a < b ? a : b; }

// Whether a thread of this dispatch did what it must not do.
MSL_INLINE bool has_fault(const Launch* l) {
#ifdef MSL_CHECKED
  return l->fault && __atomic_load_n((const uint*)l->fault, __ATOMIC_RELAXED) != 0;
#else
  (void)l;
  return false;
#endif
}

// `Kernel` with its parameters bound to `Bindings`, in order.
template <auto Kernel, class... Bindings>
struct Run {
  template <class... P>
  static ArgumentList<Bound<P, Bindings>...> list_for(void (*)(P...));
  using Arguments = decltype(list_for(Kernel));
  template <class... P>
  static SplitOf<P...> split_for(void (*)(P...));
  using Split = decltype(split_for(Kernel));

  // A kernel that does not synchronise: the linear threads begin..end of the grid, x fastest.
  static __attribute__((flatten)) void plain(const Launch* l, ulong begin, ulong end) {
    Arguments arguments(l);
    const uint width = l->grid[0], height = l->grid[1];
    const uint3 group(l->group[0], l->group[1], l->group[2]);
    while (begin < end) {
      const uint x_begin = (uint)(begin % width);
      const ulong row = begin / width;
      const uint y = (uint)(row % height), z = (uint)(row / height);
      const ulong left = end - begin;
      const uint count = width - x_begin < left ? width - x_begin : (uint)left;
      if constexpr (Split::width != 0) {
        // Such a kernel knows no other place than its index. The index is given in two parts only:
        // their sum, once formed without a sign, would hide that it does not wrap.
        const auto body = [&](int base, int rest) __attribute__((always_inline)) {
          Thread t = {};
          t.split_base = base;
          t.split_rest = rest;
          arguments.call(t, Kernel);
        };
        split_loop<Split::width, Split::tiled>(x_begin, x_begin + count, body);
      } else {
#pragma clang loop vectorize(assume_safety)
        for (uint x = x_begin; x < x_begin + count; x++) {
          Thread t;
          t.launch = l;
          t.context = nullptr;
          t.in_grid = uint3(x, y, z);
          t.group = uint3(x / group.x, y / group.y, z / group.z);
          t.in_group = uint3(x % group.x, y % group.y, z % group.z);
          t.group_size = uint3(at_most(group.x, width - t.group.x * group.x),
                               at_most(group.y, height - t.group.y * group.y),
                               at_most(group.z, l->grid[2] - t.group.z * group.z));
          t.index = (t.in_group.z * t.group_size.y + t.in_group.y) * t.group_size.x + t.in_group.x;
          arguments.call(t, Kernel);
        }
      }
      begin += count;
    }
  }

  // One thread of a synchronising kernel, on a fiber.
  static __attribute__((flatten)) void body(Context* c, uint thread) {
    const Launch* l = c->launch;
    Arguments arguments(l);
    Thread t;
    t.launch = l;
    t.context = c;
    t.group = c->group;
    t.group_size = c->group_size;
    t.index = thread;
    t.in_group = uint3(thread, 0, 0);
    if (c->group_size.y != 1 || c->group_size.z != 1) {
      const uint row = thread / c->group_size.x;
      t.in_group = uint3(thread % c->group_size.x, row % c->group_size.y, row / c->group_size.y);
    }
    t.in_grid = uint3(c->group.x * l->group[0] + t.in_group.x,
                      c->group.y * l->group[1] + t.in_group.y,
                      c->group.z * l->group[2] + t.in_group.z);
    arguments.call(t, Kernel);
  }

  // A synchronising kernel: the linear threadgroups begin..end of the grid, x fastest.
  static __attribute__((flatten)) MSL_UNCHECKED void fibers(const Launch* l, Context* c, ulong begin, ulong end) {
    c->launch = l;
    c->body = &body;
    reset_stacks(c);
    for (ulong g = begin; g < end && !has_fault(l); g++) {
      const ulong row = g / l->groups[0];
      c->group = uint3((uint)(g % l->groups[0]), (uint)(row % l->groups[1]),
                       (uint)(row / l->groups[1]));
      c->group_size = uint3(at_most(l->group[0], l->grid[0] - c->group.x * l->group[0]),
                            at_most(l->group[1], l->grid[1] - c->group.y * l->group[1]),
                            at_most(l->group[2], l->grid[2] - c->group.z * l->group[2]));
      c->thread_count = c->group_size.x * c->group_size.y * c->group_size.z;
      run_group(c);
    }
  }
};

}  // namespace msl

#define MSL_EXPORT extern "C" __attribute__((visibility("default")))
#define MSL_STATIC_THREADGROUP_MEMORY \
  MSL_EXPORT MSL_UNCHECKED uint static_threadgroup_memory() {       \
    return msl::static_threadgroup_bytes();                         \
  }
#define MSL_PLAIN_ENTRY(...)                                                                \
  MSL_EXPORT void entry(const msl::Launch* l, void*, ulong begin, ulong end) {              \
    msl::Run<__VA_ARGS__>::plain(l, begin, end);                                            \
  }                                                                                         \
  MSL_STATIC_THREADGROUP_MEMORY
#define MSL_FIBERS_ENTRY(...)                                                               \
  MSL_EXPORT MSL_UNCHECKED void entry(const msl::Launch* l, void* arena, ulong begin, ulong end) {        \
    msl::Run<__VA_ARGS__>::fibers(l, (msl::Context*)arena, begin, end);                     \
  }                                                                                         \
  MSL_STATIC_THREADGROUP_MEMORY
