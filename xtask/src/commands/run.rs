//! `cargo xtask run`: builds what is missing, then becomes `etmetal run`.

use std::ffi::OsString;

use anyhow::Result;

use super::build::{Extras, Selection, build};
use crate::process::Invocation;

/// `cargo xtask run`.
#[derive(Debug, Clone, clap::Args)]
pub struct Run {
    #[command(flatten)]
    selection: Selection,
    /// Arguments of `etmetal run`, as a model's folder
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    args: Vec<OsString>,
}

impl Run {
    /// Builds, then runs; comes back only with an error, or from a dry run.
    ///
    /// # Errors
    /// The build failed or the program cannot be started.
    pub fn run(&self) -> Result<()> {
        let built = build(&self.selection, Extras::default(), false)?;
        built.require_etmetal()?;
        let program =
            Invocation::new(built.stage.program()).arg("run").args(self.args.iter().cloned());
        if self.selection.dry_run {
            println!("{program}");
            return Ok(());
        }
        match program.exec()? {}
    }
}
