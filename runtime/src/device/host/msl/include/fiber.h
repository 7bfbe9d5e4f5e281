// Fibers: how the threads of one threadgroup wait for each other.
//
// A worker of the host runs one threadgroup at a time. Each thread of the group is a fiber with
// a stack of its own, started when the ones before it have to wait; a thread that never waits
// costs no switch. All of it lies in the worker's arena, which is aligned to its size, so that
// code on a fiber finds the context from its stack pointer. No thread-local variable is used:
// they would run out after some hundred kernels, each of which is a library of its own.
#pragma once
#include "races.h"
#include "vec.h"

namespace msl {

constexpr uint max_simdgroups = max_threads / simd_width;
constexpr uint all_lanes = 0xffffffffu;

// The arena: the context at its base, threadgroup memory, and the stacks at its end.
constexpr ulong arena_size = 1ul << 27;  // ARENA_SIZE in mod.rs
constexpr ulong stack_size = 120ul << 10;
constexpr ulong threadgroup_memory_offset = 1ul << 20;
constexpr ulong stacks_offset = arena_size - max_threads * stack_size;
constexpr ulong max_threadgroup_memory = 32ul << 10;  // bytes
#ifdef MSL_CHECKED
constexpr ulong shadow_offset = stacks_offset - max_threadgroup_memory * sizeof(Shadow);
#endif

struct Launch;
struct Context;

// Performs a SIMD operation on the values that the lanes in `mask` have left in `input`.
using Complete = void (*)(Context*, uint simdgroup, uint mask);

struct Simdgroup {
  uint live;        // lanes that have not returned
  uint waiting;     // lanes that wait in a SIMD operation
  uint at_barrier;  // lanes that wait at a threadgroup barrier
  bool divergent;   // whether the lanes wait in different operations
  uint site;        // the operation of the first lane that came
  Complete complete;
};

constexpr uint slot_bytes = 16;  // the largest value that a SIMD operation exchanges

struct Context {
  // The group that runs.
  const Launch* launch;
  void (*body)(Context*, uint thread);
  metal::vec<uint, 3> group, group_size;
  uint thread_count;

  // Scheduling.
  uint current;        // the running thread
  uint current_stack;  // and its stack
  uint next;           // the first thread that has not started
  uint live;           // threads that have not returned
  uint at_barrier;     // threads at the threadgroup barrier
  uint queue_head, queue_tail;
  uint free_count, stack_count;
  void* worker_stack;  // where the worker waits for the end of the group

  // What one thread has computed for all (collective.h).
  alignas(16) char result[slot_bytes];
  bool has_result;
  uint taking_part[max_simdgroups];  // lanes of each SIMD group that have left a value for it

  ushort queue[2 * max_threads];  // runnable threads
  ushort free_stacks[max_threads];
  ushort stack_of[max_threads];
  void* stack_pointer[max_threads];

  // SIMD operations.
  Simdgroup simdgroups[max_simdgroups];
  uint site[max_threads];
  Complete complete[max_threads];
  ushort argument[max_threads];
  alignas(64) char input[max_simdgroups][simd_width * slot_bytes];
  alignas(64) char output[max_simdgroups][simd_width * slot_bytes];

  // What the checked mode knows of threadgroup memory.
  Races races;

