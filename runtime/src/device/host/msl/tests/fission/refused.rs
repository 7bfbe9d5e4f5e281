//! What is left to fibers, and why; and launches that loops are not for.

use super::*;

/// A kernel over rows of 64 with this body.
fn row_kernel(body: &str) -> String {
    with_helpers(&format!(
        "kernel void k(device float* out_ptr0, constant float* in_ptr0,\n\
         uint2 thread_pos [[thread_position_in_grid]],\n\
         uint2 group_pos [[thread_position_in_threadgroup]]) {{\n\
         auto xindex = thread_pos.x; auto r0_index = thread_pos.y;\n\
         int r0_1 = r0_index; int x0 = xindex;\n\
         threadgroup float tmp_acc_0[64];\n\
         auto tmp0 = in_ptr0[r0_1 + 64*x0];\n{body}\n}}"
    ))
}

fn outcome(source: &str) -> Outcome {
    Module::parse(source, toolchain()).unwrap_or_else(|e| panic!("{e}")).kernels()[0]
        .fission
        .clone()
}

#[test]
fn what_is_not_understood_is_left_to_fibers() {
    let sum = "c10::metal::threadgroup_sum(tmp_acc_0, tmp0, r0_index * 1, 64)";
    let store = "out_ptr0[r0_1 + 64*x0] = t;";
    for (body, why) in [
        (format!("if (tmp0 > 0) {{ auto t = {sum}; {store} }}"), "in control flow"),
        (format!("auto t = tmp0 > 0 && {sum} > 1; {store}"), "in an expression"),
        (format!("if (r0_1 == 3) return; auto u = tmp0; if (u > 0) {{ return; }} {store}"), ""),
        (
            "for (uint s = 32; s > 0; s /= 2) { if (r0_index < s) tmp_acc_0[r0_index] += tmp0; \
          threadgroup_barrier(metal::mem_flags::mem_threadgroup); }"
                .to_owned(),
            "threadgroup_barrier in control flow",
        ),
        (format!("auto t = {}; {store}", sum.replace("r0_index * 1", "r0_index + 1")), "the index"),
        (format!("auto t = {sum}; t += 1; {store}"), "is changed"),
        (format!("auto t = {sum} ; auto u = tmp_acc_0[0]; {store}"), "tmp_acc_0"),
        (format!("thread float* p = &tmp0; auto t = {sum}; {store}"), "pointer"),
        (format!("float v[2]; v[0] = tmp0; auto t = {sum}; {store}"), "local array"),
        (
            format!("out_ptr0[r0_1] = tmp0; if (tmp0 > 5) return; auto t = {sum}; {store}"),
            "after a store",
        ),
        (
            format!("if (tmp0 > 5) {{ out_ptr0[0] = 1; return; }} auto t = {sum}; {store}"),
            "a return in",
        ),
        (
            format!(
                "threadgroup float2 pairs[64]; auto t = {}; {store}",
                sum.replace("tmp_acc_0, tmp0", "pairs, float2(tmp0, 1)")
            ),
            "an operation on vectors, in pairs",
        ),
        (format!("{{ float x0 = 1; tmp0 += x0; }} auto t = {sum}; {store}"), "two variables"),
        (format!("float u = metal::simd_ballot(tmp0 > 0).any(); {store}"), "simd_ballot"),
        (format!("if (tmp0 > 0) {{ tmp0 += metal::simd_sum(tmp0); }} auto t = 0; {store}"), "flow"),
    ] {
        let Outcome::Refused(reason) = outcome(&row_kernel(&body)) else {
            assert!(why.is_empty(), "{body} is split");
            continue;
        };
        assert!(reason.contains(why), "{body}: {reason}");
    }
}

#[test]
fn functions_named_as_metals_are_not_taken_for_them() {
    let mix = "float mix(device float* out, float a, uint i) { out[i] += a; return out[i]; }\n";
    let source = row_kernel(
        "auto t = c10::metal::threadgroup_sum(tmp_acc_0, tmp0, r0_index * 1, 64);\n\
         mix(out_ptr0, t, r0_1 + 64*x0);",
    );
    let source = source.replacen("kernel void", &format!("{mix}kernel void"), 1);
    let Outcome::Refused(reason) = outcome(&source) else { panic!("the kernel is split") };
    assert_eq!(reason, "the shader has a function mix of its own");
}

#[test]
fn launches_of_another_shape_run_on_fibers() {
    let body = "auto t = c10::metal::threadgroup_sum(tmp_acc_0, tmp0, r0_index * 1, 64);\n\
                out_ptr0[r0_1 + 64*x0] = tmp0 - t;";
    let kernel = &both(&row_kernel(body), &["k"])[0];
    kernel.assert_shape(Shape::Rows);
    // Threads along both axes, more threads than the kernel says, several groups along the rows.
    for (grid, group) in [
        ([10, 64, 1], [2, 64, 1]),
        ([10, 64, 1], [3, 64, 1]),
        ([10, 128, 1], [1, 128, 1]),
        ([10, 40, 1], [1, 64, 1]),
        ([10, 128, 1], [1, 64, 1]),
        ([10, 150, 1], [1, 64, 1]),
    ] {
        let launch = Launch { grid, group, elements: 4096, scalar: 0 };
        kernel.compare(&launch, Filling::Ties);
    }
}

#[test]
fn threads_that_leave_early_take_their_group_to_fibers() {
    let source = with_helpers(
        "kernel void k(device float* out_ptr0, constant long* in_ptr1, constant float* in_ptr0,\n\
         uint2 thread_pos [[thread_position_in_grid]]) {\n\
         auto xindex = thread_pos.x; auto r0_index = thread_pos.y;\n\
         int r0_1 = r0_index; int x0 = xindex;\n\
         threadgroup float tmp_acc_0[8];\n\
         auto tmp0 = in_ptr1[r0_1 + 256*x0];\n\
         if ((tmp0 < 0 || tmp0 >= 128)) return;\n\
         auto tmp2 = in_ptr0[tmp0 + 128*x0];\n\
         auto tmp4 = c10::metal::threadgroup_sum(tmp_acc_0, tmp2, r0_index * 1, 256);\n\
         if (r0_index == 0) out_ptr0[x0] = tmp4;\n}",
    );
    let kernel = &both(&source, &["k"])[0];
    kernel.assert_shape(Shape::Rows);
    // Every second group has such threads: indices are below 130.
    kernel.compare(&Launch::rows(31, 256), Filling::Random);
    let mut out = [-7.0f32; 2];
    let mut indices = [5i64; 512];
    indices[256] = -1;
    let mut values = [0.25f32; 256];
    Dispatch::new([2, 256, 1], [1, 256, 1])
        .arg(&mut out)
        .arg(&mut indices)
        .arg(&mut values)
        .run(&kernel.loops);
    assert_eq!(out, [64.0, -7.0]);
}
