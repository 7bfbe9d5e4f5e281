//! ExecuTorch built from source with the delegate as a part of it: real CMake, Ninja and compiler
//! on a small tree in the shape of ExecuTorch's.

mod bench;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bench::{Bench, fixture};
use xtask::cmake::file_api::Model;
use xtask::preset::{Origin, Sourced, Value};
use xtask::process::Invocation;

const PORTABLE: &str = "executorch.options.BUILD_PORTABLE_OPS=OFF";

/// Without the delegate nothing stands in for the kernels that ExecuTorch's runner names.
const RUNNER: &str = "executorch.options.BUILD_EXECUTOR_RUNNER=OFF";

#[test]
fn a_source_tree_gives_the_delegate_in_a_library_and_in_its_own_programs() {
    let mut bench = Bench::new(&[PORTABLE]);
    let launcher = recording_launcher(&bench.folder);
    bench.launcher = Some(launcher.clone());
    assert!(bench.build().unwrap());
    programs_of_the_tree_hold_the_backend(&bench);
    the_stage_runs_a_model(&bench);
    every_compilation_goes_through_the_launcher(&bench, &launcher);
    editors_find_how_sources_are_compiled(&bench);
    nothing_changed_is_nothing_done(&bench);
    a_broken_source_is_told_and_repaired(&bench);
}

fn model(bench: &Bench) -> Model {
    Model::read(&bench.build_folder()).unwrap()
}

fn programs_of_the_tree_hold_the_backend(bench: &Bench) {
    let model = model(bench);
    let runner = model.target("executor_runner").unwrap();
    assert_eq!(runner.kind, "EXECUTABLE");
    let says = Invocation::new(&runner.artifacts[0]).read().unwrap();
    assert_eq!(says, "registered 1, available 1, exported 1\n");
    assert_eq!(model.target("metal_backend").unwrap().kind, "STATIC_LIBRARY");
    assert_eq!(model.target("etmetal").unwrap().kind, "SHARED_LIBRARY");
}

fn the_stage_runs_a_model(bench: &Bench) {
    let stage = bench.stage();
    for file in [
        "lib/libmetal_backend.a",
        "lib/libetmetal.a",
        "lib/cmake/ExecuTorch/ExecuTorchTargets.cmake",
        "lib/cmake/etmetal/etmetal-config.cmake",
        "include/etmetal_runner.h",
    ] {
        assert!(stage.root().join(file).is_file(), "{file}");
    }
    let text = Invocation::new(stage.program()).arg("run").arg(fixture("mlp")).read().unwrap();
    assert!(text.contains("PASS"), "{text}");
    let targets = stage.root().join("lib/cmake/ExecuTorch/ExecuTorchTargets.cmake");
    let targets = std::fs::read_to_string(targets).unwrap();
    let here = bench.folder.display().to_string();
    assert!(!targets.contains(&here), "the package names the folder that it was built in");
}

/// A program that notes its arguments and then becomes what they say.
fn recording_launcher(folder: &Path) -> PathBuf {
    let path = folder.join("launcher");
    let log = folder.join("launched");
    let script = format!("#!/bin/sh\necho \"$@\" >> '{}'\nexec \"$@\"\n", log.display());
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn every_compilation_goes_through_the_launcher(bench: &Bench, launcher: &Path) {
    let launched = std::fs::read_to_string(launcher.with_file_name("launched")).unwrap();
    for source in ["glue.cpp", "runner.cpp", "runtime/core.cpp"] {
        assert!(launched.lines().any(|line| line.ends_with(source)), "{source} of {launched}");
    }
    let ninja = std::fs::read_to_string(bench.build_folder().join("build.ninja")).unwrap();
    let rules = std::fs::read_to_string(bench.build_folder().join("CMakeFiles/rules.ninja"));
    let all = ninja + &rules.unwrap_or_default();
    assert!(all.contains(&launcher.display().to_string()));
}

fn editors_find_how_sources_are_compiled(bench: &Bench) {
    let text = std::fs::read_to_string(bench.workspace.compile_commands()).unwrap();
    let commands: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let files: Vec<_> = commands.iter().filter_map(|entry| entry["file"].as_str()).collect();
    assert!(files.iter().any(|file| file.ends_with("runtime/cpp/glue.cpp")), "{files:?}");
}

fn nothing_changed_is_nothing_done(bench: &Bench) {
    let library = std::fs::metadata(bench.stage().library()).unwrap().modified().unwrap();
    assert!(!bench.build().unwrap(), "Ninja looks for changes and finds none");
    assert_eq!(std::fs::metadata(bench.stage().library()).unwrap().modified().unwrap(), library);
}

fn a_broken_source_is_told_and_repaired(bench: &Bench) {
    let source = bench.tree().join("runtime/core.cpp");
    let good = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, "int small_tree_core() { return nothing; }\n").unwrap();
    let error = bench.build().unwrap_err().to_string();
    let place = format!("{}:1:", source.display());
    assert!(error.starts_with("step \"ExecuTorch and libetmetal\" failed: "), "{error}");
    assert!(error.contains("the compiler says:\n  | ") && error.contains(&place), "{error}");
    assert!(error.contains("The whole output is in ") && error.contains("compile-"), "{error}");
    assert!(bench.stage().library().is_file(), "the stage is as it was");
    std::fs::write(&source, format!("{good}int another;\n")).unwrap();
    assert!(bench.build().unwrap());
    assert!(!bench.build().unwrap());
}

