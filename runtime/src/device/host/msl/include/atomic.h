// Atomics and memory flags.
#pragma once
#include "fiber.h"

namespace metal {

// MSL has no acquire and release.
enum memory_order {
  memory_order_relaxed = __ATOMIC_RELAXED,
  memory_order_seq_cst = __ATOMIC_SEQ_CST,
};
enum thread_scope {
  thread_scope_thread,
  thread_scope_simdgroup,
  thread_scope_threadgroup,
  thread_scope_device,
};
enum class mem_flags {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8,
  mem_object_data = 16,
};
MSL_INLINE constexpr mem_flags operator|(mem_flags a, mem_flags b) {
  return mem_flags((int)a | (int)b);
}
MSL_INLINE constexpr mem_flags operator&(mem_flags a, mem_flags b) {
  return mem_flags((int)a & (int)b);
}

template <class T>
struct _atomic {
  static_assert(msl::is_one_of<T, int, uint, bool, ulong, float>,
                "Metal has atomic<T> for int, uint, bool, ulong and float");
  T value;
};
template <class T>
using atomic = _atomic<T>;
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_bool = atomic<bool>;
using atomic_float = atomic<float>;
using atomic_ulong = atomic<ulong>;

MSL_INLINE void atomic_thread_fence(mem_flags, memory_order order = memory_order_seq_cst,
                                    thread_scope = thread_scope_device) {
  __atomic_thread_fence(order);
}

}  // namespace metal

namespace msl {

// Tells the checked mode that what is done meanwhile is atomic.
struct AtomicScope {
#ifdef MSL_CHECKED
  MSL_INLINE AtomicScope() { set(true); }
  MSL_INLINE ~AtomicScope() { set(false); }
  static MSL_INLINE void set(bool atomic) {
    compiler_fence();
    context()->races.atomic = atomic;
    compiler_fence();
  }
#else
  MSL_INLINE AtomicScope() {}
#endif
};
#define MSL_ATOMIC const msl::AtomicScope atomic_scope

// The type whose address an atomic function takes, whatever its qualifiers.
template <class T>
MSL_INLINE T* atomic_address(const volatile metal::_atomic<T>* object) {
  return const_cast<T*>(&object->value);
}

// Which atomics a GPU can read, change and write in one step.
template <class T>
MSL_INLINE void check_fetch_add() {
  static_assert(is_one_of<T, int, uint, float>,
                "Metal adds to and subtracts from atomic_int, atomic_uint and atomic_float only");
}
template <class T>
MSL_INLINE void check_fetch_sub() {
  check_fetch_add<T>();
}
template <class T>
MSL_INLINE void check_fetch_bits() {
  static_assert(is_one_of<T, int, uint>,
                "Metal has this operation for atomic_int and atomic_uint only");
}
template <class T>
MSL_INLINE void check_fetch_max() {
  check_fetch_bits<T>();
}
template <class T>
MSL_INLINE void check_fetch_min() {
  check_fetch_bits<T>();
}

// new = update(old), as one step; gives old. Orders beyond relaxed are those of the caller.
template <class T, class F>
MSL_INLINE T atomic_update(T* address, int order, F update) {
  T old, desired;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  do {
    desired = update(old);
  } while (!__atomic_compare_exchange(address, &old, &desired, true, order, __ATOMIC_RELAXED));
  return old;
}

}  // namespace msl

namespace metal {

template <class T>
MSL_INLINE T atomic_load_explicit(const volatile _atomic<T>* object, memory_order order) {
  MSL_ATOMIC;
  T value;
  __atomic_load(msl::atomic_address(object), &value, order);
  return value;
}
template <class T, class U>
MSL_INLINE void atomic_store_explicit(volatile _atomic<T>* object, U value, memory_order order) {
  MSL_ATOMIC;
  T desired = T(value);
  __atomic_store(msl::atomic_address(object), &desired, order);
}
template <class T, class U>
MSL_INLINE T atomic_exchange_explicit(volatile _atomic<T>* object, U value, memory_order order) {
  MSL_ATOMIC;
  T desired = T(value), old;
  __atomic_exchange(msl::atomic_address(object), &desired, &old, order);
  return old;
}
template <class T, class U>
MSL_INLINE bool atomic_compare_exchange_weak_explicit(volatile _atomic<T>* object, T* expected,
                                                      U desired, memory_order success,
                                                      memory_order failure) {
  MSL_ATOMIC;
  T wanted = T(desired);
  return __atomic_compare_exchange(msl::atomic_address(object), expected, &wanted, true, success,
                                   failure);
}

// Integers have instructions of their own for these; floats go through compare and exchange.
#define MSL_ATOMIC_FETCH(name, builtin, expression)                                           \
  template <class T, class U>                                                                 \
  MSL_INLINE T atomic_fetch_##name##_explicit(volatile _atomic<T>* object, U operand,         \
                                              memory_order order) {                           \
    msl::check_fetch_##name<T>();                                                             \
    MSL_ATOMIC;                                                                               \
    T value = T(operand);                                                                     \
    if constexpr (is_integral_v<T> && !is_same_v<T, bool>)                                    \
      return builtin(msl::atomic_address(object), value, order);                              \
    else                                                                                      \
      return msl::atomic_update(msl::atomic_address(object), order,                           \
                                [=](T old) { return T(expression); });                        \
  }
MSL_ATOMIC_FETCH(add, __atomic_fetch_add, old + value)
MSL_ATOMIC_FETCH(sub, __atomic_fetch_sub, old - value)
MSL_ATOMIC_FETCH(max, __atomic_fetch_max, old < value ? value : old)
MSL_ATOMIC_FETCH(min, __atomic_fetch_min, value < old ? value : old)
#undef MSL_ATOMIC_FETCH
#define MSL_ATOMIC_BITWISE(name, builtin)                                                     \
  template <class T, class U>                                                                 \
  MSL_INLINE T atomic_fetch_##name##_explicit(volatile _atomic<T>* object, U operand,         \
                                              memory_order order) {                           \
    msl::check_fetch_bits<T>();                                                               \
    MSL_ATOMIC;                                                                               \
    return builtin(msl::atomic_address(object), T(operand), order);                           \
  }
MSL_ATOMIC_BITWISE(and, __atomic_fetch_and)
MSL_ATOMIC_BITWISE(or, __atomic_fetch_or)
MSL_ATOMIC_BITWISE(xor, __atomic_fetch_xor)
#undef MSL_ATOMIC_BITWISE

// Minimum and maximum that give nothing back: for ulong alone, and all that it has of the kind.
MSL_INLINE void atomic_max_explicit(volatile _atomic<ulong>* object, ulong value,
                                    memory_order order) {
  MSL_ATOMIC;
  __atomic_fetch_max(msl::atomic_address(object), value, order);
}
MSL_INLINE void atomic_min_explicit(volatile _atomic<ulong>* object, ulong value,
                                    memory_order order) {
  MSL_ATOMIC;
  __atomic_fetch_min(msl::atomic_address(object), value, order);
}

}  // namespace metal
