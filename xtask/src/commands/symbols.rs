//! `cargo xtask symbols`: what a program or library with the backend inside has to export.

use crate::audit::target::Target;
use crate::linkage::export_list;

/// `cargo xtask symbols`.
#[derive(Debug, Clone, clap::Args)]
pub struct Symbols {
    /// For which linker; this machine's where it is not named
    #[arg(long, value_name = "TRIPLE", value_parser = Target::parse)]
    target: Option<Target>,
    /// Further names to list; `*` stands for any text
    more: Vec<String>,
}

impl Symbols {
    /// Prints the list: names for Apple's linker, a version script for ELF.
    pub fn run(&self) {
        let target = self.target.clone().unwrap_or_else(Target::of_this_machine);
        print!("{}", export_list(&target, &self.more));
    }
}
