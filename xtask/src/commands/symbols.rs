//! `cargo xtask symbols`: what a program or library with the backend inside has to export.

use std::path::PathBuf;

use anyhow::Result;

use crate::apple_sdk;
use crate::audit::target::Target;
use crate::linkage::export_list;

/// `cargo xtask symbols`.
#[derive(Debug, Clone, clap::Args)]
pub struct Symbols {
    /// For which linker; this machine's where it is not named
    #[arg(long, value_name = "TRIPLE", value_parser = Target::parse)]
    target: Option<Target>,
    /// Write a stand-in for Apple's SDK, to link with on other systems, into this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["target", "more"])]
    sdk: Option<PathBuf>,
    /// Further names to list; `*` stands for any text
    more: Vec<String>,
}

impl Symbols {
    /// Prints the list: names for Apple's linker, a version script for ELF.
    ///
    /// # Errors
    /// The folder of `--sdk` cannot be written to.
    pub fn run(&self) -> Result<()> {
        if let Some(folder) = &self.sdk {
            return apple_sdk::write(folder);
        }
        let target = self.target.clone().unwrap_or_else(Target::of_this_machine);
        print!("{}", export_list(&target, &self.more));
        Ok(())
    }
}
