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
        kind: Kind::Choice(&["etmetal", "upstream", "off"]),
        doc: "who provides the delegate that programs call `MetalBackend`: this project, \
              ExecuTorch's own sources, or nobody",
    }],
    any_other: None,
};

/// Who provides `MetalBackend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metal {
    /// This project.
    Etmetal,
    /// ExecuTorch's own `backends/apple/metal`; only from source, only on Apple systems.
    Upstream,
    /// Nobody: ExecuTorch alone.
    Off,
}

impl Metal {
    /// By the word in a preset, which the schema has checked.
    pub fn named(word: &str) -> Self {
        match word {
            "upstream" => Metal::Upstream,
            "off" => Metal::Off,
            _ => Metal::Etmetal,
        }
    }

    /// The word in a preset.
    pub fn word(self) -> &'static str {
        match self {
            Metal::Etmetal => "etmetal",
            Metal::Upstream => "upstream",
            Metal::Off => "off",
        }
    }

    /// Options of an ExecuTorch built from source, without their prefix, that are on for it.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Metal::Etmetal => &[
                "BUILD_METAL",
                "BUILD_SHARED",
                "BUILD_EXTENSION_DATA_LOADER",
                "BUILD_EXTENSION_FLAT_TENSOR",
                "BUILD_EXTENSION_MODULE",
                "BUILD_EXTENSION_NAMED_DATA_MAP",
                "BUILD_EXTENSION_TENSOR",
            ],
            Metal::Upstream => &["BUILD_METAL", "BUILD_EXTENSION_TENSOR"],
            Metal::Off => &[],
        }
    }
}

/// The table's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Who provides `MetalBackend`.
    pub metal: Sourced<Metal>,
}

impl Backend {
    /// Reads the merged settings.
    ///
    /// # Errors
    /// `metal` is missing.
    pub fn read(settings: &Settings) -> Result<Self, PresetError> {
        let metal = settings.required_text("backend.metal")?.map(|text| Metal::named(&text));
        Ok(Self { metal })
    }
}
