//! `cargo xtask release`: can this be released?

use anyhow::{Result, bail};

use crate::release::{checks, tag_name};
use crate::workspace::Workspace;

/// `cargo xtask release`.
#[derive(Debug, Clone, clap::Args)]
pub struct Release {
    /// Only look: the versions, the changelog, the tag, the crate
    #[arg(long)]
    dry_run: bool,
}

impl Release {
    /// Looks; true if nothing is in the way.
    ///
    /// # Errors
    /// Without `--dry-run`: releases are made by CI, from a tag.
    pub fn run(&self) -> Result<bool> {
        let tag = tag_name();
        if !self.dry_run {
            bail!(
                "releases are made by CI, from a tag: look with `cargo xtask release --dry-run`, \
                 then `git tag {tag} && git push origin {tag}`"
            );
        }
        let mut is_good = true;
        for check in checks(&Workspace::find()?) {
            match check.fault {
                None => println!("good: {}", check.about),
                Some(fault) => {
                    is_good = false;
                    println!("WRONG: {}: {fault}", check.about);
                }
            }
        }
        let can = if is_good { "can be" } else { "cannot be" };
        println!("{tag} {can} released");
        Ok(is_good)
    }
}
