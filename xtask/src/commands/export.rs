//! `cargo xtask export`: provides PyTorch, then becomes `python -m etmetal.export`.

use std::ffi::OsString;

use anyhow::Result;

use super::build::{Extras, Selection, build};
use crate::export::{TorchSource, python};

/// `cargo xtask export`.
#[derive(Debug, Clone, clap::Args)]
pub struct Export {
    #[command(flatten)]
    selection: Selection,
    /// Take NVIDIA's own libraries instead of stubs for them (several gigabytes)
    #[arg(long, conflicts_with = "torch_index")]
    full_torch: bool,
    /// Take PyTorch from this index, as from PyTorch's own of wheels for the CPU
    #[arg(long, value_name = "URL", env = "ETMETAL_TORCH_INDEX")]
    torch_index: Option<String>,
    /// Arguments of `python -m etmetal.export`, as `examples.mlp:model --check`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    args: Vec<OsString>,
}

impl Export {
    /// Builds what is missing, then exports; comes back only with an error, or from a dry run.
    ///
    /// # Errors
    /// The build failed or the program cannot be started.
    pub fn run(&self) -> Result<()> {
        let torch = match (&self.torch_index, self.full_torch) {
            (Some(index), _) => TorchSource::Index(index.clone()),
            (None, true) => TorchSource::Full,
            (None, false) => TorchSource::Stubs,
        };
        let extras = Extras { torch: Some(torch), ..Extras::default() };
        let built = build(&self.selection, extras, false)?;
        let program = python(&built.workspace, &built.python, &built.stage.library())
            .args(["-m", "etmetal.export"])
            .args(self.args.iter().cloned());
        if self.selection.dry_run {
            println!("{program}");
            return Ok(());
        }
        match program.exec()? {}
    }
}
