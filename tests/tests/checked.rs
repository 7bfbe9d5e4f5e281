//! The checked mode: every model fixture runs under it without a report, and faulty kernels are
//! stopped and named.

use std::process::Output;

use etmetal_tests::model::{Model, no_weights};
use etmetal_tests::pte::{Method, Program};
use etmetal_tests::stage::{etmetal, fixture, repository, text};

/// Fixtures whose operators have kernels of ours, which the host runs only when asked to.
const WITH_OWN_KERNELS: [&str; 6] = [
    "sdpa_bfloat16",
    "sdpa_block_causal",
    "linear_bias_int4_bfloat16",
    "linear_int4_qmv_impl_small_odd",
    "gather_qmv",
    "gated_delta_rule",
];

fn run_checked(name: &str, ops: &str) -> Output {
    let (rtol, atol) = if name.ends_with("bfloat16") { ("2e-2", "2e-2") } else { ("1e-4", "1e-5") };
    etmetal()
        .args(["run", "--checked", "--rtol", rtol, "--atol", atol])
        .arg(fixture(name))
        .env("ETMETAL_OPS", ops)
        .output()
        .expect("the staged tool starts")
}

fn passes(name: &str, ops: &str) {
    let output = run_checked(name, ops);
    let told = text(&output);
    assert!(output.status.success() && told.contains("PASS"), "{name}, {ops}:\n{told}");
}

#[test]
fn every_fixture_is_right_and_nothing_is_reported() {
    let folder = repository().join("tests/fixtures");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the fixtures are there") {
        let entry = entry.expect("readable");
        if entry.path().is_dir() {
            passes(entry.file_name().to_str().expect("UTF-8"), "native");
            count += 1;
        }
    }
    assert!(count > 20, "{count} fixtures");
}

#[test]
fn our_own_kernels_are_right_and_nothing_is_reported() {
    for name in WITH_OWN_KERNELS {
        passes(name, "msl");
    }
}

/// Runs the hand-made model with these statements at the start of its kernel.
fn run_model(extra: &str, arguments: &[&str]) -> (String, Option<i32>) {
    let dir = tempfile::tempdir().unwrap();
    let library = Model { extra: extra.into(), ..Model::default() }.compile(dir.path());
    let (key, weights) = no_weights();
    let path = dir.path().join("model.pte");
    Program {
        methods: vec![Method {
            name: "forward".into(),
            values: vec![vec![4], vec![4]],
            inputs: vec![0],
            outputs: vec![1],
            delegates: vec![library.delegate(&key, &[0, 1])],
        }],
        named_data: vec![library.named(), (key, weights)],
    }
    .write(&path)
    .unwrap();
    let output = etmetal().arg("run").args(arguments).arg(&path).output().unwrap();
    (text(&output), output.status.code())
}

#[test]
fn a_faulty_kernel_ends_the_run_with_its_line() {
    let (told, code) = run_model("", &["--checked", "--repeat", "2"]);
    assert_eq!(code, Some(0), "{told}");
    let (told, code) = run_model("out_ptr0[xindex + 1] = 1;", &["--checked"]);
    assert_eq!(code, Some(1), "{told}");
    for part in [
        "error: cannot execute method \"forward\" of ",
        "method \"forward\": kernel \"generated_kernel\" of shader library",
        "store of 4 bytes out of bounds: buffer(0) \"out_ptr0\" of 16 bytes, accessed at byte \
         offset 16, in MSL line ",
        "\n    out_ptr0[xindex + 1] = 1;\n",
        "the thread at [3, 0, 0] of the grid",
    ] {
        assert!(told.contains(part), "{part:?} is not in\n{told}");
    }
    let (told, code) = run_model(
        "float before = in_ptr0[int(xindex) - 1]; out_ptr0[xindex] = before;",
        &["--checked", "--json"],
    );
    assert_eq!(code, Some(1), "{told}");
    let json = told.lines().next().unwrap();
    let report: serde_json::Value =
        serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}:\n{told}"));
    let message = report["error"].as_str().unwrap();
    assert!(message.contains("load of 4 bytes") && message.contains("byte offset -4"), "{message}");
}
