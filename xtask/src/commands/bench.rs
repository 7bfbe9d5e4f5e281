//! `cargo xtask bench`: measures the staged build.

use std::ffi::OsString;

use anyhow::Result;

use super::build::{Extras, Selection, build};
use crate::environment::Environment;
use crate::rust_build::staged_cargo;

/// `cargo xtask bench`.
#[derive(Debug, Clone, clap::Args)]
pub struct Bench {
    #[command(flatten)]
    selection: Selection,
    /// What to measure
    #[arg(long, default_value = "runtime", value_name = "NAME")]
    suite: String,
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
        let built = build(&self.selection, Extras { bench: true, ..Extras::default() }, false)?;
        built.require_etmetal()?;
        let program = staged_cargo(&built.workspace, &Environment::current())
            .args(["run", "--release", "-p", "etmetal-tests", "--bin", "bench", "--"])
            .args(["--suite", &self.suite])
            .args(self.args.iter().cloned())
            .env("ETMETAL_STAGE", built.stage.root())
            .env("ETMETAL_PYTHON", built.python);
        if self.selection.dry_run {
            println!("{program}");
            return Ok(());
        }
        match program.exec()? {}
    }
}
