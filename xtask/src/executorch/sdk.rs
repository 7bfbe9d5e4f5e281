//! The official SDK: the headers, libraries and CMake package in ExecuTorch's Python wheel.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::preset::Preset;
use crate::process::Invocation;
use crate::steps::{Action, Input, Step};
use crate::toolchain::{apple, linux};
use crate::venv::{self, Lock, Venv};
use crate::workspace::Workspace;

/// How pip is asked for the wheel for another machine, besides its platform. The oldest Python that
/// may be left: the libraries are the same for all.
const ANY_PYTHON: [&str; 6] =
    ["--implementation", "cp", "--python-version", "3.11", "--abi", "cp311"];

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
    name: &'static str,
    key: String,
    folder: PathBuf,
    /// What wheels for the machine are tagged with.
    platform: String,
    /// The requirement with its hashes.
    requirement: String,
    pip: Invocation,
}

impl Sdk {
    /// The SDK for `preset`: the one in `venv`, or that of the other machine: for Apple systems
    /// that of Macs. iOS takes the headers of the same one.
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
        let is_apple = apple::is_cross(preset);
        let (name, key, folder, platform) = match is_apple {
            true => (
                "ExecuTorch SDK for Macs",
                "sdk-apple".to_owned(),
                workspace.target.join("apple/executorch"),
                "macosx_14_0_arm64".to_owned(),
            ),
            false if linux::is_cross(preset) => (
                "ExecuTorch SDK for the other Linux",
                format!("sdk-{}", preset.target),
                workspace.target.join("linux").join(&preset.target).join("executorch"),
                format!("manylinux_2_28_{}", linux::processor(&preset.target)),
            ),
            false => return Ok(Self::at(venv, &preset.host)),
        };
        let requirement = lock.requirement("executorch").with_context(none)?;
        let root = folder.join("executorch");
        let fetch = Fetch { name, key, folder, platform, requirement, pip: venv.pip() };
        Ok(Self { root, is_apple, fetch: Some(fetch) })
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
    pub fn key(&self) -> &str {
        self.fetch.as_ref().map_or(venv::KEY, |fetch| &fetch.key)
    }

    /// Fetches it, where it is not that of the Python environment.
    pub fn fetch_step(&self) -> Option<Step> {
        let Fetch { name, key, folder, platform, requirement, pip } = self.fetch.as_ref()?;
        let file: &Path = &folder.with_extension("txt");
        let install = pip
            .clone()
            .args(["--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-compile"])
            .args(["--platform", platform.as_str()])
            .args(ANY_PYTHON)
            .arg("--target")
            .arg(folder)
            .arg("-r")
            .arg(file);
        Some(Step {
            name,
            key: key.clone(),
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
