//! The C++ side: ExecuTorch's glue, linked with the Rust library into libetmetal.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::executorch::Sdk;
use crate::linkage::{self, Linkage};
use crate::preset::Preset;
use crate::process::Invocation;
use crate::rust_build::{RustBuild, variables};
use crate::steps::{Action, Input, Step};
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
    pub sdk: &'a Sdk,
    /// The C++ compiler.
    pub cxx: &'a Path,
    /// The triple of the target.
    pub triple: &'a str,
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
        let lists = self.source().join("CMakeLists.txt");
        ensure!(lists.is_file(), "{} is missing: is the working copy whole?", lists.display());
        Ok(())
    }

    fn source(&self) -> PathBuf {
        self.rust.workspace.root.join("runtime")
    }

    /// CMake's build folder.
    pub fn folder(&self) -> PathBuf {
        self.rust.workspace.cmake(&self.preset().identity.name, self.triple)
    }

    /// Where the build is installed in the end.
    pub fn stage(&self) -> PathBuf {
        self.rust.workspace.stage(&self.preset().identity.name, self.triple)
    }

    fn key(&self, what: &str) -> String {
        format!("{what}-{}-{}", self.preset().identity.name, self.triple)
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
    pub fn configure_step(&self) -> Step {
        let mut inputs = vec![
            Input::Step(venv::KEY.to_owned()),
            Input::Path(self.source().join("CMakeLists.txt")),
            Input::Path(self.source().join("cmake")),
            Input::Path(self.rust.workspace.root.join("Cargo.toml")),
            Input::Value("the C++ compiler".into(), identity(self.cxx)),
        ];
        inputs.extend(variables(self.rust.environment, &VARIABLES));
        Step {
            name: "C++ configuration",
            key: self.key("configure"),
            inputs,
            actions: self
                .export_list()
                .into_iter()
                .chain([Action::Run(self.configure())])
                .collect(),
            outputs: vec![self.folder().join("CMakeCache.txt")],
            hint: "see CMake's messages in the log; `cargo xtask doctor` checks the tools"
                .to_owned(),
        }
    }

    /// Where the list of libetmetal's exports is written, if it is.
    fn exports(&self) -> PathBuf {
        self.folder().with_extension("exports")
    }

    fn export_list(&self) -> Vec<Action> {
        if !self.linkage.writes_exports() {
            return Vec::new();
        }
        let list = linkage::export_list(self.linkage.target, &self.preset().link.export);
        let folder = self.folder().parent().map(Path::to_owned).unwrap_or_default();
        vec![Action::MakeFolder(folder), Action::Write(self.exports(), list)]
    }

    fn configure(&self) -> Invocation {
        let toolchain = &self.preset().toolchain;
        let generator = &toolchain.generator.value;
        let mut invocation = self
            .cmake()
            .args(["--fresh", "-G", generator, "-S"])
            .arg(self.source())
            .arg("-B")
            .arg(self.folder());
        let mut define = |name: &str, value: OsString| {
            let mut text = OsString::from(format!("-D{name}="));
            text.push(value);
            invocation = invocation.clone().arg(text);
        };
        define("CMAKE_BUILD_TYPE", self.preset().build.cmake_type().into());
        define("CMAKE_CXX_COMPILER", self.cxx.into());
        if generator.starts_with("Ninja") {
            define("CMAKE_MAKE_PROGRAM", self.venv.program("ninja").into());
        }
        if let Some(launcher) = &toolchain.launcher {
            define("CMAKE_CXX_COMPILER_LAUNCHER", launcher.value.clone().into());
        }
        if !toolchain.cxxflags.is_empty() {
            define("CMAKE_CXX_FLAGS", toolchain.cxxflags.join(" ").into());
        }
        if !self.preset().link.flags.is_empty() {
            define("CMAKE_SHARED_LINKER_FLAGS", self.preset().link.flags.join(" ").into());
        }
        define("CMAKE_PREFIX_PATH", self.sdk.root.clone().into());
        define("CMAKE_INSTALL_PREFIX", self.stage().into());
        define("CMAKE_INSTALL_LIBDIR", "lib".into());
        define("ETMETAL_RUST_LIBRARY", self.rust.library().into());
        for (name, value) in self.linkage.cmake_definitions(&self.exports()) {
            define(name, value.into());
        }
        invocation
    }

    /// Compiles and links.
    pub fn compile_step(&self) -> Step {
        let library = if cfg!(target_os = "macos") { "libetmetal.dylib" } else { "libetmetal.so" };
        Step {
            name: "C++ glue and libetmetal",
            key: self.compile_key(),
            inputs: vec![
                Input::Step(self.key("configure")),
                Input::Step(self.rust.key()),
                Input::Path(self.source().join("cpp")),
                Input::Path(self.source().join("include")),
            ],
            actions: vec![Action::Run(
                self.cmake().arg("--build").arg(self.folder()).arg("--parallel"),
            )],
            outputs: vec![self.folder().join(library)],
            hint: "see the compiler's messages in the log".to_owned(),
        }
    }
}
