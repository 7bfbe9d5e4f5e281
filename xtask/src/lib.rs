//! The orchestrator of etmetal: builds, tests, runs and measures it.
//!
//! Reached as `cargo xtask COMMAND` (the alias is in `.cargo/config.toml`). Cargo alone cannot
//! build etmetal: it needs ExecuTorch's SDK, CMake for the C++ side and a clang for shaders.
//! This crate finds or provides them, so that a machine with Rust, a C++ compiler and Python is
//! enough.
//!
//! `preset` (what to build) → `toolchain`, `venv`, `executorch` (with what) → `rust_build`,
//! `cmake`, `stage` (how, as [`steps`]) → the runner of steps. [`commands`] puts them together.

pub mod apple_sdk;
pub mod audit;
pub mod ci;
pub mod cmake;
pub mod commands;
pub mod diagnostics;
pub mod environment;
pub mod executorch;
pub mod export;
pub mod linkage;
pub mod macho;
pub mod openmp;
pub mod package;
pub mod preset;
pub mod process;
pub mod release;
pub mod rust_build;
pub mod stage;
pub mod standin;
pub mod steps;
pub mod test_count;
#[cfg(test)]
mod testing;
pub mod toolchain;
pub mod torch;
pub mod venv;
pub mod why;
pub mod workspace;

use std::process::ExitCode;

use anyhow::Result;

/// The command line.
#[derive(Debug, clap::Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build a preset into target/stage
    Build(commands::build::Build),
    /// Build what is missing, then put the result into a prefix
    Install(commands::install::Install),
    /// Make the packages of a release, or verify them
    Package(commands::package::Package),
    /// Look whether a release can be tagged: versions, changelog, tag, crate
    Release(commands::release::Release),
    /// Remove what builds have left
    Clean(commands::clean::Clean),
    /// Build what is missing, then run a model: `etmetal run ARGS`
    Run(commands::run::Run),
    /// Build what is missing, run every lint and test, and count
    Test(commands::test::Test),
    /// Look at the machine: which tools are here, which are missing, how to install them
    Doctor(commands::doctor::Doctor),
    /// Export a PyTorch model for the Metal delegate
    Export(commands::export::Export),
    /// Look at presets, check, mend and make them
    Preset(commands::preset::PresetCommand),
    /// Measure the build
    Bench(commands::bench::Bench),
    /// Look at how libraries and models are linked: will they load where they are meant to?
    Audit(commands::audit::Audit),
    /// List what has to be exported to models, as the linker reads it
    Symbols(commands::symbols::Symbols),
    /// Tell the reasons for what the last build did
    Why(commands::why::Why),
    /// Show what is checked where, write the workflows, run a job here, sort out what failed
    Ci(commands::ci::Ci),
}

impl Cli {
    /// Does what the command line says.
    ///
    /// # Errors
    /// What failed, and what to do.
    pub fn run(self) -> Result<ExitCode> {
        let done = |()| ExitCode::SUCCESS;
        let good = |good| if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        match self.command {
            Command::Build(build) => build.run().map(done),
            Command::Install(install) => install.run().map(done),
            Command::Package(package) => package.run().map(good),
            Command::Release(release) => release.run().map(good),
            Command::Clean(clean) => clean.run().map(done),
            Command::Run(run) => run.run().map(done),
            Command::Test(test) => test.run().map(good),
            Command::Doctor(doctor) => doctor.run().map(good),
            Command::Export(export) => export.run().map(done),
            Command::Preset(preset) => preset.run().map(good),
            Command::Bench(bench) => bench.run().map(done),
            Command::Audit(audit) => audit.run().map(good),
            Command::Symbols(symbols) => symbols.run().map(done),
            Command::Why(why) => why.run().map(done),
            Command::Ci(ci) => ci.run(),
        }
    }
}
