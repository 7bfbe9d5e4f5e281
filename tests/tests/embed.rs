//! The two other ways to have etmetal in a program: the installed CMake package, and the crate
//! with the backend inside.

use std::path::{Path, PathBuf};
use std::process::Command;

use etmetal_tests::stage::{fixture, repository, stage, text};

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    let text = text(&output);
    assert!(output.status.success(), "{command:?}:\n{text}");
    text
}

/// The ExecuTorch package of the Python that built the stage.
fn executorch() -> PathBuf {
    let python = std::env::var_os("ETMETAL_PYTHON")
        .expect("ETMETAL_PYTHON names no Python with ExecuTorch: run `cargo xtask test`");
    let program = "import importlib.util as u; \
                   print(u.find_spec('executorch').submodule_search_locations[0])";
    PathBuf::from(run(Command::new(python).args(["-I", "-c", program])).trim())
}

#[test]
fn a_cmake_project_finds_the_package_and_runs_a_model_with_it() {
    let build = tempfile::tempdir().unwrap();
    run(Command::new("cmake")
        .args(["-G", "Ninja", "-S"])
        .arg(repository().join("tests/consumer"))
        .arg("-B")
        .arg(build.path())
        .arg(format!("-DCMAKE_PREFIX_PATH={}", stage().display())));
    run(Command::new("cmake").arg("--build").arg(build.path()));
    let told = run(Command::new(build.path().join("consumer")).arg(model()));
    assert_eq!(told, "forward: 1 inputs, 1 outputs\n");
}

#[test]
fn a_rust_program_has_the_backend_inside() {
    let told = run(Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--profile", "checked", "-p", "etmetal"])
        .args(["--features", "executorch", "--example", "embed", "--"])
        .arg(model())
        .current_dir(repository())
        .env("CMAKE_GENERATOR", "Ninja")
        .env("ETMETAL_EXECUTORCH", executorch()));
    assert_eq!(told, "forward: 1 inputs, 1 outputs, on MetalBackend\n");
}

fn model() -> PathBuf {
    Path::new(&fixture("mlp")).join("model.pte")
}
