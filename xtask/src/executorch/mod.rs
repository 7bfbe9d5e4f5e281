//! ExecuTorch itself, from where the preset wants it.

pub mod sdk;
pub mod tree;

pub use sdk::Sdk;
pub use tree::Tree;

use anyhow::Result;

use crate::preset::Preset;
use crate::preset::executorch::From;
use crate::venv::{Lock, Venv};
use crate::workspace::Workspace;

/// ExecuTorch, there or to be provided.
#[derive(Debug, Clone)]
pub enum Executorch {
    /// Built: the official SDK.
    Sdk(Sdk),
    /// To be built.
    Tree(Tree),
}

impl Executorch {
    /// The ExecuTorch that `preset` asks for; the SDK lies in `venv`, pinned by `lock`.
    ///
    /// # Errors
    /// There is none like that.
    pub fn new(preset: &Preset, workspace: &Workspace, venv: &Venv, lock: &Lock) -> Result<Self> {
        match preset.executorch.from.value {
            From::Sdk => Sdk::new(preset, workspace, venv, lock).map(Self::Sdk),
            From::Source | From::Git => Tree::new(preset, workspace).map(Self::Tree),
        }
    }
}
