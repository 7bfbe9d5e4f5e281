// Threadgroup memory: static threadgroup variables first, then the threadgroup arguments by their
// index. It is part of the arena; the static objects only reserve offsets (the linker lays out
// their section and knows its size).
//
// In the checked mode each of them is followed by memory that belongs to none, so that an index
// that leaves one does not hit the next; a table tells where they are.
#pragma once
#include "fiber.h"

extern "C" {
#if defined(__APPLE__)
extern char msl_static_start[] __asm("section$start$__DATA$msl_tg");
extern char msl_static_stop[] __asm("section$end$__DATA$msl_tg");
#define MSL_SECTION(name) "__DATA," name
#define MSL_KEPT used
#else
extern char msl_static_start[] __asm("__start_msl_tg") __attribute__((visibility("hidden"), weak));
extern char msl_static_stop[] __asm("__stop_msl_tg") __attribute__((visibility("hidden"), weak));
#define MSL_SECTION(name) name
#define MSL_KEPT used, retain  // also by linkers that drop sections nobody refers to
#endif
}

namespace msl {

MSL_INLINE ulong static_section_bytes() { return (ulong)(msl_static_stop - msl_static_start); }
MSL_INLINE ulong aligned_length(ulong bytes) { return (bytes + 63) & ~63ul; }

#ifdef MSL_CHECKED

// Bytes behind each variable and argument that belong to none.
constexpr ulong gap = 2048;

struct ThreadgroupVariable {
  const char* place;
  const char* name;
  ulong bytes;
};
extern "C" {
#if defined(__APPLE__)
extern const ThreadgroupVariable variables_start[] __asm("section$start$__DATA$msl_tgtable");
extern const ThreadgroupVariable variables_stop[] __asm("section$end$__DATA$msl_tgtable");
#else
extern const ThreadgroupVariable variables_start[] __asm("__start_msl_tgtable")
    __attribute__((visibility("hidden"), weak));
extern const ThreadgroupVariable variables_stop[] __asm("__stop_msl_tgtable")
    __attribute__((visibility("hidden"), weak));
#endif
}
// Without the gaps, as it counts for Metal's limit.
MSL_INLINE uint static_threadgroup_bytes() {
  ulong bytes = 0;
  for (const ThreadgroupVariable* v = variables_start; v != variables_stop; v++)
    bytes += (v->bytes + 15) & ~15ul;
  return (uint)bytes;
}
#define MSL_NOTE_THREADGROUP(name)                                                  \
  static const msl::ThreadgroupVariable name##_entry                                \
      __attribute__((section(MSL_SECTION("msl_tgtable")), MSL_KEPT)) = {                \
          name##_place, #name, sizeof(name##_type)}

#else

constexpr ulong gap = 0;
MSL_INLINE uint static_threadgroup_bytes() { return (uint)static_section_bytes(); }
#define MSL_NOTE_THREADGROUP(name) static_assert(true)

#endif

// Where the threadgroup argument `index` starts, from the start of threadgroup memory.
MSL_INLINE ulong threadgroup_argument_offset(const uint* lengths, uint index) {
  ulong offset = aligned_length(static_section_bytes());
  for (uint i = 0; i < index; i++) offset += aligned_length(lengths[i]) + gap;
  return offset;
}

MSL_INLINE char* threadgroup_address(const char* place) {
  return context()->threadgroup_memory() + (place - msl_static_start);
}

}  // namespace msl

// Declares a threadgroup variable.
#define MSL_THREADGROUP(name, dimensions, ...)                                             \
  typedef __VA_ARGS__ name##_element;                                                      \
  typedef name##_element name##_type dimensions;                                           \
  alignas(name##_type) alignas(16) static char name##_place[sizeof(name##_type) + msl::gap] \
      __attribute__((section(MSL_SECTION("msl_tg")), used));                               \
  MSL_NOTE_THREADGROUP(name);                                                              \
  name##_type& name = *(name##_type*)msl::threadgroup_address(name##_place)
