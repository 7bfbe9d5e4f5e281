//! `cargo xtask install`: builds what is missing, then puts the stage into a prefix.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::build::{Extras, Selection, build};

/// `cargo xtask install`.
#[derive(Debug, Clone, clap::Args)]
pub struct Install {
    #[command(flatten)]
    selection: Selection,
    /// Where to: bin/, lib/ and include/ are put in here
    #[arg(long, value_name = "FOLDER")]
    prefix: PathBuf,
}

impl Install {
    /// Builds and installs.
    ///
    /// # Errors
    /// What failed, and what to do.
    pub fn run(&self) -> Result<()> {
        let prefix = std::path::absolute(&self.prefix)?;
        ensure!(prefix != Path::new("/"), "--prefix /: a folder of its own is needed");
        let extras = Extras { install: Some(prefix.clone()), ..Extras::default() };
        let built = build(&self.selection, extras, false)?;
        if !self.selection.dry_run {
            let how = if built.anything_done { "installed" } else { "up to date" };
            eprintln!("{how}: {}", prefix.display());
        }
        Ok(())
    }
}
