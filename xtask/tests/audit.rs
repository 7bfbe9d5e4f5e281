//! `cargo xtask audit` as people and CI run it: exit codes and reports.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/mlp/model.pte")
}

fn audit(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("audit").args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn an_error_is_exit_code_1_and_in_every_report() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (sarif, record, model) = (at("x/a.sarif"), at("x/a.json"), fixture());
    let model = model.to_str().unwrap();
    // The model in it is for Linux, whatever this machine is.
    let target = ["--target", "aarch64-apple-darwin"];
    let output = audit(&[&[model, "--sarif", &sarif, "--record", &record], &target[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let table = text(&output);
    assert!(table.contains("but aarch64-apple-darwin needs Mach-O arm64"), "{table}");
    let read = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    assert_eq!(read(&sarif)["runs"][0]["results"][0]["ruleId"], "architecture");
    assert_eq!(read(&record)["files"][0]["images"][0]["findings"][0]["rule"], "architecture");
    let output = audit(&[&[model, "--json"], &target[..]].concat());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["ok"], &json["errors"]), (&false.into(), &1.into()));
}

#[test]
fn what_is_no_library_is_an_error_and_no_crash() {
    let output = audit(&[env!("CARGO_MANIFEST_PATH"), "not/there"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let table = text(&output);
    assert!(table.contains("neither ELF, Mach-O, an archive nor a .pte"), "{table}");
    assert!(table.contains("cannot read not/there"), "{table}");
    assert!(table.ends_with("2 files audited: 2 errors, 0 warnings, 0 notes\n"), "{table}");
    assert_eq!(audit(&["x", "--target", "vax"]).status.code(), Some(2));
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_good_model_is_exit_code_0() {
    let output = audit(&[fixture().to_str().unwrap(), "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        text(&output).ends_with("1 file audited: 0 errors, 0 warnings, 0 notes\n"),
        "{}",
        text(&output)
    );
}
