//! Reductions over two ranges: threads along two axes.

use super::*;

/// A kernel over planes of 12 by 20 with this body.
fn plane_kernel(name: &str, memory: &str, body: &str) -> String {
    format!(
        "[[max_total_threads_per_threadgroup(240)]]
kernel void {name}(device float* out_ptr0, device long* out_ptr1, constant float* in_ptr0,
    uint3 thread_pos [[thread_position_in_grid]],
    uint3 group_pos [[thread_position_in_threadgroup]]) {{
  auto xindex = thread_pos.x;
  auto r0_index = thread_pos.y;
  auto r1_index = thread_pos.z;
  int r0_1 = r0_index;
  int r1_2 = r1_index;
  int x0 = xindex;
  {memory}
  auto tmp0 = in_ptr0[r0_1 + 12*r1_2 + 240*x0];
  {body}
}}
"
    )
}

const NUMBER: &str = "r0_index * 1 + r1_index * 12";

fn kernels() -> String {
    let sum = format!("c10::metal::threadgroup_sum(tmp_acc_0, tmp0, {NUMBER}, 240)");
    let max =
        format!("c10::metal::threadgroup_max(tmp_acc_0, static_cast<float>(tmp0), {NUMBER}, 240)");
    let place = format!(
        "c10::metal::threadgroup_argmax(tmp_acc_0, tmp_acc_1, static_cast<float>(tmp0), \
         static_cast<long>({NUMBER}), {NUMBER}, 240)"
    );
    let few = "threadgroup float tmp_acc_0[8]; threadgroup long tmp_acc_1[8];";
    let all = "threadgroup float tmp_acc_0[240];";
    [
        plane_kernel("plane_sum", few, &format!("auto tmp1 = {sum}; out_ptr0[x0] = tmp1;")),
        plane_kernel(
            "plane_softmax",
            few,
            &format!(
                "auto tmp1 = {max}; auto tmp2 = metal::exp(tmp0 - tmp1); \
                 out_ptr0[r0_1 + 12*r1_2 + 240*x0] = tmp2;"
            ),
        ),
        plane_kernel("plane_argmax", few, &format!("auto tmp1 = {place}; out_ptr1[x0] = tmp1;")),
        plane_kernel(
            "plane_var",
            all,
            &format!(
                "tmp_acc_0[{NUMBER}] = tmp0; \
                 auto tmp1 = c10::metal::threadgroup_welford_reduce(tmp_acc_0, 240); \
                 out_ptr0[x0] = tmp1.y; out_ptr1[x0] = long(tmp1.z);"
            ),
        ),
    ]
    .concat()
}

#[test]
fn threads_along_two_axes() {
    let names = ["plane_sum", "plane_softmax", "plane_argmax", "plane_var"];
    for kernel in both(&with_helpers(&kernels()), &names) {
        kernel.assert_shape(Shape::Rows);
        let (grid, group) = ([37, 12, 20], [1, 12, 20]);
        kernel.compare_all(&Launch { grid, group, elements: 1 << 14, scalar: 0 });
    }
}

#[test]
fn planes_of_another_width_run_on_fibers() {
    let [kernel] = &both(&with_helpers(&kernels()), &["plane_softmax"])[..] else { panic!() };
    // As many threads, but in rows of 20.
    let launch = Launch { grid: [5, 20, 12], group: [1, 20, 12], elements: 1 << 12, scalar: 0 };
    kernel.compare(&launch, Filling::Random);
}

#[test]
fn the_number_of_a_thread_must_be_known() {
    let sum = "c10::metal::threadgroup_sum(tmp_acc_0, tmp0, r0_index + r1_index * 12, 240)";
    let memory = "threadgroup float tmp_acc_0[8];";
    let source =
        with_helpers(&plane_kernel("k", memory, &format!("auto t = {sum}; out_ptr0[x0] = t;")));
    let outcome = Module::parse(&source, toolchain()).unwrap().kernels()[0].fission.clone();
    let Outcome::Refused(reason) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("two reduction ranges"), "{reason}");
}