  MSL_INLINE char* threadgroup_memory() { return (char*)this + threadgroup_memory_offset; }
#ifdef MSL_CHECKED
  MSL_INLINE Shadow* shadow() { return (Shadow*)((char*)this + shadow_offset); }
#endif
};
static_assert(sizeof(Context) <= threadgroup_memory_offset, "the context overlaps other memory");

#define MSL_OUT_OF_LINE __attribute__((noinline, convergent)) MSL_UNCHECKED

// What identifies a SIMD operation: its place in the source. (A return address would not do:
// clang makes copies of a loop for different conditions, and lanes in different copies would
// seem to be in different operations.)
#define MSL_SITE (__builtin_LINE() * 4096u + __builtin_COLUMN() % 4096u)

MSL_INLINE void compiler_fence() { asm volatile("" ::: "memory"); }

// Threadgroup memory is everybody's again: a barrier has opened, or a group starts.
MSL_INLINE void threadgroup_memory_is_shared(Context* c) {
#ifdef MSL_CHECKED
  start_epoch(c->races, c->shadow(), max_threadgroup_memory);
#else
  (void)c;
#endif
}

#ifdef MSL_CHECKED
inline void settle_store(Context* c);
#else
MSL_INLINE void settle_store(Context*) {}
#endif

// The context of the running fiber.
MSL_INLINE Context* context() {
  uintptr_t stack;
#if defined(__x86_64__)
  asm("movq %%rsp, %0" : "=r"(stack));
#elif defined(__aarch64__)
  asm("mov %0, sp" : "=r"(stack));
#else
#error "fibers are written for x86-64 and aarch64"
#endif
  return (Context*)(stack & ~(arena_size - 1));
}

// Saves this stack in *save and continues on the stack `to`, which was saved the same way.
// Inlined at each wait, so that the processor predicts each jump by itself. Code with it needs
// -mno-red-zone.
#if defined(__x86_64__)
#ifdef __AVX512F__
#define MSL_AVX512_REGISTERS                                                                   \
  , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",  \
      "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5",      \
      "k6", "k7"
#else
#define MSL_AVX512_REGISTERS
#endif
MSL_INLINE void switch_stack(void** save, void* to) {
  asm volatile(
      "pushq %%rbp\n\t"
      "leaq 1f(%%rip), %%rcx\n\t"
      "pushq %%rcx\n\t"
      "movq %%rsp, (%0)\n\t"
      "movq %1, %%rsp\n\t"
      "popq %%rcx\n\t"
      "jmp *%%rcx\n"
      "1:\tpopq %%rbp"
      : "+D"(save), "+S"(to)
      :
      : "memory", "cc", "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
        "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15" MSL_AVX512_REGISTERS);
}
#undef MSL_AVX512_REGISTERS
// Leaves this stack for good.
[[noreturn]] MSL_INLINE void jump_to_stack(void* to) {
  asm volatile(
      "movq %0, %%rsp\n\t"
      "popq %%rcx\n\t"
      "jmp *%%rcx"
      :
      : "r"(to)
      : "memory", "rcx");
  __builtin_unreachable();
}
// Prepares an empty stack so that switching to it calls `start`.
MSL_INLINE void* prepare_stack(char* top, void (*start)()) {
  void** frame = (void**)top;
  *--frame = nullptr;  // the return address of `start`, which does not return
  *--frame = (void*)start;
  return frame;
}
#else
MSL_INLINE void switch_stack(void** save, void* to) {
  register void** save_in_x0 asm("x0") = save;
  register void* to_in_x1 asm("x1") = to;
  asm volatile(
      "adr x16, 1f\n\t"
      "stp x29, x16, [sp, #-16]!\n\t"
      "mov x16, sp\n\t"
      "str x16, [x0]\n\t"
      "mov sp, x1\n\t"
      "ldp x29, x16, [sp], #16\n\t"
      "br x16\n"
      "1:\thint #36"
      : "+r"(save_in_x0), "+r"(to_in_x1)
      :
      : "memory", "cc", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
        "x13", "x14", "x15", "x16", "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25",
        "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9",
        "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21",
        "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
[[noreturn]] MSL_INLINE void jump_to_stack(void* to) {
  asm volatile(
      "mov sp, %0\n\t"
      "ldp x29, x16, [sp], #16\n\t"
      "br x16"
      :
      : "r"(to)
      : "memory", "x16");
  __builtin_unreachable();
}
MSL_INLINE void* prepare_stack(char* top, void (*start)()) {
  void** frame = (void**)top;
  *--frame = (void*)start;
  *--frame = nullptr;  // the frame pointer: end of the chain
  return frame;
}
#endif

// --- the queue of runnable threads

MSL_INLINE bool queue_empty(const Context* c) { return c->queue_head == c->queue_tail; }
MSL_INLINE void enqueue(Context* c, uint thread) { c->queue[c->queue_tail++] = (ushort)thread; }
MSL_INLINE uint dequeue(Context* c) {
  uint thread = c->queue[c->queue_head++];
  if (queue_empty(c)) c->queue_head = c->queue_tail = 0;
  return thread;
}
// Makes room for `count` more threads.
MSL_INLINE void reserve_queue(Context* c, uint count) {
  if (c->queue_tail + count <= 2 * max_threads) return;
  uint length = c->queue_tail - c->queue_head;
  for (uint i = 0; i < length; i++) c->queue[i] = c->queue[c->queue_head + i];
  c->queue_head = 0;
  c->queue_tail = length;
}
// Enqueues the threads of a SIMD group that are in `lanes`, but not the thread `except`.
MSL_INLINE void enqueue_lanes(Context* c, uint simdgroup, uint lanes, uint except) {
  for (; lanes; lanes &= lanes - 1) {
    uint thread = simdgroup * simd_width + (uint)__builtin_ctz(lanes);
    if (thread != except) enqueue(c, thread);
  }
}

constexpr uint no_thread = ~0u;

inline MSL_OUT_OF_LINE void release_barrier(Context* c, uint except) {
  threadgroup_memory_is_shared(c);
  reserve_queue(c, c->thread_count);
  for (uint s = 0; s * simd_width < c->thread_count; s++) {
    uint lanes = c->simdgroups[s].at_barrier;
    c->simdgroups[s].at_barrier = 0;
    enqueue_lanes(c, s, lanes, except);
  }
  c->at_barrier = 0;
}

inline MSL_OUT_OF_LINE void release_lanes(Context* c, uint simdgroup, uint lanes, uint except) {
  reserve_queue(c, simd_width);
  c->simdgroups[simdgroup].waiting &= ~lanes;
  enqueue_lanes(c, simdgroup, lanes, except);
}

// No thread can run: lanes wait in a SIMD operation for lanes that took another way, or threads
// wait at the barrier for threads that wait in such an operation. In each SIMD group the
// operation that stands first in the source is done with the lanes that are there, as a GPU
// does; only if there is none, the barrier opens.
inline MSL_OUT_OF_LINE void resolve(Context* c) {
  bool progress = false;
  for (uint s = 0; s * simd_width < c->thread_count; s++) {
    Simdgroup& group = c->simdgroups[s];
    if (!group.waiting) continue;
    uint first = simd_width * s + (uint)__builtin_ctz(group.waiting);
    for (uint w = group.waiting; w; w &= w - 1) {
      uint thread = simd_width * s + (uint)__builtin_ctz(w);
      if (c->site[thread] < c->site[first]) first = thread;
    }
    uint mask = 0;
    for (uint w = group.waiting; w; w &= w - 1) {
      uint lane = (uint)__builtin_ctz(w), thread = simd_width * s + lane;
      if (c->site[thread] == c->site[first] && c->complete[thread] == c->complete[first])
        mask |= 1u << lane;
    }
    c->complete[first](c, s, mask);
    lanes_met(c->races, s, mask);
    release_lanes(c, s, mask, no_thread);
    group.divergent = group.waiting != 0;
    progress = true;
  }
  if (!progress) release_barrier(c, no_thread);
}

inline void fiber_main();

// A fresh stack, the last one freed first: it is warm in the cache.
MSL_INLINE void* new_stack(Context* c) {
  uint stack = c->free_count ? c->free_stacks[--c->free_count] : c->stack_count++;
  c->current_stack = stack;
  char* end = (char*)c + stacks_offset + (stack + 1) * stack_size;
  // Different offsets keep the stacks' hot ends out of each other's cache sets.
  char* top = end - 64 - (stack * 37 % 61) * 128;
  return prepare_stack(top, &fiber_main);
}

// The stack to continue on when the current thread `me` has to wait; null if `me` itself can.
MSL_INLINE void* stack_to_resume(Context* c, uint me) {
  c->stack_of[me] = (ushort)c->current_stack;
  if (__builtin_expect(queue_empty(c), 0)) {
    if (c->next < c->thread_count) return new_stack(c);
    resolve(c);
  }
  uint thread = dequeue(c);
  c->current = thread;
  if (thread == me) return nullptr;
  c->current_stack = c->stack_of[thread];
  return c->stack_pointer[thread];
}

// What runs on a new stack: one thread after the other, until a waiting one can go on.
MSL_UNCHECKED inline void fiber_main() {
  Context* c = context();
  for (;;) {
    while (c->next < c->thread_count) {
      uint started = c->next++;
      c->current = started;
      c->body(c, started);
      settle_store(c);
      // The thread that returns here is the one that runs now.
      uint done = c->current;
      c->live--;
      c->simdgroups[done / simd_width].live &= ~(1u << (done % simd_width));
      if (c->at_barrier && c->at_barrier == c->live) release_barrier(c, no_thread);
      if (!queue_empty(c)) break;
    }
    if (queue_empty(c)) {
      if (c->next < c->thread_count) continue;
      if (!c->live) {
        c->free_stacks[c->free_count++] = (ushort)c->current_stack;
        jump_to_stack(c->worker_stack);
      }
      resolve(c);
    }
    c->free_stacks[c->free_count++] = (ushort)c->current_stack;
    uint thread = dequeue(c);
    c->current = thread;
    c->current_stack = c->stack_of[thread];
    jump_to_stack(c->stack_pointer[thread]);
  }
}

// The current thread enters a SIMD operation. If it is the last lane to come, the operation is
// done and null is returned; else the stack to continue on.
inline MSL_OUT_OF_LINE void* enter_simd_operation(Context* c, Complete complete, uint site) {
  settle_store(c);
  uint thread = c->current, s = thread / simd_width;
  Simdgroup& group = c->simdgroups[s];
  if (!group.waiting) {
    group.site = site;
    group.complete = complete;
    group.divergent = false;
  } else if (group.site != site || group.complete != complete) {
    group.divergent = true;
  }
  group.waiting |= 1u << (thread % simd_width);
  c->site[thread] = site;
  c->complete[thread] = complete;
  bool all_here = group.waiting == (group.live & ~group.at_barrier);
  if (all_here && !group.divergent) {
    uint mask = group.waiting;
    complete(c, s, mask);
    lanes_met(c->races, s, mask);
    release_lanes(c, s, mask, thread);
    return nullptr;
  }
  return stack_to_resume(c, thread);
}

inline MSL_OUT_OF_LINE void* enter_barrier(Context* c) {
  settle_store(c);
  uint thread = c->current;
  c->at_barrier++;
  c->simdgroups[thread / simd_width].at_barrier |= 1u << (thread % simd_width);
  if (c->at_barrier == c->live) {
    release_barrier(c, thread);
    return nullptr;
  }
  return stack_to_resume(c, thread);
}

MSL_INLINE void wait_at_barrier() {
  Context* c = context();
  uint thread = c->current;
  compiler_fence();
  if (void* stack = enter_barrier(c)) switch_stack(&c->stack_pointer[thread], stack);
  compiler_fence();
}

// Runs all threads of the group that the context describes; called on the worker's own stack.
inline MSL_OUT_OF_LINE void run_group(Context* c) {
  uint count = c->thread_count;
  c->next = 0;
  c->live = count;
  c->at_barrier = 0;
  c->has_result = false;
  for (uint& lanes : c->taking_part) lanes = 0;
  c->queue_head = c->queue_tail = 0;
  for (uint s = 0; s * simd_width < count; s++) {
    uint lanes = count - s * simd_width;
    Simdgroup& group = c->simdgroups[s];
    group.live = lanes >= simd_width ? all_lanes : (1u << lanes) - 1;
    group.waiting = group.at_barrier = 0;
  }
#ifdef MSL_CHECKED
  start_clocks(c->races, count);
  threadgroup_memory_is_shared(c);
#endif
  void* stack = new_stack(c);
  switch_stack(&c->worker_stack, stack);
}

// Forgets what another kernel's code has left in the arena.
MSL_INLINE void reset_stacks(Context* c) { c->free_count = c->stack_count = 0; }

}  // namespace msl
