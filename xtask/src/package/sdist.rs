//! The Python package's sources, for machines that no wheel is for.

use std::path::Path;

use anyhow::Result;

use super::pyproject::{LICENCES, Project};
use super::tree::Tree;
use super::{VERSION, wheel};

/// The file name.
pub fn name() -> String {
    format!("etmetal-{VERSION}.tar.gz")
}

/// The members.
///
/// # Errors
/// A file of the Python package cannot be read.
pub fn tree(root: &Path) -> Result<Tree> {
    let python = root.join("python");
    let project = Project::read(&python)?;
    let mut tree = wheel::sources(root)?.within("src");
    for file in ["pyproject.toml", "README.md"] {
        tree.copy(&python.join(file), file)?;
    }
    for file in LICENCES {
        tree.copy(&root.join(file), file)?;
    }
    tree.file("PKG-INFO", project.metadata(&python, &LICENCES)?);
    Ok(tree.within(&format!("etmetal-{VERSION}")))
}