#[test]
fn an_option_that_executorch_refuses_is_told_with_its_place() {
    let mut bench = Bench::new(&[PORTABLE]);
    // Past the check of the preset, which would tell it earlier.
    let option = Sourced {
        value: Value::Bool(true),
        origin: Origin::CommandLine("executorch.options.BUILD_EXTENSION_TRAINING=ON".into()),
    };
    bench.preset.executorch.options.insert("BUILD_EXTENSION_TRAINING".into(), option);
    let error = bench.build().unwrap_err().to_string();
    let says = "  | tools/cmake/options.cmake:16: EXECUTORCH_BUILD_EXTENSION_TRAINING needs \
                EXECUTORCH_BUILD_DEVTOOLS\n";
    assert!(error.contains(&format!("CMake says:\n{says}The whole output is in ")), "{error}");
}

#[test]
fn upstream_means_executorchs_own_backend_and_off_means_none() {
    let mut bench = Bench::new(&[PORTABLE, RUNNER, "backend.metal=off"]);
    assert!(bench.build().unwrap());
    assert!(model(&bench).target("metal_backend").is_none());
    assert!(!bench.stage().library().exists() && !bench.stage().program().exists());
    let core = bench.stage().root().join("lib/libexecutorch_core.a");
    assert!(core.is_file(), "ExecuTorch itself is staged");

    // Past the check of the preset; CMake's answer is the tree's own.
    bench.preset.backend.metal.value = xtask::preset::backend::Metal::Upstream;
    let error = bench.build().unwrap_err().to_string();
    assert!(error.contains("ExecuTorch's own Metal backend requires macOS"), "{error}");
}

#[test]
fn a_git_revision_is_fetched_once_and_built() {
    let remote = tempfile::tempdir().unwrap();
    bench::copy_tree(remote.path());
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        let git = Invocation::new("git").args(who).arg("-C").arg(remote.path());
        git.args(args.iter().copied()).read().unwrap().trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["add", "-A"]);
    git(&["commit", "--quiet", "-m", "one"]);
    git(&["tag", "v1"]);
    let url = format!("executorch.url=file://{}", remote.path().display());
    let from_git = |rev: &str| {
        let rev = format!("executorch.rev={rev}");
        Bench::of_git(&[PORTABLE, RUNNER, "backend.metal=off", "executorch.from=git", &url, &rev])
    };
    let bench = from_git("v1");
    assert!(bench.build().unwrap());
    assert!(bench.tree().join("CMakeLists.txt").is_file());
    assert!(bench.tree().starts_with(&bench.workspace.target));
    assert!(!bench.build().unwrap(), "a revision does not change: not even Ninja is asked");
    let gone = from_git("v2").build().unwrap_err().to_string();
    assert!(gone.starts_with("step \"ExecuTorch's sources\" failed: "), "{gone}");
    assert!(gone.contains("have no commit, tag or branch v2"), "{gone}");
}
