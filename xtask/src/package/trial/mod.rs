//! Installing a release where nothing of this project is, and using it there.

mod project;
mod wheel;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::archive::{self, Form};
use super::catalogue::Catalogue;
use super::epoch::Epoch;
use super::tarball;
use super::target::Target;
use crate::process::Invocation;
use crate::workspace::Workspace;

/// How much to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Extent {
    /// What takes seconds: the wheel and the archive, with the packages of the build's environment.
    Quick,
    /// Also what is downloaded or compiled for it: numpy, the sdist, a Rust program.
    Full,
}

/// A release, and what it is tried with.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The working copy: for the model that is run, and the projects that use the release.
    pub workspace: &'a Workspace,
    /// The release's folder.
    pub release: &'a Path,
    /// What is in it.
    pub catalogue: &'a Catalogue,
    /// The time that its members bear.
    pub epoch: Epoch,
    /// This machine's target.
    pub target: &'static Target,
    /// The interpreter of the environment that has ExecuTorch, CMake and Ninja, and torch where
    /// that was asked for.
    pub python: &'a Path,
    /// The stage's file that names the shader compiler.
    pub msl_compiler: &'a Path,
    /// How much.
    pub extent: Extent,
}

/// The model that is run.
const MODEL: &str = "tests/fixtures/mlp";

impl Trial<'_> {
    /// Tries; each thing that works is told by a line.
    ///
    /// # Errors
    /// The first thing that does not work, with what its programs said.
    pub fn run(&self, on_line: &mut dyn FnMut(&str)) -> Result<()> {
        let place = tempfile::Builder::new().prefix("etmetal-trial-").tempdir()?;
        let place = place.path();
        let prefix = self.unpack(place)?;
        self.program(&prefix, place).context("the archive's program does not work")?;
        on_line("the archive's program runs a model");
        project::cmake(self, &prefix, place).context("the CMake package does not work")?;
        on_line("a CMake project finds etmetal::etmetal and etmetal::delegate and runs");
        project::pkg_config(self, &prefix, place)
            .context("the file for pkg-config does not work")?;
        on_line("a C program is built by what etmetal.pc says and runs");
        wheel::quick(self, place).context("the wheel does not work")?;
        on_line(
            "the wheel, in a fresh environment, runs a model with numpy and in executorch.runtime",
        );
        if self.extent == Extent::Full {
            wheel::full(self, place)
                .context("the wheel does not work with packages from the index")?;
            on_line("the wheel runs a model in an environment of its own");
            wheel::sdist(self, &prefix, place).context("the sdist does not work")?;
            on_line("the sdist installs, and runs a model with the archive's library");
            project::rust(self, &prefix, place).context("the crate does not work")?;
            on_line("a Rust program depends on the packaged crate and runs a model");
        }
        Ok(())
    }

    /// Unpacks the archive into an empty prefix.
    fn unpack(&self, place: &Path) -> Result<PathBuf> {
        let name = format!("{}.tar.zst", tarball::name(self.target));
        let bytes = std::fs::read(self.release.join(&name))
            .with_context(|| format!("there is no {name} in {}", self.release.display()))?;
        archive::unpack(Form::TarZst, &bytes, self.epoch)?.unpack(place)?;
        // Where it is unpacked is not where it stays.
        let prefix = place.join("an empty prefix");
        std::fs::rename(place.join(tarball::name(self.target)), &prefix)?;
        self.name_compiler(&prefix.join("lib/etmetal"))?;
        Ok(prefix)
    }

    /// Names the shader compiler to the library in the folder above: this machine's clang need not
    /// be in PATH.
    fn name_compiler(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::copy(self.msl_compiler, folder.join("msl-compiler"))
            .with_context(|| format!("cannot read {}", self.msl_compiler.display()))?;
        Ok(())
    }

    fn program(&self, prefix: &Path, place: &Path) -> Result<()> {
        let program = self.bare(prefix.join("bin/etmetal"), place);
        let told = program.arg("run").arg(self.model()).read()?;
        ensure!(told.contains("PASS"), "`etmetal run` did not pass:\n{told}");
        Ok(())
    }

    fn model(&self) -> PathBuf {
        self.workspace.root.join(MODEL)
    }

    /// The wheel for this machine: a release has one for each system.
    fn wheel(&self) -> Result<PathBuf> {
        let name = self.catalogue.wheel(self.target);
        let name = name.with_context(|| format!("there is no wheel for {}", self.target.name))?;
        Ok(self.release.join(name))
    }

    /// A program that sees nothing of this project's settings, with a home folder of its own.
    fn bare(&self, program: impl Into<PathBuf>, place: &Path) -> Invocation {
        let mut command = Invocation::new(program).cwd(place);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let ours = name.starts_with("ETMETAL_") || name.starts_with("CARGO_");
            if ours
                || ["PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV"].contains(&&*name)
            {
                command = command.without_env(&name);
            }
        }
        command.env("ETMETAL_CACHE", place.join("cache"))
    }

    /// `PATH` with CMake and Ninja of the build's environment in front.
    fn path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let tools = self.python.parent().map(PathBuf::from);
        std::env::join_paths(tools.into_iter().chain(std::env::split_paths(&path))).unwrap_or(path)
    }
}
