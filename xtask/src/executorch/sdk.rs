//! The official SDK: the headers, libraries and CMake package in ExecuTorch's Python wheel.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::preset::Preset;
use crate::venv::{Lock, Venv};

/// The SDK in an environment, installed or to be installed.
#[derive(Debug, Clone)]
pub struct Sdk {
    /// Its folder; CMake finds its package from here.
    pub root: PathBuf,
    /// Whether its libraries are those of an Apple system.
    is_apple: bool,
}

impl Sdk {
    /// The SDK in `venv`.
    ///
    /// # Errors
    /// The preset wants another version than the lock file has.
    pub fn new(preset: &Preset, venv: &Venv, lock: &Lock) -> Result<Self> {
        let locked = lock
            .version_of("executorch")
            .with_context(|| format!("{} pins no executorch", lock.path.display()))?;
        if let Some(wanted) = &preset.executorch.version {
            ensure!(
                wanted.value == locked,
                "{}: the preset wants ExecuTorch {}, but {} pins {locked}: change one of them",
                wanted.origin,
                wanted.value,
                lock.path.display()
            );
        }
        Ok(Self::at(venv, &preset.host))
    }

    /// Where the SDK for the machine `host` (`linux`, `macos`) lies in `venv`.
    pub fn at(venv: &Venv, host: &str) -> Self {
        Self { root: venv.site_packages().join("executorch"), is_apple: host == "macos" }
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
}
