// The checked mode: what the compiler calls before every load and store.
//
// The compiler instruments the code as for its address sanitizer, with calls in place of shadow
// memory; these are the functions that it calls, so that no library of a sanitizer is needed. An
// address is looked up in the arguments of the dispatch and among threadgroup memory. What must
// not be done is noted and not done: the thread never returns, and neither the threads of its
// group nor other groups go on.
//
// Whatever runs outside of a fiber is not instrumented (MSL_UNCHECKED): the context is found from
// the stack.
#pragma once
#include "launch.h"

#ifdef MSL_CHECKED

namespace msl {

enum FaultKind : uint {
  fault_memory = 1,       // a load or store outside of every argument
  fault_read_only = 2,    // a store to an argument that is read-only
  fault_threadgroup = 3,  // a load or store outside of every threadgroup variable
  fault_race = 4,         // no barrier between it and another thread's access
};

// One access that must not be; `Fault` in fault.rs.
struct Fault {
  uint state;  // 0: none, 1: being written, 2: there
  uint kind;
  ulong address;  // in threadgroup memory the bytes from the start of the variable
  ulong bytes;
  uint is_store;
  uint thread;  // index in the threadgroup
  uint group[3];
  uint place;  // of the instruction, in bytes from the start of the library
  // Threadgroup memory only: the variable (its name is null for an argument, which has an index).
  const char* variable;
  ulong variable_bytes;
  uint argument;
  // Races only: the earlier access.
  uint other_thread;
  uint other_is_store;
  uint other_place;
};

// The range of this library: its constants and tables are anybody's to read.
extern "C" {
#if defined(__APPLE__)
extern const char image_start[] __asm("segment$start$__TEXT");
extern const char image_stop[] __asm("segment$end$__DATA");
#else
extern const char image_start[] __asm("__ehdr_start") __attribute__((visibility("hidden")));
extern const char image_stop[] __asm("_end") __attribute__((visibility("hidden")));
#endif
}

struct Check {
  Context* context;
  ulong address, bytes;
  bool is_store;
  const void* instruction;

  MSL_INLINE uint place() const { return (uint)((const char*)instruction - image_start); }
};

// A threadgroup variable or argument, and where it lies.
struct ThreadgroupRange {
  const char* name;  // null: an argument
  uint argument;
  ulong start;   // from the start of threadgroup memory
  ulong bytes;
  ulong packed;  // bytes of those before it
};

// Notes the first fault of a dispatch and leaves the threadgroup.
[[noreturn]] MSL_UNCHECKED __attribute__((noinline)) void stop(const Check& check,
                                                               const Fault& what) {
  Context* c = check.context;
  Fault* fault = c->launch->fault;
  uint none = 0;
  if (fault && __atomic_compare_exchange_n(&fault->state, &none, 1u, false, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED)) {
    fault->kind = what.kind;
    fault->address = what.address;
    fault->bytes = check.bytes;
    fault->is_store = check.is_store;
    fault->thread = c->current;
    for (uint i = 0; i < 3; i++) fault->group[i] = c->group[i];
    fault->place = check.place();
    fault->variable = what.variable;
    fault->variable_bytes = what.variable_bytes;
    fault->argument = what.argument;
    fault->other_thread = what.other_thread;
    fault->other_is_store = what.other_is_store;
    fault->other_place = what.other_place;
    __atomic_store_n(&fault->state, 2u, __ATOMIC_RELEASE);
  }
  jump_to_stack(c->worker_stack);
}

// Bytes from `offset` to the range; 0 within it. Offsets may be negative.
MSL_INLINE ulong distance(ulong offset, const ThreadgroupRange& range) {
  const long within = (long)(offset - range.start), last = (long)range.bytes - 1;
  return within < 0 ? -within : within > last ? within - last : 0;
}

// The variable or argument at `offset` of threadgroup memory, or the one nearest to it.
MSL_UNCHECKED inline ThreadgroupRange threadgroup_range(const Launch* l, ulong offset) {
  ThreadgroupRange nearest{}, range{};
  bool any = false;
  auto consider = [&]() MSL_UNCHECKED {
    if (range.bytes && (!any || distance(offset, range) < distance(offset, nearest))) {
      nearest = range;
      any = true;
    }
    range.packed += (range.bytes + 15) & ~15ul;
  };
  for (const ThreadgroupVariable* v = variables_start; v != variables_stop; v++) {
    range.name = v->name;
    range.start = (ulong)(v->place - msl_static_start);
    range.bytes = v->bytes;
    consider();
  }
  for (uint i = 0; i < 8; i++) {
    range.name = nullptr;
    range.argument = i;
    range.start = threadgroup_argument_offset(l->threadgroup_lengths, i);
    range.bytes = l->threadgroup_lengths[i];
    consider();
  }
  return nearest;
}

// What is known of a place in threadgroup memory.
MSL_UNCHECKED inline Fault threadgroup_fault(const Check& check, const ThreadgroupRange& range) {
  Fault what{};
  what.kind = fault_threadgroup;
  what.address = check.address - (ulong)check.context->threadgroup_memory() - range.start;
  what.variable = range.name;
  what.variable_bytes = range.bytes;
  what.argument = range.argument;
  return what;
}

[[noreturn]] MSL_UNCHECKED inline void stop_race(const Check& check, const ThreadgroupRange& range,
                                                 const Race& race) {
  Fault what = threadgroup_fault(check, range);
  what.kind = fault_race;
  what.other_thread = thread_of(race.earlier);
  what.other_is_store = race.with_store;
  what.other_place = race.earlier.place;
  stop(check, what);
}

MSL_UNCHECKED inline void check_threadgroup(const Check& check) {
  Context* c = check.context;
  const ulong offset = check.address - (ulong)c->threadgroup_memory();
  const ThreadgroupRange range = threadgroup_range(c->launch, offset);
  const ulong within = offset - range.start;
  if (within > range.bytes || check.bytes > range.bytes - within)
    stop(check, threadgroup_fault(check, range));
  Races& races = c->races;
  const uint flag = races.atomic ? atomic_flag : 0;
  const uint thread = c->current;
  const Access now{races.epoch, races.seen[thread][thread % simd_width], thread | flag,
                   check.place()};
  Shadow* bytes = c->shadow() + range.packed + within;
  const Race race = find_race(races, bytes, check.bytes, now, check.is_store);
  if (!race.is_there) return;
  if (check.is_store && race.with_store && check.bytes <= sizeof(races.doubtful.before)) {
    races.doubtful.bytes = check.bytes;
    races.doubtful.address = (char*)check.address;
    races.doubtful.instruction = check.instruction;
    races.doubtful.earlier = race.earlier;
    for (ulong i = 0; i < check.bytes; i++)
      races.doubtful.before[i] = ((const char*)check.address)[i];
    return;
  }
  stop_race(check, range, race);
}

// Looks at what the running thread's doubtful store has done: before it does anything else.
MSL_UNCHECKED inline void settle_store(Context* c) {
  DoubtfulStore& store = c->races.doubtful;
  bool changed = false;
  for (ulong i = 0; i < store.bytes; i++) changed |= store.before[i] != store.address[i];
  if (changed) {
    const Check check{c, (ulong)store.address, store.bytes, true, store.instruction};
    const ulong offset = check.address - (ulong)c->threadgroup_memory();
    stop_race(check, threadgroup_range(c->launch, offset), {true, true, store.earlier});
  }
  store.bytes = 0;
}

MSL_UNCHECKED inline bool lies_in(ulong address, ulong bytes, const void* start, ulong size) {
  const ulong within = address - (ulong)start;
  return within <= size && bytes <= size - within;
}

MSL_UNCHECKED inline void check_memory(const Check& check) {
  const Launch* l = check.context->launch;
  bool read_only = false;
  for (ulong i = 0; i < l->buffer_count; i++) {
    if (!lies_in(check.address, check.bytes, l->buffers[i], l->sizes[i])) continue;
    if (!check.is_store || l->writable >> i & 1) return;
    read_only = true;
  }
  if (!check.is_store &&
      (lies_in(check.address, check.bytes, l, sizeof(*l)) ||
       lies_in(check.address, check.bytes, l->buffers, l->buffer_count * sizeof(void*)) ||
       lies_in(check.address, check.bytes, image_start, (ulong)(image_stop - image_start))))
    return;
  Fault what{};
  what.kind = read_only ? fault_read_only : fault_memory;
  what.address = check.address;
  stop(check, what);
}

MSL_UNCHECKED MSL_INLINE void check_access(ulong address, ulong bytes, bool is_store,
                                           const void* instruction) {
  if (!bytes) return;
  const Check check{context(), address, bytes, is_store, instruction};
  if (check.context->races.doubtful.bytes) settle_store(check.context);
  const ulong offset = address - (ulong)check.context;
  if (offset >= arena_size) return check_memory(check);
  // The fibers' stacks, and what the runtime keeps of them.
  if (offset >= stacks_offset || offset < sizeof(Context)) return;
  check_threadgroup(check);
}

}  // namespace msl

