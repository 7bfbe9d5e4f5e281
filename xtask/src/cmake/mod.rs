//! The C++ side: ExecuTorch's glue, linked with the Rust library into libetmetal; or all of
//! ExecuTorch with that as a part of it.

mod configure;
pub mod file_api;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::executorch::Executorch;
use crate::linkage::{ExportList, Linkage};
use crate::preset::Preset;
use crate::process::Invocation;
use crate::rust_build::{RustBuild, variables};
use crate::steps::{Action, Input, Output, Step};
use crate::toolchain::identity;
use crate::venv::{self, Venv};

/// Variables of the environment that CMake reads.
const VARIABLES: [&str; 7] = [
    "CC",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "SDKROOT",
    "MACOSX_DEPLOYMENT_TARGET",
    "CMAKE_TOOLCHAIN_FILE",
];

/// The steps of one preset's C++ side.
#[derive(Debug)]
pub struct CmakeBuild<'a> {
    /// The Rust side.
    pub rust: &'a RustBuild<'a>,
    /// The environment with CMake and Ninja.
    pub venv: &'a Venv,
    /// ExecuTorch.
    pub executorch: &'a Executorch,
    /// The C++ compiler.
    pub cxx: &'a Path,
    /// The program that compilers are started with.
    pub launcher: Option<&'a Path>,
    /// The Python of the PyTorch in use.
    pub torch_python: Option<&'a Path>,
    /// How libetmetal is linked.
    pub linkage: &'a Linkage<'a>,
}

