//! ExecuTorch itself, from where the preset wants it.

pub mod sdk;

pub use sdk::Sdk;

use anyhow::{Result, bail};

use crate::preset::Preset;
use crate::preset::executorch::From;
use crate::venv::{Lock, Venv};

/// Provides the ExecuTorch that `preset` asks for; the SDK lies in `venv`, pinned by `lock`.
///
/// # Errors
/// The preset asks for something else than the SDK, or for another version than the lock file's.
pub fn provide(preset: &Preset, venv: &Venv, lock: &Lock) -> Result<Sdk> {
    let from = &preset.executorch.from;
    match from.value {
        From::Sdk => Sdk::new(preset, venv, lock),
        From::Source | From::Git => {
            let name = if from.value == From::Source { "source" } else { "git" };
            bail!(
                "{}: `executorch.from = \"{name}\"` is not yet supported; use \"sdk\"",
                from.origin
            )
        }
    }
}
