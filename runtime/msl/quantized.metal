// Products with quantised weights. The packing: weights of BITS bits lie one after the other from
// the lowest bit of a row's first byte on; each group of a row has a scale and a zero, and a
// weight stands for packed * scale + zero. Everything accumulates in float and is rounded once.
// No thread reads or writes outside of the operands, whatever their sizes.
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>
#include <metal_stdlib>
using namespace metal;

struct Sizes {
  uint rows;        // of activations and result
  uint columns;     // of the result: rows of the weights
  uint terms;       // of each sum
  uint group_size;  // weights that share a scale and a zero
  uint groups;      // in a row of weights
  uint row_bytes;   // in a row of weights
  uint experts;     // matrices of weights
};

// Weight `index` of a row.
template <uint BITS>
float one_weight(device const uchar* row, uint index) {
  const ulong bit = ulong(index) * BITS;
  const uint shift = uint(bit % 8);
  uint word = row[bit / 8];
  if (shift + BITS > 8) word |= uint(row[bit / 8 + 1]) << 8;
  return float(word >> shift & ((1u << BITS) - 1));
}

// Eight weights, which fill BITS bytes.
template <uint BITS>
void eight_weights(device const uchar* packed, thread float* weights) {
  ulong word = 0;
  for (uint i = 0; i < BITS; i++) word |= ulong(packed[i]) << (8 * i);
  for (uint i = 0; i < 8; i++) weights[i] = float(uint(word >> (BITS * i)) & ((1u << BITS) - 1));
}

// What a row of weights consists of.
template <typename T>
struct Row {
  device const uchar* packed;
  device const T* scales;
  device const T* zeros;
};

template <typename T>
Row<T> row_of_weights(device const uchar* weights, device const T* scales, device const T* zeros,
                      constant Sizes& sizes, ulong row) {
  Row<T> result;
  result.packed = weights + row * sizes.row_bytes;
  result.scales = scales + row * sizes.groups;
  result.zeros = zeros + row * sizes.groups;
  return result;
}

// A lane's share of the scalar product of a row of activations and a row of weights: of every 256
// terms the lane has eight. ROUNDED: each weight is first rounded to T.
template <typename T, uint BITS, bool ROUNDED>
float share_of_product(device const T* activations, Row<T> row, constant Sizes& sizes, uint lane) {
  float sum = 0;
  const uint whole = sizes.terms / 8 * 8;
  for (uint first = lane * 8; first < whole; first += 256) {
    float weights[8];
    eight_weights<BITS>(row.packed + ulong(first / 8) * BITS, weights);
    const uint group = first / sizes.group_size;
    if (!ROUNDED && sizes.group_size % 8 == 0) {
      float product = 0, total = 0;
      for (uint i = 0; i < 8; i++) {
        const float activation = float(activations[first + i]);
        product += activation * weights[i];
        total += activation;
      }
      sum += product * float(row.scales[group]) + total * float(row.zeros[group]);
    } else {
      for (uint i = 0; i < 8; i++) {
        const uint group_of_term = (first + i) / sizes.group_size;
        const float scale = float(row.scales[group_of_term]);
        const float zero = float(row.zeros[group_of_term]);
        const float weight = weights[i] * scale + zero;
        sum += float(activations[first + i]) * (ROUNDED ? float(T(weight)) : weight);
      }
    }
  }
  for (uint term = whole + lane; term < sizes.terms; term += 32) {
    const uint group = term / sizes.group_size;
    const float scale = float(row.scales[group]), zero = float(row.zeros[group]);
    const float weight = one_weight<BITS>(row.packed, term) * scale + zero;
    sum += float(activations[term]) * (ROUNDED ? float(T(weight)) : weight);
  }
  return sum;
}

// Columns that a SIMD group computes: it reads the activations once for all of them.
constant constexpr uint COLUMNS = 4;

