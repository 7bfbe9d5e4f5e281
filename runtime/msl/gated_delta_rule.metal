// The gated delta rule. A SIMD group advances one row of a head's state through all time steps,
// its elements spread over the lanes, which keep them in registers.
#include <metal_simdgroup>
#include <metal_stdlib>
using namespace metal;

struct Sizes {
  uint steps;      // in time
  uint key_heads;  // of keys and queries
  uint key;        // elements of a key
  uint heads;      // of values, a multiple of key_heads
  uint value;      // elements of a value
};

// T: queries, keys, values and result. S: the state. SHARE: elements of a row of the state that a
// lane keeps, so that 32 * SHARE is at least sizes.key.
// Threadgroups: (value / 4, batch * heads) of (32, 4) threads.
template <typename T, typename S, uint SHARE>
kernel void gated_delta_rule(device T* y [[buffer(0)]],
                             device const T* q [[buffer(1)]],
                             device const T* k [[buffer(2)]],
                             device const T* v [[buffer(3)]],
                             device const float* g [[buffer(4)]],
                             device const float* beta [[buffer(5)]],
                             device S* state [[buffer(6)]],
                             constant Sizes& sizes [[buffer(7)]],
                             uint2 group [[threadgroup_position_in_grid]],
                             uint simdgroup [[simdgroup_index_in_threadgroup]],
                             uint lane [[thread_index_in_simdgroup]]) {
  const uint row = group.x * 4 + simdgroup;
  if (row >= sizes.value) return;
  const uint batch = group.y / sizes.heads, head = group.y % sizes.heads;
  const uint key_head = head / (sizes.heads / sizes.key_heads);
  device S* row_of_state = state + (ulong(group.y) * sizes.value + row) * sizes.key;
  float s[SHARE];
  for (uint i = 0; i < SHARE; i++) {
    const uint at = i * 32 + lane;
    s[i] = at < sizes.key ? float(row_of_state[at]) : 0.0f;
  }
  for (uint step = 0; step < sizes.steps; step++) {
    const ulong time = ulong(batch) * sizes.steps + step;
    device const T* key = k + (time * sizes.key_heads + key_head) * sizes.key;
    device const T* query = q + (time * sizes.key_heads + key_head) * sizes.key;
    const ulong of_head = time * sizes.heads + head;

    // The state decays; what it remembers for the key.
    float share = 0;
    for (uint i = 0; i < SHARE; i++) {
      const uint at = i * 32 + lane;
      s[i] *= g[of_head];
      if (at < sizes.key) share += s[i] * float(key[at]);
    }
    const float remembered = simd_sum(share);

    // It learns the difference; what it then says for the query.
    const float delta = (float(v[of_head * sizes.value + row]) - remembered) * beta[of_head];
    share = 0;
    for (uint i = 0; i < SHARE; i++) {
      const uint at = i * 32 + lane;
      if (at < sizes.key) {
        s[i] += float(key[at]) * delta;
        share += s[i] * float(query[at]);
      }
    }
    const float result = simd_sum(share);
    if (lane == 0) y[of_head * sizes.value + row] = T(result);
  }
  for (uint i = 0; i < SHARE; i++) {
    const uint at = i * 32 + lane;
    if (at < sizes.key) row_of_state[at] = S(s[i]);
  }
}

#define KERNEL(TYPE, STATE, SHARE)                                                        \
  template [[host_name("gated_delta_rule_" #SHARE "_" #STATE "_" #TYPE)]] kernel void     \
  gated_delta_rule<TYPE, STATE, SHARE>(device TYPE*, device const TYPE*,                  \
                                       device const TYPE*, device const TYPE*,            \
                                       device const float*, device const float*,          \
                                       device STATE*, constant Sizes&, uint2, uint, uint);
#define KERNELS(TYPE, STATE) \
  KERNEL(TYPE, STATE, 2)     \
  KERNEL(TYPE, STATE, 4)     \
  KERNEL(TYPE, STATE, 8)     \
  KERNEL(TYPE, STATE, 32)

KERNELS(float, float)
KERNELS(half, float)
KERNELS(half, half)
KERNELS(bfloat, float)
KERNELS(bfloat, bfloat)
