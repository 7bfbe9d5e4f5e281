//! `cargo xtask bench`: measures the staged build.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;

use super::build::{Extras, Selection, build};
use crate::environment::Environment;
use crate::rust_build::staged_cargo;

/// `cargo xtask bench`.
#[derive(Debug, Clone, clap::Args)]
pub struct Bench {
    #[command(flatten)]
    selection: Selection,
    /// What to measure: the `runtime`; `host`, the kernels of the host device; or `ci`, which are
    /// `cargo xtask ci`'s own parts
    #[arg(long, default_value = "runtime", value_name = "NAME")]
    suite: String,
    /// The Python whose PyTorch, or else numpy, is measured against [default: ETMETAL_PYTHON if it
    /// has PyTorch, else the one that the build made, which has numpy]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// Measure only rows whose names contain this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Further arguments of the measuring program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Bench {
    /// Builds, then becomes the measuring program.
    ///
    /// # Errors
    /// The build failed or the program cannot be started.
    pub fn run(&self) -> Result<()> {
        if self.suite == "ci" {
            return crate::ci::bench::measure();
        }
        let built = build(&self.selection, Extras { bench: true, ..Extras::default() }, false)?;
        built.require_etmetal()?;
        let python = self.python.clone().or_else(python_with_torch).unwrap_or(built.python);
        let filter = self.filter.iter().flat_map(|text| ["--filter", text.as_str()]);
        let program = staged_cargo(&built.workspace, &built.rust, &Environment::current())
            .args(["run", "--release", "-p", "etmetal-tests", "--bin", "bench", "--"])
            .args(["--suite", &self.suite])
            .args(filter)
            .args(self.args.iter().cloned())
            .env("ETMETAL_STAGE", built.stage.root())
            .env("ETMETAL_PYTHON", python);
        if self.selection.dry_run {
            println!("{program}");
            return Ok(());
        }
        match program.exec()? {}
    }
}

/// The Python of the environment, if it can import PyTorch.
fn python_with_torch() -> Option<PathBuf> {
    let python = PathBuf::from(std::env::var_os("ETMETAL_PYTHON").filter(|p| !p.is_empty())?);
    let mut import = Command::new(&python);
    import.args(["-c", "import torch"]).stdout(Stdio::null()).stderr(Stdio::null());
    import.status().is_ok_and(|status| status.success()).then_some(python)
}
