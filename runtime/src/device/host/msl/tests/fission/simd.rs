//! Operations of SIMD groups and quad groups in loops.

use super::*;

/// Every operation, of several types, in declarations and in expressions; with what is computed
/// from results, and shuffles whose lanes differ between threads.
const SIMD: &str = "
#include <metal_stdlib>
using namespace metal;

kernel void reductions(device float* out [[buffer(0)]], device int* whole [[buffer(1)]],
                       constant float* in_f [[buffer(2)]], constant int* in_i [[buffer(3)]],
                       uint tid [[thread_position_in_grid]]) {
  float x = in_f[tid];
  int i = in_i[tid];
  float sum = simd_sum(x), product = metal::simd_product(x * 0.5f + 1.0f);
  auto most = ::metal::simd_max(i);
  float least = simd_min(x) * 2 + quad_sum(x);
  whole[tid * 4] = most + simd_and(i) + simd_xor(i) - quad_or(i);
  whole[tid * 4 + 1] = simd_any(x > 0.9f) ? 1 : 0;
  whole[tid * 4 + 2] = quad_all(x > 0) ? 5 : 3;
  int2 both = simd_sum(int2(i, 1)) + quad_product(int2(2, i % 3));
  whole[tid * 4 + 3] = both.x + both.y * 1000;
  half h = half(x);
  h += simd_max(h);
  x = simd_max(x);
  least += x;
  out[tid] = sum + product + least + h;
}

kernel void scans(device float* out [[buffer(0)]], device half* halves [[buffer(1)]],
                  constant float* in_f [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  float x = in_f[tid];
  float before = simd_prefix_exclusive_sum(x);
  float with_own = metal::simd_prefix_inclusive_product(x + 0.5f);
  half quads = quad_prefix_inclusive_sum(half(x));
  out[tid] = before + with_own;
  halves[tid] = quads;
}

kernel void shuffles(device float* out [[buffer(0)]], device int* whole [[buffer(1)]],
                     constant float* in_f [[buffer(2)]], constant int* in_i [[buffer(3)]],
                     uint tid [[thread_position_in_grid]],
                     uint lane [[thread_index_in_simdgroup]]) {
  float x = in_f[tid];
  float2 pair = float2(x, x + 1);
  float2 other = simd_shuffle_xor(pair, 1);
  float down = metal::simd_shuffle_down(x, 3);
  x = x + simd_shuffle_up(x, 2) - quad_shuffle_rotate_up(x, 1);
  int turned = simd_shuffle_rotate_down(in_i[tid], lane / 2);
  out[tid] = x + other.x - other.y * 0.5f + down + simd_broadcast(x, 7);
  whole[tid] = turned + simd_shuffle(in_i[tid], ushort(31 - lane)) + quad_broadcast(in_i[tid], 2);
}";

#[test]
fn operations_of_simd_groups() {
    let names = ["reductions", "scans", "shuffles"];
    for kernel in both(SIMD, &names) {
        kernel.assert_shape(Shape::Rows);
        // Full SIMD groups, a last one with some lanes, and less than one.
        for threads in [64, 77, 13] {
            let (grid, group) = ([threads * 5, 1, 1], [threads, 1, 1]);
            kernel.compare_all(&Launch { grid, group, elements: 4096, scalar: 0 });
        }
    }
}

#[test]
fn functions_of_the_shader_are_its_own() {
    let source = "
#include <metal_stdlib>
static float simd_sum(float x) { return x + metal::simd_sum(x); }
kernel void k(device float* out [[buffer(0)]], uint tid [[thread_position_in_grid]]) {
  float t = simd_sum(out[tid]);
  out[tid] = t;
}";
    let outcome = Module::parse(source, toolchain()).unwrap().kernels()[0].fission.clone();
    let Outcome::Refused(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("simd_sum in an expression"), "{reason}");
}
