//! The Python environment that holds the ExecuTorch SDK and its build tools.
//!
//! It is made under the target folder from lock files with hashes (`xtask/lock/`), and holds
//! nothing that a lock file does not name.

pub mod lock;
pub mod python;

pub use lock::Lock;
pub use python::Python;

use std::path::PathBuf;

use crate::process::Invocation;
use crate::steps::{Action, Input, Step};
use crate::workspace::Workspace;

/// The environment, made or to be made.
#[derive(Debug, Clone)]
pub struct Venv {
    root: PathBuf,
    base: Python,
}

/// The key of the step that makes the environment.
pub const KEY: &str = "venv";

impl Venv {
    /// The environment of `workspace`, to be made with the interpreter `base`.
    pub fn new(workspace: &Workspace, base: Python) -> Self {
        Self { root: workspace.venv(), base }
    }

    /// Its folder.
    pub fn root(&self) -> &std::path::Path {
        &self.root
    }

    /// The interpreter that it is made with.
    pub fn base(&self) -> &Python {
        &self.base
    }

    /// Its interpreter.
    pub fn python(&self) -> PathBuf {
        self.program("python")
    }

    /// A program in it.
    pub fn program(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }

    /// Where its packages are.
    pub fn site_packages(&self) -> PathBuf {
        let (major, minor) = (self.base.version.0, self.base.version.1);
        self.root.join(format!("lib/python{major}.{minor}/site-packages"))
    }

    /// An invocation of a program in it, untouched by the caller's Python settings.
    pub fn run(&self, program: &str) -> Invocation {
        Invocation::new(self.program(program)).without_env("PYTHONHOME").without_env("PYTHONPATH")
    }

    /// Makes the environment anew with the packages of `lock`; `outputs` are files of theirs.
    pub fn make_step(&self, lock: &Lock, outputs: Vec<PathBuf>) -> Step {
        let make = Invocation::new(&self.base.path).args(["-I", "-m", "venv"]).arg(&self.root);
        Step {
            name: "Python environment with the ExecuTorch SDK",
            key: KEY.to_owned(),
            inputs: vec![
                Input::Path(lock.path.clone()),
                Input::Value("Python".into(), self.base.version.to_string()),
            ],
            // What an interrupted installation left is not repaired but removed.
            actions: vec![
                Action::Remove(self.root.clone()),
                Action::Run(make),
                Action::Run(self.pip_install(lock)),
            ],
            outputs: [vec![self.python()], outputs].concat().into_iter().map(Into::into).collect(),
            hint: format!(
                "see the log. Packages come from where pip is set up to find them (`pip config \
                 list`); the network or a proxy may be in the way. The lock file {} holds hashes \
                 for Linux (x86-64, aarch64, glibc) and macOS (arm64) with Python {} to {}",
                lock.path.file_name().unwrap_or_default().display(),
                python::OLDEST_MINOR,
                python::NEWEST_MINOR,
            ),
        }
    }

    /// Adds the packages of another lock file.
    pub fn add_step(&self, name: &'static str, lock: &Lock, outputs: Vec<PathBuf>) -> Step {
        Step {
            name,
            key: format!("{KEY}-{}", lock.name),
            inputs: vec![Input::Step(KEY.to_owned()), Input::Path(lock.path.clone())],
            actions: vec![Action::Run(self.pip_install(lock).arg("--force-reinstall"))],
            outputs: outputs.into_iter().map(Into::into).collect(),
            hint: "see the log; the network or a proxy may be in the way".to_owned(),
        }
    }

    /// Adds zig.
    pub fn zig_step(&self, lock: &Lock) -> Step {
        self.fetch_step("zig, for its clang", lock, vec![self.zig()])
    }

    /// The program that [`Venv::zig_step`] brings.
    pub fn zig(&self) -> PathBuf {
        self.site_packages().join("ziglang/zig")
    }

    /// The C headers of Apple's systems that [`Venv::zig_step`] brings.
    pub fn apple_headers(&self) -> PathBuf {
        self.site_packages().join("ziglang/lib/libc/include/any-darwin-any")
    }

    /// Adds the packages of another lock file, trying again what the network refuses: for large
    /// downloads.
    pub fn fetch_step(&self, name: &'static str, lock: &Lock, outputs: Vec<PathBuf>) -> Step {
        let mut step = self.add_step(name, lock, outputs);
        step.actions = vec![Action::Fetch(self.pip_install(lock).arg("--force-reinstall"))];
        step
    }

    /// `pip install` without what it is to install.
    pub fn pip(&self) -> Invocation {
        Invocation::new(self.python())
            .args(["-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"])
            .args(["--retries", "10", "--timeout", "60"])
    }

    fn pip_install(&self, lock: &Lock) -> Invocation {
        Invocation::new(self.python())
            .args(["-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"])
            .args(["--no-deps", "--require-hashes", "--only-binary", ":all:", "-r"])
            .arg(&lock.path)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;
    use crate::environment::Environment;

    /// A folder of shell scripts that stand for programs.
    pub(crate) struct FakePrograms(tempfile::TempDir);

    impl FakePrograms {
        pub(crate) fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        pub(crate) fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        pub(crate) fn folder(&self) -> &Path {
            self.0.path()
        }

        /// An environment whose `PATH` is this folder alone.
        pub(crate) fn environment(&self) -> Environment {
            Environment::default().with("PATH", self.0.path())
        }

        pub(crate) fn program(&self, name: &str, script: &str) {
            let path = self.path(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}
