//! The official SDK: the headers, libraries and CMake package in ExecuTorch's Python wheel.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::preset::Preset;
use crate::process::Invocation;
use crate::steps::{Action, Input, Step};
use crate::toolchain::apple;
use crate::venv::{self, Lock, Venv};
use crate::workspace::Workspace;

/// The wheel for Macs, as pip is asked for it on other machines. The oldest Python that may be
/// left: the libraries are the same for all.
const MACOS_WHEEL: [&str; 8] = [
    "--platform",
    "macosx_14_0_arm64",
    "--implementation",
    "cp",
    "--python-version",
    "3.11",
    "--abi",
    "cp311",
];

/// The SDK, installed or to be installed.
#[derive(Debug, Clone)]
pub struct Sdk {
    /// Its folder; CMake finds its package from here.
    pub root: PathBuf,
    /// Whether its libraries are those of an Apple system.
    is_apple: bool,
    /// How it is fetched, where it is not that of the Python environment.
    fetch: Option<Fetch>,
}

/// How an SDK for another machine is fetched.
#[derive(Debug, Clone)]
struct Fetch {
    folder: PathBuf,
    /// The requirement with its hashes.
    requirement: String,
    pip: Invocation,
}

impl Sdk {
    /// The SDK for `preset`: the one in `venv`, or, for Apple systems from elsewhere, that of
    /// Macs. iOS takes the headers of the same one.
    ///
    /// # Errors
    /// The preset wants another version than the lock file has.
    pub fn new(preset: &Preset, workspace: &Workspace, venv: &Venv, lock: &Lock) -> Result<Self> {
        let none = || format!("{} pins no executorch", lock.path.display());
        let locked = lock.version_of("executorch").with_context(none)?;
        if let Some(wanted) = &preset.executorch.version {
            ensure!(
                wanted.value == locked,
                "{}: the preset wants ExecuTorch {}, but {} pins {locked}: change one of them",
                wanted.origin,
                wanted.value,
                lock.path.display()
            );
        }
        if !apple::is_cross(preset) {
            return Ok(Self::at(venv, &preset.host));
        }
        let folder = workspace.target.join("apple/executorch");
        let requirement = lock.requirement("executorch").with_context(none)?;
        let pip = venv.pip();
        Ok(Self {
            root: folder.join("executorch"),
            is_apple: true,
            fetch: Some(Fetch { folder, requirement, pip }),
        })
    }

    /// Where the SDK for the machine `host` (`linux`, `macos`) lies in `venv`.
    pub fn at(venv: &Venv, host: &str) -> Self {
        let root = venv.site_packages().join("executorch");
        Self { root, is_apple: host == "macos", fetch: None }
    }

    /// Files of an installed SDK that a build cannot do without.
    pub fn files(&self) -> Vec<PathBuf> {
        let library = if self.is_apple { "libexecutorch.dylib" } else { "libexecutorch.so" };
        vec![
            self.root.join("lib/cmake/executorch/executorch-config.cmake"),
            self.root.join("lib").join(library),
            self.root.join("include/executorch/runtime/backend/interface.h"),
        ]
    }

    /// The key of the step that provides it.
    pub fn key(&self) -> &'static str {
        if self.fetch.is_some() { "sdk-apple" } else { venv::KEY }
    }

    /// Fetches it, where it is not that of the Python environment.
    pub fn fetch_step(&self) -> Option<Step> {
        let Fetch { folder, requirement, pip } = self.fetch.as_ref()?;
        let file: &Path = &folder.with_extension("txt");
        let install = pip
            .clone()
            .args(["--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-compile"])
            .args(MACOS_WHEEL)
            .arg("--target")
            .arg(folder)
            .arg("-r")
            .arg(file);
        Some(Step {
            name: "ExecuTorch SDK for Macs",
            key: self.key().to_owned(),
            inputs: vec![Input::Step(venv::KEY.to_owned())],
            actions: vec![
                Action::Remove(folder.clone()),
                Action::MakeFolder(folder.clone()),
                Action::Write(file.to_owned(), requirement.clone()),
                Action::Fetch(install),
            ],
            outputs: self.files().into_iter().map(Into::into).collect(),
            hint: "see the log; the network or a proxy may be in the way".to_owned(),
        })
    }
}
