// Operations of a whole threadgroup on fibers. PyTorch's helpers let every thread go through the
// values of all others, which a GPU does side by side; here the first to get there does it for all.
// Calls of those helpers become calls of these (rewrite.rs).
#pragma once
#include "simdgroup.h"

namespace msl {

// Mean, sum of squared distances from it, and number of two sets of values, each given by these.
MSL_INLINE metal::float3 welford_pair(const metal::float3& a, const metal::float3& b) {
  const float distance = b.x - a.x, weight = a.z + b.z;
  const float part = weight != 0 ? b.z / weight : 0.0f;
  return metal::float3(a.x + distance * part, a.y + b.y + distance * distance * a.z * part,
                       weight);
}

// What `compute` gives, to all threads: called by one of them between two barriers.
template <class Compute>
MSL_INLINE metal::float3 once_for_all(Compute compute) {
  Context* c = context();
  wait_at_barrier();
  if (!c->has_result) {
    c->result = compute();
    c->has_result = true;
  }
  const metal::float3 result = c->result;
  wait_at_barrier();
  c->has_result = false;
  return result;
}

}  // namespace msl

namespace c10 {
namespace metal {

// Mean, sum of squared distances from it, and number of the values.
template <class T>
::metal::float3 fiber_welford_reduce(T* data, uint size) {
  return msl::once_for_all([=] {
    float mean = data[0], spread = 0;
    for (uint i = 1; i < size; i++) {
      const float distance = data[i] - mean;
      mean += distance / (i + 1);
      spread += distance * (data[i] - mean);
    }
    return ::metal::float3(mean, spread, size);
  });
}

// The same of sets of values, each of which is (mean, sum of squared distances, number).
template <class T>
::metal::float3 fiber_welford_combine(T* data, uint size) {
  return msl::once_for_all([=] {
    ::metal::float3 all = data[0];
    for (uint i = 1; i < size; i++) all = msl::welford_pair(all, data[i]);
    return all;
  });
}

}  // namespace metal
}  // namespace c10
