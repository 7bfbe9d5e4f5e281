// Scaled dot product attention: out = softmax(scale * query key^T + mask) value.
//
// attention_decode   a threadgroup for each query: few queries, many keys.
// attention_prefill  a threadgroup for each 32 queries, with SIMD-group matrices.
// attention_weights  the softmax itself, from the maxima and totals that the others leave.
//
// Head sizes and strides are any. Products and softmax are float. Nothing here relies on
// infinities, which fast math may assume away: a score that is masked is left out, and a row
// without scores has the total 0.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

// Elements from one batch, head, row, column to the next.
struct Strides {
  ulong batch, head, row, column;
};

// What Params::mask_kind says.
constant uint mask_none = 0, mask_bool = 1, mask_float = 2, mask_half = 3;

struct Params {
  Strides query, key, value, mask;
  uint batches, heads, key_heads, value_heads;
  uint queries, keys, size, value_size;
  uint causal;
  uint mask_kind;
  uint wants_stats;
  float scale;
};

constant float lowest = -3.402823466e38f;

// The address of a head's matrix. `heads` of the tensor are shared by `of` heads.
template <typename T>
device const T* matrix_of(device const T* tensor, Strides strides, uint batch, uint head,
                          uint heads, uint of) {
  return tensor + batch * strides.batch + ulong(head) * heads / of * strides.head;
}

// What is added to the score of a query and a key. Below `lowest`, that is -inf, for a masked one.
float bias_of(device const uchar* mask, constant Params& p, uint batch, uint head, uint row,
              uint column) {
  if (p.mask_kind == mask_none) return 0;
  ulong index = batch * p.mask.batch + head * p.mask.head + row * p.mask.row +
                column * p.mask.column;
  if (p.mask_kind == mask_bool) return mask[index] != 0 ? 0.0f : -INFINITY;
  if (p.mask_kind == mask_float) return reinterpret_cast<device const float*>(mask)[index];
  if (p.mask_kind == mask_half) return float(reinterpret_cast<device const half*>(mask)[index]);
  return float(reinterpret_cast<device const bfloat*>(mask)[index]);
}

// Whether a query sees a key, apart from the mask.
bool is_seen(constant Params& p, uint row, uint column) {
  return column < p.keys && (p.causal == 0 || column <= row);
}

// ---- few queries --------------------------------------------------------------------------------

constant constexpr uint decode_simdgroups = 8;
// Columns of the result that a lane and a threadgroup compute.
constant constexpr uint decode_lane_columns = 8;
constant constexpr uint decode_columns = 32 * decode_lane_columns;

