//! What the command tells.

use std::os::unix::fs::PermissionsExt as _;

use etmetal_tests::stage::{etmetal, fixture, text};
use serde_json::Value;

fn json(arguments: &[&str], model: &str) -> Value {
    let output = etmetal().args(arguments).arg(fixture(model)).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)))
}

#[test]
fn run_counts_what_the_delegate_did() {
    let report = json(&["run", "--json", "--stats", "--repeat", "3"], "mlp");
    assert_eq!(report["pass"], true, "{report}");
    let stats = &report["stats"];
    assert_eq!(stats["enabled"], true, "{stats}");
    let forward = &stats["methods"]["forward"];
    assert!(forward.is_object(), "{stats}");
    let text = forward.to_string();
    assert!(text.contains("execute") && text.contains("init"), "{text}");
    assert!(!stats["devices"].as_array().unwrap().is_empty(), "{stats}");
}

#[test]
fn inspect_tells_methods_kernels_and_symbols() {
    let report = json(&["inspect", "--json"], "mlp").to_string();
    for part in ["forward", "generated_kernel", "aoti_torch_mps_mm_out", "thread_position_in_grid"]
    {
        assert!(report.contains(part), "inspect does not tell {part}: {report}");
    }
}

#[test]
fn inspect_tells_how_kernels_run() {
    let output = etmetal().args(["inspect", "--kernels"]).arg(fixture("cnn")).output().unwrap();
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("generated_kernel  plain") && told.contains("  fission "), "{told}");
}

#[test]
fn inspect_and_run_tell_of_loops_that_do_not_compile() {
    let dir = tempfile::tempdir().unwrap();
    let clang = dir.path().join("clang");
    // The real compiler, but for the loops of kernels, which it refuses.
    let script = "#!/bin/sh\n\
        for version in -22 -21 -20 -19 -18 -17 -16 -15 ''; do\n\
        real=clang++$version; command -v $real > /dev/null && break; done\n\
        case \"$*\" in *-shared*) ;; *) exec $real \"$@\" ;; esac\n\
        unit=$(cat)\ncase \"$unit\" in\n\
        *MSL_ROWS_ENTRY*) echo 'entry:1:1: error: no loops here' >&2; exit 1 ;;\nesac\n\
        printf '%s' \"$unit\" | $real \"$@\"\n";
    std::fs::write(&clang, script).unwrap();
    std::fs::set_permissions(&clang, std::fs::Permissions::from_mode(0o755)).unwrap();
    let with_clang = |arguments: &[&str]| {
        let output = etmetal()
            .args(arguments)
            .arg(fixture("layernorm"))
            .env("ETMETAL_DEVICE", "host")
            .env("ETMETAL_CLANG", &clang)
            .env("ETMETAL_CACHE", dir.path().join("cache"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    };
    let told = with_clang(&["inspect", "--kernels"]);
    let expected = "generated_kernel  fibers: its loops do not compile: ";
    assert!(told.contains(expected) && told.contains("no loops here"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    let told = with_clang(&["run"]);
    let expected = "warning: the loops of kernel \"generated_kernel\" do not compile";
    assert!(told.contains(expected) && told.contains("no loops here"), "{told}");
}

#[test]
fn inspect_writes_the_shaders() {
    let dir = tempfile::tempdir().unwrap();
    let output = etmetal()
        .args(["inspect", "--dump-msl"])
        .arg(dir.path())
        .arg(fixture("mlp"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let sources: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert_eq!(sources.len(), 3);
    assert!(sources.iter().all(|source| source.contains("kernel void generated_kernel")));
}

#[test]
fn missing_inputs_are_made_and_said_so() {
    let output = etmetal().arg("run").arg(fixture("mlp").join("model.pte")).output().unwrap();
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("random") || told.contains("seed"), "{told}");
}

#[test]
fn usage_errors_have_a_code_of_their_own() {
    assert_eq!(etmetal().arg("fly").output().unwrap().status.code(), Some(2));
}
