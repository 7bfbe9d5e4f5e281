//! The Rust side: the static library that CMake links, and the `etmetal` program.

use std::path::PathBuf;

use crate::preset::Preset;
use crate::process::Invocation;
use crate::steps::{Action, Input, Step};
use crate::toolchain::rust::Rust;
use crate::workspace::{Workspace, cargo};

/// The cargo feature that the program needs.
const PROGRAM_FEATURE: &str = "cli";

/// Variables of the environment that change what cargo makes.
const VARIABLES: [&str; 12] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "AR",
    "LDFLAGS",
    "SDKROOT",
    "MACOSX_DEPLOYMENT_TARGET",
];

/// The values of `names` in this process's environment as inputs of a step.
pub fn variables(names: &[&str]) -> Vec<Input> {
    names
        .iter()
        .filter_map(|name| Some((*name, std::env::var(name).ok()?)))
        .map(|(name, value)| Input::Value(format!("the variable {name}"), value))
        .collect()
}

/// The steps of one preset's Rust side.
#[derive(Debug)]
pub struct RustBuild<'a> {
    /// The working copy.
    pub workspace: &'a Workspace,
    /// The preset.
    pub preset: &'a Preset,
    /// The compiler.
    pub rust: &'a Rust,
}

impl RustBuild<'_> {
    fn folder(&self) -> PathBuf {
        self.workspace.target.join(self.preset.build.cargo_folder())
    }

    /// `libetmetal.a`.
    pub fn library(&self) -> PathBuf {
        self.folder().join("libetmetal.a")
    }

    /// The program `etmetal`.
    pub fn program(&self) -> PathBuf {
        self.folder().join("etmetal")
    }

    /// The key of the step that makes the library.
    pub fn library_key(&self) -> String {
        format!("rust-library-{}", self.preset.build.cargo_folder())
    }

    /// The key of the step that makes the program.
    pub fn program_key(&self) -> String {
        format!("rust-program-{}", self.preset.build.cargo_folder())
    }

    /// Makes the library.
    pub fn library_step(&self) -> Step {
        let invocation = self.cargo_build(&["--lib"], &[]);
        self.step("Rust library", self.library_key(), invocation, self.library())
    }

    /// Makes the program.
    pub fn program_step(&self) -> Step {
        let invocation = self.cargo_build(&["--bin", "etmetal"], &[PROGRAM_FEATURE]);
        self.step("Rust program", self.program_key(), invocation, self.program())
    }

    fn cargo_build(&self, what: &[&str], features: &[&str]) -> Invocation {
        let profile = &self.preset.build.profile.value;
        let chosen = self.preset.build.features.iter().map(String::as_str);
        let features: Vec<_> = features.iter().copied().chain(chosen).collect();
        let mut invocation = cargo(&self.workspace.root).without_env("CARGO_BUILD_TARGET");
        invocation = match profile.as_str() {
            "release" => invocation.args(["build", "--release"]),
            profile => invocation.args(["build", "--profile", profile]),
        };
        invocation = invocation.args(["-p", "etmetal"]).args(what.iter().copied());
        if features.is_empty() {
            invocation
        } else {
            invocation.arg("--features").arg(features.join(","))
        }
    }

    fn step(&self, name: &'static str, key: String, run: Invocation, output: PathBuf) -> Step {
        let sources =
            ["runtime", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"];
        let mut inputs: Vec<_> =
            sources.iter().map(|path| Input::Path(self.workspace.root.join(path))).collect();
        inputs.push(Input::Value("rustc".into(), self.rust.verbose_version.clone()));
        inputs.extend(variables(&VARIABLES));
        Step {
            name,
            key,
            inputs,
            actions: vec![Action::Run(run)],
            outputs: vec![output],
            hint: "see the compiler's messages in the log, or run the command above by hand"
                .to_owned(),
        }
    }
}
