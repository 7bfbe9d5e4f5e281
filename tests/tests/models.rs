//! Every model fixture against the recorded outputs of eager PyTorch, through the staged tool and
//! the official ExecuTorch runtime.

use etmetal_tests::stage::{etmetal, fixture, text};

/// Runs a fixture at the tolerances that the project states: float32 1e-4, bfloat16 2e-2
/// (relative; absolute near zero, where sums that cancel leave only rounding errors).
fn passes(name: &str) {
    let (rtol, atol) = if name.ends_with("bfloat16") { ("2e-2", "2e-2") } else { ("1e-4", "1e-5") };
    let output = etmetal()
        .arg("run")
        .arg(fixture(name))
        .args(["--rtol", rtol, "--atol", atol])
        .output()
        .expect("the staged tool starts");
    let text = text(&output);
    assert!(output.status.success(), "{name}:\n{text}");
    assert!(text.contains("PASS"), "{name} compared nothing:\n{text}");
}

macro_rules! models {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            passes(stringify!($name));
        })*

        #[test]
        fn every_fixture_is_tested() {
            let tested = [$(stringify!($name)),*];
            let folder = etmetal_tests::stage::repository().join("tests/fixtures");
            for entry in std::fs::read_dir(folder).expect("the fixtures are there") {
                let entry = entry.expect("readable");
                if entry.path().is_dir() {
                    let name = entry.file_name().into_string().expect("UTF-8");
                    assert!(tested.contains(&name.as_str()), "fixture {name} has no test");
                }
            }
        }
    };
}

models! {
    add add_bfloat16 mm mm_weight_param mm_bfloat16 mlp linear_nobias linear_bias
    linear_bias_bfloat16 addmm layernorm reductions elementwise embedding argmax split_cat dyn_mlp
    kv_cache sdpa_bfloat16 sdpa_block_causal tiny_llama
    cnn conv_bn_relu conv1d_nobias_bfloat16
    topk topk_idx
    linear_bias_int4_bfloat16 linear_int4_qmv_impl_small_odd gather_qmv gather_qmv_bfloat16
    gated_delta_rule gated_delta_rule_bfloat16
}
