//! `etmetal selftest` and `etmetal run --compare`, on the host device.

use std::process::Output;

use etmetal_tests::stage::{etmetal, fixture, text};
use serde_json::Value;

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(output)))
}

#[test]
fn a_model_is_compared_command_by_command() {
    let run = |json: bool| {
        let mut command = etmetal();
        command.arg("run").arg(fixture("mlp")).arg("--compare=host");
        command.args(json.then_some("--json")).output().unwrap()
    };
    let output = run(false);
    let shown = text(&output);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("kernel \"generated_kernel\" of mps_lib_0  "), "{shown}");
    assert!(shown.contains("op mm") || shown.contains("op addmm"), "{shown}");
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with("PASS  ") && last.ends_with(" commands, 0 differ"), "{shown}");
    let report = json(&run(true));
    assert_eq!((&report["pass"], &report["different"]), (&true.into(), &0.into()), "{report}");
    let commands = report["compared"].as_array().unwrap();
    assert_eq!(report["commands"].as_u64(), Some(commands.len() as u64));
    assert!(commands.iter().all(|command| command["elements"].as_u64() > Some(0)), "{report}");
    assert_eq!(report["outputs"][0]["pass"], true);
}

#[test]
#[cfg(not(target_vendor = "apple"))]
fn without_a_metal_device_that_is_said() {
    for arguments in [vec!["run", "--compare"], vec!["selftest"]] {
        let mut command = etmetal();
        command.args(&arguments);
        if arguments[0] == "run" {
            command.arg(fixture("mlp"));
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains("there is no Metal device here"), "{}", text(&output));
    }
}

#[test]
fn the_host_device_passes_its_self_test() {
    let models = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(fixture("split_cat"), models.path().join("split_cat")).unwrap();
    let output = etmetal()
        .args(["selftest", "--device", "host", "--json", "--models"])
        .arg(models.path())
        .output()
        .unwrap();
    let report = json(&output);
    let failed: Vec<_> =
        report["checks"].as_array().unwrap().iter().filter(|c| c["outcome"] == "FAIL").collect();
    assert!(output.status.success() && failed.is_empty(), "{failed:#?}");
    assert_eq!(report["device"]["kind"], "host");
    assert!(report["passed"].as_u64() > Some(100), "{report}");
    let model = report["checks"].as_array().unwrap().iter().find(|c| c["group"] == "model");
    assert_eq!(model.unwrap()["outcome"], "PASS");
    // A folder that is none ends it.
    let output =
        etmetal().args(["selftest", "--device", "host", "--models", "/nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("cannot read /nowhere"), "{}", text(&output));
}
