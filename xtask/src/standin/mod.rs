//! The tests of the Metal device on the stand-in for Metal. They are a build of their own:
//! `runtime/standin/README.md` says why.

pub mod faults;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::commands::build::Built;
use crate::environment::Environment;
use crate::process::Invocation;
use crate::toolchain::rust::Rust;
use crate::toolchain::{Memory, msl};
use crate::workspace::{Workspace, cargo};

/// Where the stand-in runs.
pub const HOST: &str = "x86_64-unknown-linux-gnu";

/// The newest system that the device tells apart.
pub const NEW_MACOS: &str = "15.0";

/// An older one.
pub const OLD_MACOS: &str = "14.5";

/// What the tests are built and run with.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The working copy.
    pub workspace: Workspace,
    /// The system that the compiler runs on.
    host: String,
    /// `PATH`, where compilers are found.
    pub path: OsString,
}

impl Tools {
    /// Those of the machine, if it has a compiler of shaders; then nothing has to be built or
    /// fetched first.
    ///
    /// # Errors
    /// The sources have moved; the compiler of Rust does not answer; `ETMETAL_CLANG` is no clang.
    pub fn of_machine() -> Result<Option<Tools>> {
        let environment = Environment::current();
        let workspace = Workspace::find()?;
        let memory = Memory::load(workspace.state().join("tools.json"));
        if msl::find_clang(&environment, &memory)?.is_none() {
            return Ok(None);
        }
        let host = Rust::find(&workspace, &memory)?.host;
        let path = std::env::var_os("PATH").unwrap_or_default();
        Ok(Some(Tools { workspace, host, path }))
    }

    /// Those of a build.
    pub fn of_build(built: &Built) -> Tools {
        let host = built.rust.host.clone();
        Tools { workspace: built.workspace.clone(), host, path: built.path() }
    }

    /// Whether the stand-in runs here.
    ///
    /// # Errors
    /// It does not.
    pub fn check_host(&self) -> Result<()> {
        let host = &self.host;
        ensure!(host == HOST, "the stand-in for Metal runs on {HOST}, this is {host}");
        Ok(())
    }

    /// Where it is built.
    pub fn target(&self) -> PathBuf {
        self.workspace.target.join("standin")
    }

    /// `cargo COMMAND` for the stand-in.
    pub fn cargo(&self, command: &str) -> Invocation {
        cargo_for(&self.workspace.root, &self.target(), &self.path, command)
    }
}

/// `cargo COMMAND` for the stand-in of the sources at `root`, built in `target`. Compilers are
/// found in `path`.
pub fn cargo_for(root: &Path, target: &Path, path: &OsStr, command: &str) -> Invocation {
    cargo(root)
        .args([command, "--package", "etmetal-standin", "--target", HOST])
        .env("RUSTC_WRAPPER", root.join("runtime/standin/rustc-standin"))
        .env("RUSTFLAGS", "--cfg metal_standin")
        .env("ETMETAL_STANDIN_SOURCES", target.join("sources"))
        .env("ETMETAL_STANDIN_MACOS", NEW_MACOS)
        .env("MACOSX_DEPLOYMENT_TARGET", "14.0")
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env("PATH", path)
}
