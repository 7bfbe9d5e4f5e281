//! Where threads stand: every attribute, in plain and in synchronising kernels.

use super::super::harness::Arena;
use super::*;

const ATTRIBUTES: &str = "
  uint3 grid_pos [[thread_position_in_grid]], ushort3 in_group [[thread_position_in_threadgroup]],
  uint3 group [[threadgroup_position_in_grid]], uint3 size [[threads_per_threadgroup]],
  ushort3 full [[dispatch_threads_per_threadgroup]], uint3 grid [[threads_per_grid]],
  uint3 groups [[threadgroups_per_grid]], uint index [[thread_index_in_threadgroup]],
  ushort lane [[thread_index_in_simdgroup]], ushort simd [[simdgroup_index_in_threadgroup]],
  ushort width [[threads_per_simdgroup]], uint simds [[simdgroups_per_threadgroup]],
  ushort corner [[thread_index_in_quadgroup]], ushort quad [[quadgroup_index_in_threadgroup]]";

const BODY: &str = "
  uint linear = (grid_pos.z * grid.y + grid_pos.y) * grid.x + grid_pos.x;
  device uint* o = out + linear * 27;
  uint3 rows[7] = {grid_pos, uint3(in_group), group, size, uint3(full), grid, groups};
  for (int i = 0; i < 7; i++) { o[3 * i] = rows[i].x; o[3 * i + 1] = rows[i].y; o[3 * i + 2] = rows[i].z; }
  o[21] = index; o[22] = lane; o[23] = simd; o[24] = width + 100 * simds; o[25] = corner; o[26] = quad;";

fn expected(position: [u32; 3], grid: [u32; 3], full: [u32; 3]) -> Vec<u32> {
    let group: [u32; 3] = std::array::from_fn(|i| position[i] / full[i]);
    let inside: [u32; 3] = std::array::from_fn(|i| position[i] % full[i]);
    let size: [u32; 3] = std::array::from_fn(|i| full[i].min(grid[i] - group[i] * full[i]));
    let groups: [u32; 3] = std::array::from_fn(|i| grid[i].div_ceil(full[i]));
    let index = (inside[2] * size[1] + inside[1]) * size[0] + inside[0];
    let simds = size.iter().product::<u32>().div_ceil(32);
    let mut want = [position, inside, group, size, full, grid, groups].concat();
    want.extend([index, index % 32, index / 32, 32 + 100 * simds, index % 4, index / 4]);
    want
}

#[test]
fn every_attribute_in_three_dimensions_with_edge_groups() {
    let source = with_header(&format!(
        "kernel void plain(device uint* out, {ATTRIBUTES}) {{ {BODY} }}\n\
         kernel void fibers(device uint* out, {ATTRIBUTES}) {{ threadgroup_barrier(mem_flags::mem_none); {BODY} }}"
    ));
    let (grid, group) = ([11, 7, 5], [4, 3, 2]);
    let arena = Arena::new();
    for name in ["plain", "fibers"] {
        let native = kernel(&source, name);
        assert_eq!(native.mode == LaunchMode::Plain, name == "plain");
        let mut out = vec![0u32; 11 * 7 * 5 * 27];
        Dispatch::new(grid, group).arena(&arena).arg(&mut out).run(&native);
        for (linear, row) in (0u32..).zip(out.chunks(27)) {
            let position = [linear % 11, linear / 11 % 7, linear / 77];
            assert_eq!(row, expected(position, grid, group), "{name} at {position:?}");
        }
    }
}

#[test]
fn scalar_and_pair_forms() {
    let source = with_header(
        "kernel void f(device uint* out, ushort2 p [[thread_position_in_grid]], ushort2 x [[thread_position_in_threadgroup]],\n\
           uint2 n [[threads_per_grid]], uint2 groups [[threadgroups_per_grid]]) {\n\
           out[p.y * n.x + p.x] = p.x + 100 * p.y + 10000 * x.x + 1000000 * groups.x;\n\
         }",
    );
    let mut out = vec![0u32; 15];
    Dispatch::new([5, 3, 1], [2, 1, 1]).arg(&mut out).run(&kernel(&source, "f"));
    for (i, v) in (0u32..).zip(&out) {
        assert_eq!(*v, i % 5 + 100 * (i / 5) + 10000 * (i % 5 % 2) + 3_000_000);
    }
}

#[test]
fn threadgroup_arguments_lie_apart() {
    let source = with_header(
        "kernel void f(device float* out [[buffer(0)]], threadgroup float* b [[threadgroup(1)]],\n\
           threadgroup float4* a [[threadgroup(0)]], uint tid [[thread_position_in_threadgroup]]) {\n\
           threadgroup float own[8];\n\
           own[tid] = 1.0; a[tid] = float4(2.0); b[tid] = 4.0;\n\
           threadgroup_barrier(mem_flags::mem_threadgroup);\n\
           float s = 0;\n\
           for (int i = 0; i < 8; i++) s += own[i] + dot(a[i], float4(1.0)) + b[i];\n\
           out[tid] = s;\n\
         }",
    );
    let native = kernel(&source, "f");
    assert_eq!(native.static_threadgroup_memory, 32);
    let mut out = [0.0f32; 8];
    Dispatch::new([8, 1, 1], [8, 1, 1])
        .threadgroup(0, 8 * 16)
        .threadgroup(1, 8 * 4)
        .arg(&mut out)
        .run(&native);
    assert_eq!(out, [104.0; 8]);
}

#[test]
fn kernels_share_an_arena() {
    let source = with_header(
        "template <typename T> kernel void f(device T* out, uint tid [[thread_index_in_threadgroup]]) {\n\
           threadgroup T v[64]; v[tid] = T(tid); threadgroup_barrier(mem_flags::mem_threadgroup);\n\
           out[tid] = v[63 - tid] + T(simd_sum(1)); }\n\
         template [[host_name(\"f_int\")]] kernel void f<int>(device int*, uint);\n\
         template [[host_name(\"f_float\")]] kernel void f<float>(device float*, uint);",
    );
    let arena = Arena::new();
    let (i, f) = (kernel(&source, "f_int"), kernel(&source, "f_float"));
    for _ in 0..3 {
        let (mut a, mut b) = ([0i32; 64], [0f32; 64]);
        Dispatch::new([64, 1, 1], [64, 1, 1]).arena(&arena).arg(&mut a).run(&i);
        Dispatch::new([64, 1, 1], [64, 1, 1]).arena(&arena).arg(&mut b).run(&f);
        for t in 0..64u8 {
            assert_eq!(a[usize::from(t)], i32::from(63 - t) + 32);
            assert_eq!(b[usize::from(t)], f32::from(63 - t) + 32.0);
        }
    }
}
