// The index of a thread in a kernel that takes it apart with / and % (see split.rs): the loop over
// threads is split at multiples of a divisor, so that neither is left in the loop.
#pragma once
#include "base.h"

// What rewritten shaders say.
#ifdef MSL_CHECKED
#define MSL_SPLIT_INDEX(width, tiled) uint
#define MSL_SPLIT_DIVIDE c10::metal::floor_divide
#else
#define MSL_SPLIT_INDEX(width, tiled) msl::SplitIndex<width, tiled>
#define MSL_SPLIT_DIVIDE msl::split_divide
#endif

namespace msl {

// base + rest, where base is a multiple of Width and rest less than Width. With Tiled, the kernel
// goes across rows of its input, so that several of its own rows at once use what was loaded.
template <uint Width, bool Tiled>
struct SplitIndex {
  // Each in a register of its own: two packed into one are not taken apart again when a call is
  // inlined.
  long base, rest;
  // Sums in int, as the kernel's own indices: they do not wrap, and so are addresses in a row.
  MSL_INLINE operator int() const { return (int)base + (int)rest; }
};

// By a multiple of Width.
template <uint Width, bool Tiled>
MSL_INLINE int operator%(SplitIndex<Width, Tiled> index, int divisor) {
  return (int)((uint)index.base % (uint)divisor) + (int)index.rest;
}
template <uint Width, bool Tiled>
MSL_INLINE int operator/(SplitIndex<Width, Tiled> index, int divisor) {
  return (int)((uint)index.base / (uint)divisor);
}
// In the place of c10::metal::floor_divide.
template <uint Width, bool Tiled>
MSL_INLINE int split_divide(SplitIndex<Width, Tiled> index, int divisor) {
  return index / divisor;
}

// How the parameters of a kernel want the loop to be split.
template <class... P>
struct SplitOf {
  static constexpr uint width = 0;
  static constexpr bool tiled = false;
};
template <class First, class... Rest>
struct SplitOf<First, Rest...> : SplitOf<Rest...> {};
template <uint Width, bool Tiled, class... Rest>
struct SplitOf<SplitIndex<Width, Tiled>, Rest...> {
  static constexpr uint width = Width;
  static constexpr bool tiled = Tiled;
};

// Rows and columns of a tile: 64 bytes of float down, 128 across.
constexpr uint tile_rows = 16, tile_columns = 32;

// Up to this width, whole rows are a loop of their own, of a length that the compiler knows: what
// surrounds a loop of any length would take as long as a short one.
constexpr uint narrow = 256;

// Calls body(base, rest) for the indices begin to end.
template <uint Width, bool Tiled, class Body>
MSL_INLINE void split_loop(uint begin, uint end, const Body& body) {
  while (begin < end) {
    const uint base = begin / Width * Width, first = begin - base;
    if (Tiled && first == 0 && end - begin >= tile_rows * Width) {
      for (uint column = 0; column < Width; column += tile_columns) {
        const uint behind = column + tile_columns < Width ? column + tile_columns : Width;
        for (uint row = 0; row < tile_rows; row++) {
#pragma clang loop vectorize(assume_safety)
          for (int rest = (int)column; rest < (int)behind; rest++)
            body((int)(base + row * Width), rest);
        }
      }
      begin += tile_rows * Width;
      continue;
    }
    const uint count = Width - first < end - begin ? Width - first : end - begin;
    if (Width <= narrow && count == Width) {
#pragma clang loop vectorize(assume_safety)
      for (int rest = 0; rest < (int)Width; rest++) body((int)base, rest);
    } else {
#pragma clang loop vectorize(assume_safety)
      for (int rest = (int)first; rest < (int)(first + count); rest++) body((int)base, rest);
    }
    begin += count;
  }
}

}  // namespace msl