// Some columns of one row of the result. `first_row` is the expert's first row of weights.
template <typename T, uint BITS, bool ROUNDED>
void columns_of_row(device T* out, device const T* activations, device const uchar* weights,
                    device const T* scales, device const T* zeros, constant Sizes& sizes,
                    ulong row, ulong first_row, uint first_column, uint lane) {
  for (uint i = 0; i < COLUMNS && first_column + i < sizes.columns; i++) {
    const uint column = first_column + i;
    const Row<T> of_column =
        row_of_weights<T>(weights, scales, zeros, sizes, first_row + column);
    const float sum = simd_sum(share_of_product<T, BITS, ROUNDED>(
        activations + row * sizes.terms, of_column, sizes, lane));
    if (lane == 0) out[row * sizes.columns + column] = T(sum);
  }
}

// A few rows. Threadgroups: (columns / 8, rows) of (32, 2) threads.
template <typename T, uint BITS>
kernel void quantized_rows(device T* out [[buffer(0)]],
                           device const T* activations [[buffer(1)]],
                           device const uchar* weights [[buffer(2)]],
                           device const T* scales [[buffer(3)]],
                           device const T* zeros [[buffer(4)]],
                           constant Sizes& sizes [[buffer(5)]],
                           uint2 group [[threadgroup_position_in_grid]],
                           uint simdgroup [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  const uint first_column = (group.x * 2 + simdgroup) * COLUMNS;
  columns_of_row<T, BITS, false>(out, activations, weights, scales, zeros, sizes, group.y, 0,
                                 first_column, lane);
}

// Rows that have an expert each. The operator is defined over dequantised weights of type T, so
// they are rounded. Threadgroups: (columns / 8, rows) of (32, 2) threads.
template <typename T, typename Index>
kernel void quantized_gather(device T* out [[buffer(0)]],
                             device const T* activations [[buffer(1)]],
                             device const uchar* weights [[buffer(2)]],
                             device const T* scales [[buffer(3)]],
                             device const T* zeros [[buffer(4)]],
                             constant Sizes& sizes [[buffer(5)]],
                             device const Index* experts [[buffer(6)]],
                             uint2 group [[threadgroup_position_in_grid]],
                             uint simdgroup [[simdgroup_index_in_threadgroup]],
                             uint lane [[thread_index_in_simdgroup]]) {
  const uint first_column = (group.x * 2 + simdgroup) * COLUMNS;
  const long number = experts[group.y];
  const long expert = number < 0 ? number + long(sizes.experts) : number;
  if (expert < 0 || expert >= long(sizes.experts)) {
    // There is no such expert, and a kernel cannot fail.
    for (uint i = 0; i < COLUMNS && first_column + i < sizes.columns; i++)
      out[ulong(group.y) * sizes.columns + first_column + i] = T(NAN);
    return;
  }
  columns_of_row<T, 4, true>(out, activations, weights, scales, zeros, sizes, group.y,
                             ulong(expert) * sizes.columns, first_column, lane);
}

// Rows, columns and terms of a tile: each thread loads eight terms of both factors.
constant constexpr uint TILE = 32;

// Many rows. Threadgroups: (columns / TILE, rows / TILE) of 128 threads. Each of the four SIMD
// groups computes a quarter of the tile.
template <typename T, uint BITS>
kernel void quantized_tiles(device T* out [[buffer(0)]],
                            device const T* activations [[buffer(1)]],
                            device const uchar* weights [[buffer(2)]],
                            device const T* scales [[buffer(3)]],
                            device const T* zeros [[buffer(4)]],
                            constant Sizes& sizes [[buffer(5)]],
                            uint2 group [[threadgroup_position_in_grid]],
                            uint thread_index [[thread_index_in_threadgroup]],
                            uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup float a[TILE * TILE];  // rows of activations, later the result
  threadgroup float b[TILE * TILE];  // rows of weights
  const uint first_row = group.y * TILE, first_column = group.x * TILE;
  // What this thread loads: a line of both, and eight terms of it.
  const uint line = thread_index / 4, term_of_line = thread_index % 4 * 8;
  const bool has_row = first_row + line < sizes.rows;
  const bool has_column = first_column + line < sizes.columns;
  device const T* row = activations + ulong(has_row ? first_row + line : 0) * sizes.terms;
  const Row<T> column = row_of_weights<T>(weights, scales, zeros, sizes,
                                          has_column ? first_column + line : 0);
  const uint top = simdgroup / 2 * 16, left = simdgroup % 2 * 16;
  simdgroup_float8x8 sums[2][2];
  for (uint i = 0; i < 2; i++)
    for (uint j = 0; j < 2; j++) sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);

  for (uint first = 0; first < sizes.terms; first += TILE) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint term = first + term_of_line;
    float values[8] = {0};
    if (has_column && term + 8 <= sizes.terms)
      eight_weights<BITS>(column.packed + ulong(term / 8) * BITS, values);
    else if (has_column)
      for (uint i = 0; i < 8 && term + i < sizes.terms; i++)
        values[i] = one_weight<BITS>(column.packed, term + i);
    for (uint i = 0; i < 8; i++) {
      const uint at = line * TILE + term_of_line + i;
      const bool has_term = term + i < sizes.terms;
      a[at] = has_row && has_term ? float(row[term + i]) : 0.0f;
      const uint group_of_term = has_term ? (term + i) / sizes.group_size : 0;
      b[at] = has_column && has_term ? values[i] * float(column.scales[group_of_term]) +
                                           float(column.zeros[group_of_term])
                                     : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < TILE; k += 8) {
      simdgroup_float8x8 rows[2], columns[2];
      for (uint i = 0; i < 2; i++) {
        simdgroup_load(rows[i], a + (top + i * 8) * TILE + k, TILE);
        simdgroup_load(columns[i], b + (left + i * 8) * TILE + k, TILE, ulong2(0, 0), true);
      }
      for (uint i = 0; i < 2; i++)
        for (uint j = 0; j < 2; j++)
          simdgroup_multiply_accumulate(sums[i][j], rows[i], columns[j], sums[i][j]);
    }
  }

  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = 0; i < 2; i++)
    for (uint j = 0; j < 2; j++)
      simdgroup_store(sums[i][j], a + (top + i * 8) * TILE + left + j * 8, TILE);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = 0; i < 8; i++) {
    const uint at = first_column + term_of_line + i;
    if (has_row && at < sizes.columns)
      out[ulong(first_row + line) * sizes.columns + at] = T(a[line * TILE + term_of_line + i]);
  }
}