impl CmakeBuild<'_> {
    fn preset(&self) -> &Preset {
        self.rust.preset
    }

    /// Checks that there is something to build.
    ///
    /// # Errors
    /// `runtime/CMakeLists.txt` is not there.
    pub fn check(&self) -> Result<()> {
        let lists = self.runtime().join("CMakeLists.txt");
        ensure!(lists.is_file(), "{} is missing: is the working copy whole?", lists.display());
        Ok(())
    }

    fn runtime(&self) -> PathBuf {
        self.rust.workspace.root.join("runtime")
    }

    /// The CMake project: this one's, or ExecuTorch's with this one included.
    fn source(&self) -> PathBuf {
        match self.executorch {
            Executorch::Sdk(_) => self.runtime(),
            Executorch::Tree(tree) => tree.root.clone(),
        }
    }

    /// What adds this project's delegate to ExecuTorch's CMake project.
    fn project_include(&self) -> PathBuf {
        self.runtime().join("cmake/executorch-include.cmake")
    }

    /// CMake's build folder.
    pub fn folder(&self) -> PathBuf {
        self.rust.workspace.cmake(&self.preset().identity.name, &self.preset().target)
    }

    /// Where the build is installed in the end.
    pub fn stage(&self) -> PathBuf {
        self.rust.workspace.stage(&self.preset().identity.name, &self.preset().target)
    }

    /// The key of the step `what` of this preset and target.
    pub fn key(&self, what: &str) -> String {
        format!("{what}-{}-{}", self.preset().identity.name, self.preset().target)
    }

    /// The key of the step that compiles.
    pub fn compile_key(&self) -> String {
        self.key("compile")
    }

    /// CMake with the arguments of `args`.
    pub fn cmake(&self) -> Invocation {
        self.venv.run("cmake")
    }

    /// Configures the build folder anew.
    ///
    /// # Errors
    /// The preset's options contradict what it builds.
    pub fn configure_step(&self) -> Result<Step> {
        let mut inputs = vec![
            Input::Step(match self.executorch {
                Executorch::Sdk(sdk) => sdk.key().to_owned(),
                Executorch::Tree(_) => venv::KEY.to_owned(),
            }),
            Input::Path(self.runtime().join("CMakeLists.txt")),
            Input::Path(self.runtime().join("cmake")),
            Input::Path(self.rust.workspace.root.join("Cargo.toml")),
        ];
        if let Executorch::Tree(tree) = self.executorch
            && tree.remote.is_some()
        {
            inputs.push(tree.input());
        }
        inputs.push(match self.rust.toolchain {
            // It is still to be written when a first build is planned.
            Some(toolchain) => Input::Step(toolchain.key()),
            None => Input::Value("the C++ compiler".into(), identity(self.cxx)),
        });
        inputs.extend(variables(self.rust.environment, &VARIABLES));
        let mut actions = file_api::query(&self.folder());
        actions.push(Action::Run(self.configure()?));
        Ok(Step {
            name: match self.executorch {
                Executorch::Sdk(_) => "C++ configuration",
                Executorch::Tree(_) => "ExecuTorch's configuration",
            },
            key: self.key("configure"),
            inputs,
            actions,
            outputs: vec![self.folder().join("CMakeCache.txt").into()],
            hint: "see CMake's messages in the log; `cargo xtask doctor` checks the tools"
                .to_owned(),
        })
    }

    /// Where the list of libetmetal's exports is written, if it is.
    fn exports(&self) -> PathBuf {
        self.folder().with_extension("exports")
    }

    /// Writes that list. What is exported follows from the Rust side, so it is written where that
    /// is linked.
    fn export_list(&self) -> Option<Action> {
        (self.has_etmetal() && self.linkage.writes_exports()).then(|| {
            Action::Exports(ExportList {
                file: self.exports(),
                target: self.linkage.target.clone(),
                more: self.preset().link.export.clone(),
            })
        })
    }

    /// Compiles and links.
    pub fn compile_step(&self) -> Step {
        let mut inputs = vec![Input::Step(self.key("configure"))];
        let mut required = Vec::new();
        if self.has_etmetal() {
            inputs.push(Input::Step(self.rust.key()));
            inputs.push(Input::Path(self.runtime().join("cpp")));
            inputs.push(Input::Path(self.runtime().join("include")));
            if self.has_shared() {
                required.push("etmetal".to_owned());
            }
            if self.has_archive() {
                required.push("etmetal_archive".to_owned());
            }
        }
        let build = self.cmake().arg("--build").arg(self.folder()).arg("--parallel");
        let mut actions: Vec<_> =
            self.export_list().into_iter().chain([Action::Run(build)]).collect();
        if self.writes_compile_commands() {
            let made = self.folder().join("compile_commands.json");
            actions.push(Action::Copy(made, self.rust.workspace.compile_commands()));
        }
        let name = match self.executorch {
            Executorch::Sdk(_) => "C++ glue and libetmetal",
            Executorch::Tree(tree) => {
                inputs.push(tree.input());
                required.push("executorch_core".to_owned());
                if self.has_etmetal() { "ExecuTorch and libetmetal" } else { "ExecuTorch" }
            }
        };
        Step {
            name,
            key: self.compile_key(),
            inputs,
            actions,
            outputs: vec![Output::CmakeTargets { build: self.folder(), required }],
            hint: "see the compiler's messages in the log".to_owned(),
        }
    }

    /// The C++ part of the delegate as a static library, where [`CmakeBuild::has_archive`].
    pub fn archive(&self) -> PathBuf {
        self.folder().join("libetmetal_archive.a")
    }

    /// The command that makes one static library of it and the Rust side.
    pub fn merge_archives(&self, to: &Path) -> Invocation {
        let merge = match self.rust.toolchain {
            Some(toolchain) => Invocation::new(toolchain.ar()).arg("qcDL").arg(to),
            None => Invocation::new("xcrun")
                .env("ZERO_AR_DATE", "1")
                .args(["libtool", "-static", "-no_warning_for_no_symbols", "-o"])
                .arg(to),
        };
        merge.arg(self.rust.library()).arg(self.archive())
    }

    /// Whether the generator writes `compile_commands.json`.
    fn writes_compile_commands(&self) -> bool {
        let generator = &self.preset().toolchain.generator.value;
        generator.starts_with("Ninja") || generator.contains("Makefiles")
    }
}
