//! Reductions of numbers of unusual types and sizes, and beside operations of SIMD groups.

use super::*;

/// A kernel over rows of 40 with this body.
fn row_kernel(name: &str, body: &str) -> String {
    format!(
        "[[max_total_threads_per_threadgroup(40)]]
kernel void {name}(device float* out, device long* whole, constant float* in_f, constant int* in_i,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]) {{
  auto xindex = thread_pos.x; auto r0_index = thread_pos.y;
  int t = r0_index; int x0 = xindex; int at = t + 40*x0;
  threadgroup float floats[40]; threadgroup bool bools[40]; threadgroup int ints[40];
  threadgroup long places[40];
  float x = in_f[at]; long place = r0_index;
{body}
}}
"
    )
}

fn compare(kernels: &[(&str, &str)]) {
    let source: String = kernels.iter().map(|(name, body)| row_kernel(name, body)).collect();
    let names: Vec<_> = kernels.iter().map(|(name, _)| *name).collect();
    for kernel in both(&with_helpers(&source), &names) {
        kernel.assert_shape(Shape::Rows);
        let (grid, group) = ([5, 40, 1], [1, 40, 1]);
        kernel.compare_all(&Launch { grid, group, elements: 4096, scalar: 0 });
    }
}

#[test]
fn truth_values_and_numbers_that_do_not_fit() {
    compare(&[
        (
            "of_bools",
            "bool b = x > 0.9f;
  auto any = c10::metal::threadgroup_max(bools, b, r0_index * 1, 40);
  auto all = c10::metal::threadgroup_min(bools, x > -0.9f, r0_index * 1, 40);
  auto first = c10::metal::threadgroup_argmax(bools, places, b, place, r0_index * 1, 40);
  out[x0] = 1 + any + all * 2 + first * 4;",
        ),
        (
            "wrapping",
            "int odd = in_i[at] * 30000001 | 1;
  auto product = c10::metal::threadgroup_prod(ints, odd, r0_index * 1, 40);
  auto total = c10::metal::threadgroup_sum(ints, odd, r0_index * 1, 40);
  whole[2 * x0] = product; whole[2 * x0 + 1] = total;
  whole[1000 + at] = metal::simd_product(odd);",
        ),
    ]);
}

/// On fibers one thread may be at the second operation while others have not seen the result of the
/// first.
#[test]
fn places_beside_shuffles_of_other_sizes() {
    let argmax = "c10::metal::threadgroup_argmax(floats, places, x, place, r0_index * 1, 40)";
    compare(&[
        (
            "wide",
            &format!(
                "float4 other = metal::simd_shuffle_xor(float4(x, x + 1, t, 3 * t), 1);
  auto most = {argmax};
  out[at] = other.x + 3 * other.y + 5 * other.z + 7 * other.w + most;"
            ),
        ),
        (
            "narrow",
            &format!(
                "char other = metal::simd_shuffle_xor(char(t), 1);
  auto most = {argmax};
  out[at] = other + 3 * most;"
            ),
        ),
    ]);
}
