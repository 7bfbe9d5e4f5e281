//! The program on presets with mistakes, and what it writes for CMake.

use std::path::Path;
use std::process::{Command, Output};

/// `cargo xtask ARGS`, where no tool can be started.
fn xtask_without_tools(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let nowhere = "/nonexistent/bin";
    command.args(args).env("PATH", nowhere).env("CARGO", format!("{nowhere}/cargo"));
    command.env("RUSTC", format!("{nowhere}/rustc")).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_build_tells_every_mistake_before_any_tool_is_started() {
    let mistakes = [
        "toolchain.cx=g++",
        "build.profile",
        "executorch.from=wheel",
        "link.openmp=homebew",
        "executorch.options.BUILD_VULKAN=on",
        "executorch.options.BUILD_XNPACK=on",
        "backend.metal=upstrem",
    ];
    let defines = mistakes.iter().flat_map(|mistake| ["-D", mistake]);
    let args: Vec<_> = ["build", "--preset", "metal"].into_iter().chain(defines).collect();
    let output = xtask_without_tools(&args);
    assert!(!output.status.success());
    let errors = text(&output.stderr);
    for mistake in mistakes {
        assert!(errors.contains(&format!("error: -D {mistake}: ")), "{mistake}\n{errors}");
    }
    assert!(errors.contains("cannot be used: 7 faults"), "{errors}");
}

#[test]
fn seven_mistakes_of_a_file_are_seven_places_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seven.toml");
    let lines = concat!(
        "[preset]\nname = \"seven\"\ninherits = [\"metal\", \"metla\"]\n",
        "[executorch]\nfrom = \"git\"\n[executorch.options]\n",
        "BUILD_EXTENSION_LLM_RUNNER = true\nBUILD_XNPACK = true\nLOG_LEVEL = \"Loud\"\n",
        "[toolchain]\ngenrator = \"Ninja\"\ncxx = 3\n",
        "[target.aarch64-apple-dawrin.link]\nflags = []\n",
    );
    std::fs::write(&file, lines).unwrap();
    let output = xtask_without_tools(&["preset", "check", file.to_str().unwrap()]);
    assert!(!output.status.success());
    let errors = text(&output.stderr);
    let places: Vec<_> =
        errors.lines().filter(|line| line.trim_start().starts_with("-->")).collect();
    assert_eq!(places.len(), 7, "{errors}");
    for line in [3, 7, 8, 9, 11, 12, 13] {
        let place = format!("seven.toml:{line}:");
        assert!(places.iter().any(|found| found.contains(&place)), "{line}\n{errors}");
    }
}

#[test]
fn the_presets_of_the_repository_are_good() {
    let output = xtask_without_tools(&["preset", "check"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("ok: presets/metal-upstream.toml (macos)\n"));
}

#[test]
fn cmake_reads_the_presets_that_are_written_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.28)\nproject(x NONE)\n");
    let file = folder.path().join("CMakeUserPresets.json");
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).current_dir(folder.path()).output();
        let output = output.unwrap_or_else(|e| panic!("{program}: {e}: use `cargo xtask test`"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let export = ["preset", "export-cmake", "--output", file.to_str().unwrap()];
    let told = run(env!("CARGO_BIN_EXE_xtask"), &export);
    assert!(told.contains("left out: llm-metal "), "{told}");
    let listed = run("cmake", &["--list-presets"]);
    for name in ["metal", "metal-debug", "sanitize"] {
        assert!(listed.contains(&format!("\"{name}\"")), "{listed}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let debug = json["configurePresets"].as_array().unwrap().iter();
    let debug = debug.into_iter().find(|preset| preset["name"] == "metal-debug").unwrap();
    assert_eq!(debug["generator"], "Ninja");
    assert_eq!(debug["cacheVariables"]["CMAKE_BUILD_TYPE"], "Debug");
    let folder = debug["binaryDir"].as_str().unwrap();
    assert!(Path::new(folder).is_absolute() && folder.contains("metal-debug"), "{folder}");
}
