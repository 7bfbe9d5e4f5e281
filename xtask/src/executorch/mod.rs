//! ExecuTorch itself, from where the preset wants it.

pub mod sdk;
pub mod tree;

pub use sdk::Sdk;
pub use tree::Tree;

use anyhow::{Result, bail, ensure};

use crate::preset::Preset;
use crate::preset::backend::Metal;
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
    /// There is none like that, or the preset's backend cannot be built with it.
    pub fn new(preset: &Preset, workspace: &Workspace, venv: &Venv, lock: &Lock) -> Result<Self> {
        let metal = &preset.backend.metal;
        match preset.executorch.from.value {
            From::Sdk => {
                ensure!(
                    metal.value == Metal::Etmetal,
                    "{}: `backend.metal` is not \"etmetal\", and the SDK ({}) holds no other Metal \
                     backend: nothing is left to build. Build ExecuTorch from source, or set \
                     `backend.metal = \"etmetal\"`",
                    metal.origin,
                    preset.executorch.from.origin
                );
                Sdk::new(preset, venv, lock).map(Self::Sdk)
            }
            From::Source | From::Git => {
                if metal.value == Metal::Upstream && !preset.target.contains("-apple-") {
                    bail!(
                        "{}: ExecuTorch's own Metal backend (`backend.metal = \"upstream\"`) \
                         builds for Apple systems only, not for {}",
                        metal.origin,
                        preset.target
                    );
                }
                Tree::options(preset)?;
                Tree::new(preset, workspace).map(Self::Tree)
            }
        }
    }
}