// Threadgroups: queries, heads, batches * ceil(value_size / decode_columns); 256 threads each.
// SIMD groups take keys in turn; the lanes of one share the elements of a key and of a value.
template <typename T>
kernel void attention_decode(device T* out [[buffer(0)]],
                             device const T* query [[buffer(1)]],
                             device const T* key [[buffer(2)]],
                             device const T* value [[buffer(3)]],
                             device const uchar* mask [[buffer(4)]],
                             device float2* stats [[buffer(5)]],
                             constant Params& p [[buffer(6)]],
                             uint3 group [[threadgroup_position_in_grid]],
                             uint lane [[thread_index_in_simdgroup]],
                             uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  threadgroup float all_sums[decode_simdgroups * decode_columns];
  threadgroup float all_maxima[decode_simdgroups];
  threadgroup float all_totals[decode_simdgroups];
  const uint row = group.x, head = group.y;
  const uint batch = group.z % p.batches, chunk = group.z / p.batches;
  const uint first_column = chunk * decode_columns;
  device const T* q = matrix_of(query, p.query, batch, head, p.heads, p.heads) + row * p.query.row;
  device const T* k = matrix_of(key, p.key, batch, head, p.key_heads, p.heads);
  device const T* v = matrix_of(value, p.value, batch, head, p.value_heads, p.heads);

  // This lane's elements of the query; those beyond are read again for each key.
  float own_query[decode_lane_columns];
  for (uint i = 0; i < decode_lane_columns; i++) {
    const uint e = lane + 32 * i;
    own_query[i] = e < p.size ? float(q[e * p.query.column]) : 0.0f;
  }
  float sums[decode_lane_columns] = {};
  float maximum = lowest, total = 0;
  const uint seen = p.causal != 0 ? min(p.keys, row + 1) : p.keys;
  for (uint j = simdgroup; j < seen; j += decode_simdgroups) {
    const float bias = bias_of(mask, p, batch, head, row, j);
    if (bias < lowest) continue;
    device const T* k_row = k + j * p.key.row;
    float product = 0;
    for (uint i = 0; i < decode_lane_columns; i++) {
      const uint e = lane + 32 * i;
      if (e < p.size) product += own_query[i] * float(k_row[e * p.key.column]);
    }
    for (uint e = lane + decode_columns; e < p.size; e += 32)
      product += float(q[e * p.query.column]) * float(k_row[e * p.key.column]);
    const float score = simd_sum(product) * p.scale + bias;
    const float larger = max(maximum, score);
    const float factor = precise::exp(maximum - larger);
    const float weight = precise::exp(score - larger);
    maximum = larger;
    total = total * factor + weight;
    device const T* v_row = v + j * p.value.row;
    for (uint i = 0; i < decode_lane_columns; i++) {
      const uint column = first_column + lane + 32 * i;
      if (column < p.value_size)
        sums[i] = sums[i] * factor + weight * float(v_row[column * p.value.column]);
    }
  }

  // The SIMD groups' parts become one.
  for (uint i = 0; i < decode_lane_columns; i++)
    all_sums[simdgroup * decode_columns + lane + 32 * i] = sums[i];
  if (lane == 0) {
    all_maxima[simdgroup] = maximum;
    all_totals[simdgroup] = total;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  maximum = lowest;
  for (uint g = 0; g < decode_simdgroups; g++) maximum = max(maximum, all_maxima[g]);
  total = 0;
  float sum = 0;
  const uint thread_column = simdgroup * 32 + lane;
  for (uint g = 0; g < decode_simdgroups; g++) {
    const float factor = precise::exp(all_maxima[g] - maximum);
    total += all_totals[g] * factor;
    sum += all_sums[g * decode_columns + thread_column] * factor;
  }
  const ulong out_row = (ulong(batch) * p.heads + head) * p.queries + row;
  const uint column = first_column + thread_column;
  if (column < p.value_size)
    out[out_row * p.value_size + column] = T(total == 0 ? sum : sum / total);
  if (p.wants_stats != 0 && chunk == 0 && thread_column == 0)
    stats[out_row] = float2(maximum, total);
}

// ---- many queries -------------------------------------------------------------------------------

// Queries of a threadgroup, keys of a step, elements of a head that are multiplied at once.
constant constexpr uint tile = 32;
// Columns of the result that a threadgroup computes.
constant constexpr uint prefill_columns = 64;
// Floats from a row to the next in threadgroup memory; more than is used, to spread over banks.
constant constexpr uint tile_stride = tile + 4;
constant constexpr uint wide_stride = prefill_columns + 4;
constant constexpr uint prefill_threads = 128;

// Loads a tile of a matrix, with zeros where there is no matrix.
template <typename T, uint width, uint stride>
void load_tile(threadgroup float* to, device const T* matrix, Strides strides, uint2 first,
               uint2 size, uint thread_index) {
  for (uint i = thread_index; i < tile * width; i += prefill_threads) {
    const uint row = i / width, column = i % width;
    const bool inside = first.y + row < size.y && first.x + column < size.x;
    to[row * stride + column] =
        inside ? float(matrix[(first.y + row) * strides.row + (first.x + column) * strides.column])
               : 0.0f;
  }
}

// The largest, or the sum, of the values of the four lanes of a row.
float row_max(float x) {
  x = max(x, simd_shuffle_xor(x, ushort(1)));
  return max(x, simd_shuffle_xor(x, ushort(2)));
}
float row_sum(float x) {
  x += simd_shuffle_xor(x, ushort(1));
  return x + simd_shuffle_xor(x, ushort(2));
}

// Threadgroups: ceil(queries / tile), heads, batches * ceil(value_size / prefill_columns); 128
// threads each. A SIMD group has 8 of the queries, four lanes have one.
template <typename T>
kernel void attention_prefill(device T* out [[buffer(0)]],
                              device const T* query [[buffer(1)]],
                              device const T* key [[buffer(2)]],
                              device const T* value [[buffer(3)]],
                              device const uchar* mask [[buffer(4)]],
                              device float2* stats [[buffer(5)]],
                              constant Params& p [[buffer(6)]],
                              uint3 group [[threadgroup_position_in_grid]],
                              uint lane [[thread_index_in_simdgroup]],
                              uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  // Queries and keys; then values in their place.
  threadgroup float operands[2 * tile * tile_stride];
  threadgroup float scores[tile * tile_stride];
  threadgroup float products[tile * wide_stride];
  threadgroup float* queries = operands;
  threadgroup float* keys = operands + tile * tile_stride;
  threadgroup float* values = operands;

  const uint head = group.y, batch = group.z % p.batches, chunk = group.z / p.batches;
  const uint first_row = group.x * tile, first_column = chunk * prefill_columns;
  device const T* q = matrix_of(query, p.query, batch, head, p.heads, p.heads);
  device const T* k = matrix_of(key, p.key, batch, head, p.key_heads, p.heads);
  device const T* v = matrix_of(value, p.value, batch, head, p.value_heads, p.heads);
  const uint thread_index = simdgroup * 32 + lane;

  // Row of the tile and columns that this lane works on between products.
  const uint own_row = simdgroup * 8 + lane / 4, quarter = lane % 4;
  const uint row = first_row + own_row;
  float sums[prefill_columns / 4] = {};
  float maximum = lowest, total = 0;

  const uint seen = p.causal != 0 ? min(p.keys, first_row + tile) : p.keys;
  for (uint first_key = 0; first_key < seen; first_key += tile) {
    simdgroup_float8x8 s[4] = {simdgroup_float8x8(0), simdgroup_float8x8(0),
                               simdgroup_float8x8(0), simdgroup_float8x8(0)};
    for (uint e = 0; e < p.size; e += tile) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      load_tile<T, tile, tile_stride>(queries, q, p.query, uint2(e, first_row),
                                      uint2(p.size, p.queries), thread_index);
      load_tile<T, tile, tile_stride>(keys, k, p.key, uint2(e, first_key),
                                      uint2(p.size, p.keys), thread_index);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      for (uint i = 0; i < tile; i += 8) {
        simdgroup_float8x8 a, b;
        simdgroup_load(a, queries + simdgroup * 8 * tile_stride + i, tile_stride);
        for (uint n = 0; n < 4; n++) {
          simdgroup_load(b, keys + n * 8 * tile_stride + i, tile_stride, ulong2(0, 0), true);
          simdgroup_multiply_accumulate(s[n], a, b, s[n]);
        }
      }
    }
    for (uint n = 0; n < 4; n++)
      simdgroup_store(s[n], scores + simdgroup * 8 * tile_stride + n * 8, tile_stride);
    simdgroup_barrier(mem_flags::mem_threadgroup);

    // Softmax of this lane's part of its row.
    threadgroup float* own_scores = scores + own_row * tile_stride + quarter * 8;
    float score[8];
    bool counts[8];
    float larger = maximum;
    for (uint i = 0; i < 8; i++) {
      const uint column = first_key + quarter * 8 + i;
      counts[i] = row < p.queries && is_seen(p, row, column);
      const float bias = counts[i] ? bias_of(mask, p, batch, head, row, column) : 0.0f;
      counts[i] = counts[i] && !(bias < lowest);
      score[i] = own_scores[i] * p.scale + bias;
      if (counts[i]) larger = max(larger, score[i]);
    }
    larger = row_max(larger);
    const float factor = precise::exp(maximum - larger);
    float part = 0;
    for (uint i = 0; i < 8; i++) {
      const float weight = counts[i] ? precise::exp(score[i] - larger) : 0.0f;
      own_scores[i] = weight;
      part += weight;
    }
    total = total * factor + row_sum(part);
    maximum = larger;

    threadgroup_barrier(mem_flags::mem_threadgroup);
    load_tile<T, prefill_columns, wide_stride>(values, v, p.value, uint2(first_column, first_key),
                                               uint2(p.value_size, p.keys), thread_index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint n = 0; n < prefill_columns / 8; n++) {
      simdgroup_float8x8 o = simdgroup_float8x8(0);
      for (uint i = 0; i < tile; i += 8) {
        simdgroup_float8x8 a, b;
        simdgroup_load(a, scores + simdgroup * 8 * tile_stride + i, tile_stride);
        simdgroup_load(b, values + i * wide_stride + n * 8, wide_stride);
        simdgroup_multiply_accumulate(o, a, b, o);
      }
      simdgroup_store(o, products + simdgroup * 8 * wide_stride + n * 8, wide_stride);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup float* own_products = products + own_row * wide_stride + quarter;
    for (uint i = 0; i < prefill_columns / 4; i++)
      sums[i] = sums[i] * factor + own_products[4 * i];
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }

  if (row >= p.queries) return;
  const ulong out_row = (ulong(batch) * p.heads + head) * p.queries + row;
  for (uint i = 0; i < prefill_columns / 4; i++) {
    const uint column = first_column + quarter + 4 * i;
    if (column < p.value_size)
      out[out_row * p.value_size + column] = T(total == 0 ? sums[i] : sums[i] / total);
  }
  if (p.wants_stats != 0 && chunk == 0 && quarter == 0) stats[out_row] = float2(maximum, total);
}

// ---- weights ------------------------------------------------------------------------------------

// Threads: keys, queries, batches * heads.
template <typename T>
kernel void attention_weights(device T* weights [[buffer(0)]],
                              device const T* query [[buffer(1)]],
                              device const T* key [[buffer(2)]],
                              device const uchar* mask [[buffer(4)]],
                              device const float2* stats [[buffer(5)]],
                              constant Params& p [[buffer(6)]],
                              uint3 at [[thread_position_in_grid]]) {
  const uint column = at.x, row = at.y, batch = at.z / p.heads, head = at.z % p.heads;
  const ulong out_row = ulong(at.z) * p.queries + row;
  device T& weight = weights[out_row * p.keys + column];
  const float bias = bias_of(mask, p, batch, head, row, column);
  if (!is_seen(p, row, column) || bias < lowest) {
    weight = T(0.0f);
    return;
  }
  device const T* q = matrix_of(query, p.query, batch, head, p.heads, p.heads) + row * p.query.row;
  device const T* k = matrix_of(key, p.key, batch, head, p.key_heads, p.heads) + column * p.key.row;
  float product = 0;
  for (uint e = 0; e < p.size; e++)
    product += float(q[e * p.query.column]) * float(k[e * p.key.column]);
  const float2 maximum_total = stats[out_row];
  const float power = precise::exp(product * p.scale + bias - maximum_total.x);
  weight = T(maximum_total.y == 0 ? power : power / maximum_total.y);
}

// ---- instances ----------------------------------------------------------------------------------

#define INSTANTIATE_TILES(kernel_name, T)                                                         \
  template [[host_name(#kernel_name "_" #T)]] kernel void kernel_name<T>(                         \
      device T*, device const T*, device const T*, device const T*, device const uchar*,          \
      device float2*, constant Params&, uint3, uint, uint);
#define INSTANTIATE(T)                                                                            \
  INSTANTIATE_TILES(attention_decode, T)                                                          \
  INSTANTIATE_TILES(attention_prefill, T)                                                         \
  template [[host_name("attention_weights_" #T)]] kernel void attention_weights<T>(               \
      device T*, device const T*, device const T*, device const uchar*, device const float2*,     \
      constant Params&, uint3);

INSTANTIATE(float)
INSTANTIATE(half)
INSTANTIATE(bfloat)