#define KERNEL(NAME, TYPE, BITS)                                                               \
  template [[host_name(#NAME "_" #BITS "_" #TYPE)]] kernel void NAME<TYPE, BITS>(              \
      device TYPE*, device const TYPE*, device const uchar*, device const TYPE*,               \
      device const TYPE*, constant Sizes&, uint2, uint, uint);
#define KERNELS_OF_WIDTH(TYPE, BITS) \
  KERNEL(quantized_rows, TYPE, BITS) \
  KERNEL(quantized_tiles, TYPE, BITS)
#define GATHER(TYPE, INDEX)                                                                    \
  template [[host_name("quantized_gather_" #INDEX "_" #TYPE)]] kernel void                     \
  quantized_gather<TYPE, INDEX>(device TYPE*, device const TYPE*, device const uchar*,         \
                                device const TYPE*, device const TYPE*, constant Sizes&,       \
                                device const INDEX*, uint2, uint, uint);
#define KERNELS(TYPE)       \
  KERNELS_OF_WIDTH(TYPE, 1) \
  KERNELS_OF_WIDTH(TYPE, 2) \
  KERNELS_OF_WIDTH(TYPE, 3) \
  KERNELS_OF_WIDTH(TYPE, 4) \
  KERNELS_OF_WIDTH(TYPE, 5) \
  KERNELS_OF_WIDTH(TYPE, 6) \
  KERNELS_OF_WIDTH(TYPE, 7) \
  GATHER(TYPE, int)         \
  GATHER(TYPE, long)

KERNELS(float)
KERNELS(half)
KERNELS(bfloat)
