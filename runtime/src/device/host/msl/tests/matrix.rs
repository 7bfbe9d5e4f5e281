//! `simdgroup_matrix` and ordinary matrices.

use super::*;

#[test]
fn simdgroup_matrices_multiply_with_strides_and_transposes() {
    let source = with_header(
        "template <typename T> kernel void mm(device float* out, device const T* a, device const T* b,\n\
           uint lane [[thread_index_in_simdgroup]]) {\n\
           simdgroup_matrix<T, 8, 8> x, y;\n\
           simdgroup_matrix<float, 8, 8> acc = make_filled_simdgroup_matrix<float, 8, 8>(0.5);\n\
           for (uint k = 0; k < 16; k += 8) {\n\
             simdgroup_load(x, a + k, 20);\n\
             simdgroup_load(y, b, 16, ulong2(k, 0), true);\n\
             simdgroup_multiply_accumulate(acc, x, y, acc);\n\
           }\n\
           simdgroup_store(acc, out, 8, ulong2(0, 0), false);\n\
           simdgroup_matrix<float, 8, 8> d(3.0), product;\n\
           simdgroup_multiply(product, d, acc);\n\
           simdgroup_store(product, out + 64, 8, ulong2(0, 0), true);\n\
           float2 e = acc.thread_elements();\n\
           out[128 + 2 * lane] = e[0]; out[129 + 2 * lane] = e[1];\n\
         }\n\
         template [[host_name(\"mm_float\")]] kernel void mm<float>(device float*, device const float*, device const float*, uint);\n\
         template [[host_name(\"mm_half\")]] kernel void mm<half>(device float*, device const half*, device const half*, uint);\n\
         template [[host_name(\"mm_bfloat\")]] kernel void mm<bfloat>(device float*, device const bfloat*, device const bfloat*, uint);",
    );
    // A is 8 x 16 with rows of 20; B is given as its transpose, 8 x 16 with rows of 16.
    let a: Vec<f32> = (0..160u8).map(|i| f32::from(i % 11) - 5.0).collect();
    let b: Vec<f32> = (0..128u8).map(|i| f32::from(i % 7) * 0.25 - 0.5).collect();
    let mut want = [0.0f32; 64];
    for (r, row) in want.chunks_mut(8).enumerate() {
        for (c, w) in row.iter_mut().enumerate() {
            *w = 0.5 + (0..16).map(|k| a[r * 20 + k] * b[c * 16 + k]).sum::<f32>();
        }
    }
    let check = |out: &[f32]| {
        for r in 0..8 {
            for c in 0..8 {
                assert_eq!(out[r * 8 + c], want[r * 8 + c], "element {r},{c}");
                assert_eq!(out[64 + c * 8 + r], 3.0 * want[r * 8 + c], "transposed {r},{c}");
            }
        }
        // Apple's layout, as MLX and others document it.
        for lane in 0..32 {
            let quad = lane / 4;
            let row = (quad & 4) + (lane / 2) % 4;
            let column = (quad & 2) * 2 + (lane % 2) * 2;
            assert_eq!(out[128 + 2 * lane], want[row * 8 + column]);
            assert_eq!(out[129 + 2 * lane], want[row * 8 + column + 1]);
        }
    };
    let run = |name: &str, a: &mut dyn Bind, b: &mut dyn Bind| {
        let mut out = vec![0.0f32; 192];
        let dispatch = Dispatch::new([32, 1, 1], [32, 1, 1]).arg(&mut out);
        b.bind(a.bind(dispatch)).run(&kernel(&source, name));
        check(&out);
    };
    run("mm_float", &mut a.clone(), &mut b.clone());
    let halves = |v: &[f32]| v.iter().map(|&x| half::f16::from_f32(x)).collect::<Vec<_>>();
    run("mm_half", &mut halves(&a), &mut halves(&b));
    let bfloats = |v: &[f32]| v.iter().map(|&x| half::bf16::from_f32(x)).collect::<Vec<_>>();
    run("mm_bfloat", &mut bfloats(&a), &mut bfloats(&b));
}

/// Data of any element type as an argument.
trait Bind {
    fn bind<'a>(&'a mut self, dispatch: Dispatch<'a>) -> Dispatch<'a>;
}

impl<T> Bind for Vec<T> {
    fn bind<'a>(&'a mut self, dispatch: Dispatch<'a>) -> Dispatch<'a> {
        dispatch.arg(self)
    }
}

#[test]
fn ordinary_matrices() {
    let source = with_header(
        "kernel void f(device float* out, constant float3x3& m, uint i [[thread_position_in_grid]]) {\n\
           float3x3 t = transpose(m);\n\
           float3 v = m * float3(1, 2, 3), w = float3(1, 2, 3) * t;\n\
           float2x2 r(0.0, 1.0, -1.0, 0.0);\n\
           float2x2 rr = r * r;\n\
           float4x4 d(2.0);\n\
           out[0] = v.x; out[1] = v.y; out[2] = v.z;\n\
           out[3] = all(v == w); out[4] = determinant(m); out[5] = determinant(d);\n\
           out[6] = rr[0][0]; out[7] = rr[1][0]; out[8] = (r + rr * 2.0)[1].x;\n\
         }",
    );
    // Columns are padded to four floats.
    let mut m = [2.0f32, 0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 1.0, 0.0, 4.0, 0.0];
    let mut out = [0.0f32; 9];
    Dispatch::new([1, 1, 1], [1, 1, 1]).arg(&mut out).arg(&mut m).run(&kernel(&source, "f"));
    assert_eq!(out, [5.0, 6.0, 13.0, 1.0, 21.0, 16.0, -1.0, 0.0, -1.0]);
}