#define MSL_CALLBACK \
  __attribute__((noinline, used, visibility("hidden"))) MSL_UNCHECKED

extern "C" {
#define MSL_CHECKS(bytes)                                                       \
  MSL_CALLBACK void __asan_load##bytes(ulong address) {                         \
    msl::check_access(address, bytes, false, __builtin_return_address(0));      \
  }                                                                             \
  MSL_CALLBACK void __asan_store##bytes(ulong address) {                        \
    msl::check_access(address, bytes, true, __builtin_return_address(0));       \
  }
MSL_CHECKS(1)
MSL_CHECKS(2)
MSL_CHECKS(4)
MSL_CHECKS(8)
MSL_CHECKS(16)
#undef MSL_CHECKS
MSL_CALLBACK void __asan_loadN(ulong address, ulong bytes) {
  msl::check_access(address, bytes, false, __builtin_return_address(0));
}
MSL_CALLBACK void __asan_storeN(ulong address, ulong bytes) {
  msl::check_access(address, bytes, true, __builtin_return_address(0));
}
MSL_CALLBACK void* __asan_memcpy(void* to, const void* from, ulong bytes) {
  msl::check_access((ulong)from, bytes, false, __builtin_return_address(0));
  msl::check_access((ulong)to, bytes, true, __builtin_return_address(0));
  return __builtin_memcpy(to, from, bytes);
}
MSL_CALLBACK void* __asan_memmove(void* to, const void* from, ulong bytes) {
  msl::check_access((ulong)from, bytes, false, __builtin_return_address(0));
  msl::check_access((ulong)to, bytes, true, __builtin_return_address(0));
  return __builtin_memmove(to, from, bytes);
}
MSL_CALLBACK void* __asan_memset(void* to, int value, ulong bytes) {
  msl::check_access((ulong)to, bytes, true, __builtin_return_address(0));
  return __builtin_memset(to, value, bytes);
}
// There is nothing to set up and nothing to clean up.
MSL_CALLBACK void __asan_init() {}
MSL_CALLBACK void __asan_version_mismatch_check_v8() {}
MSL_CALLBACK void __asan_handle_no_return() {}
}

#endif
