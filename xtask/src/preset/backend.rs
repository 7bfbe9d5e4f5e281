//! `[backend]`: which delegates the build provides.

use super::error::PresetError;
use super::origin::Sourced;
use super::schema::{Key, Table};
use super::settings::Settings;
use super::value::Kind;

/// The table's keys.
pub static TABLE: Table = Table {
    name: "backend",
    keys: &[Key {
        name: "metal",
        kind: Kind::Choice(&["etmetal"]),
        doc: "who provides the delegate that programs call `MetalBackend`",
    }],
    any_other: None,
};

/// The table's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Who provides `MetalBackend`; so far there is one answer.
    pub metal: Sourced<String>,
}

impl Backend {
    /// Reads the merged settings.
    ///
    /// # Errors
    /// `metal` is missing: the preset builds no delegate.
    pub fn read(settings: &Settings) -> Result<Self, PresetError> {
        Ok(Self { metal: settings.required_text("backend.metal")? })
    }
}
