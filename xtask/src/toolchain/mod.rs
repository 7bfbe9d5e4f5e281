//! The tools of the machine: found, asked for their versions, or told how to be installed.

pub mod apple;
pub mod cross;
pub mod cxx;
pub mod install;
pub mod launcher;
pub mod linux;
pub mod memory;
pub mod msl;
pub mod rust;
pub mod version;

pub use install::Installer;
pub use memory::Memory;
pub use version::Version;

use std::path::{Path, PathBuf};

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Its path.
    pub path: PathBuf,
    /// What it says its version is.
    pub version: Version,
}

/// A value that changes when the program at `path` does: its real place, size and age. Cheaper
/// than to ask it for its version.
pub fn identity(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let state = std::fs::metadata(&real).ok().map(|m| (m.len(), m.modified().ok()));
    format!("{} {state:?}", real.display())
}
