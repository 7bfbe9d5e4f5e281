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

/// All triples of numbers where the order of floats and that of their bits differ.
#[test]
fn greatest_and_least_of_numbers_at_the_ends() {
    let denormal = f32::from_bits(1);
    let ends = [f32::MIN_POSITIVE, f32::MAX, f32::INFINITY, f32::NAN, f32::from_bits(0x7f80_0001)];
    let ends = [0.0, denormal, 1.0].into_iter().chain(ends).flat_map(|x| [x, -x]);
    let ends: Vec<f32> = ends.chain([f32::from_bits(u32::MAX)]).collect();
    let rows: Vec<[f32; 3]> = (0..ends.len().pow(3))
        .map(|row| [1, ends.len(), ends.len().pow(2)].map(|step| ends[row / step % ends.len()]))
        .collect();
    let source = row_kernel(
        "ends",
        "auto most = c10::metal::threadgroup_max(floats, x, r0_index * 1, 40);
  auto least = c10::metal::threadgroup_min(floats, x, r0_index * 1, 40);
  out[2 * x0] = most; out[2 * x0 + 1] = least;",
    );
    let kernel = &both(&with_helpers(&source), &["ends"])[0];
    kernel.assert_shape(Shape::Rows);
    let mut values: Vec<f32> =
        rows.iter().flat_map(|row| (0..40).map(|t| row[[0, 1, 2, 2, 1][t % 5]])).collect();
    let (mut out, mut whole) = (vec![0.0f32; 2 * rows.len()], [0i64; 1]);
    Dispatch::new([rows.len() as u32, 40, 1], [1, 40, 1])
        .arg(&mut out)
        .arg(&mut whole)
        .arg(&mut values)
        .arg(&mut [0i32; 1])
        .run(&kernel.loops);
    for (row, found) in rows.iter().zip(out.chunks(2)) {
        let nan = row.iter().any(|x| x.is_nan());
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let least = row.iter().copied().fold(f32::INFINITY, f32::min);
        let same = |a: f32, b: f32| if nan { a.is_nan() } else { a == b };
        assert!(same(found[0], most) && same(found[1], least), "{row:?}: {found:?}");
    }
}

/// A whole number drops the fraction of each number that is added to it: loops, which add in another
/// order than the threads do, are not for that. The compiler refuses them, as only it knows the types.
#[test]
fn sums_that_drop_fractions_stay_in_their_order() {
    let kernel = |name: &str, init: &str| {
        format!(
            "[[max_total_threads_per_threadgroup(1024)]]
kernel void {name}(device float* out, constant float* in_f,
    uint2 thread_pos [[thread_position_in_grid]],
    uint2 group_pos [[thread_position_in_threadgroup]]) {{
  auto xindex = thread_pos.x; auto r0_index = thread_pos.y; int x0 = xindex;
  threadgroup long shared[32];
  {init}
  for (auto r0__cnt = 0; r0__cnt < 3; ++r0__cnt) {{
    int r0__linear_idx = 3 * r0_index + r0__cnt;
    if (r0__linear_idx >= 3000) break;
    auto x = in_f[r0__linear_idx + 3000 * x0] * 9; auto n = static_cast<int>(x);
    acc += x;
  }}
  auto sum = c10::metal::threadgroup_sum(shared, acc, r0_index * 1, 1024);
  if (r0_index == 0) out[x0] = sum;
}}
"
        )
    };
    let dropping = kernel("dropping", "long acc = 0;");
    let keeping = kernel("keeping", "float acc = 0;");
    let whole = kernel("whole", "long acc = 0;").replace("acc += x", "acc += n");
    let source = with_helpers(&[dropping, keeping, whole].concat());
    let kernels = both(&source, &["dropping", "keeping", "whole"]);
    for kernel in &kernels {
        assert_eq!(kernel.info.fission, Outcome::Split(Shape::Rows));
    }
    let loops: Vec<_> = kernels.iter().map(|kernel| kernel.loops.loops()).collect();
    assert_eq!(loops, [false, true, true]);
    let (grid, group) = ([3, 1024, 1], [1, 1024, 1]);
    kernels[2].compare_all(&Launch { grid, group, elements: 9000, scalar: 0 });
}
