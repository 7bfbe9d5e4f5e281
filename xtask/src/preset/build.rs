//! `[build]`: how the Rust and C++ sides are compiled.

use super::error::PresetError;
use super::origin::Sourced;
use super::schema::{Key, Table};
use super::settings::Settings;
use super::value::Kind;

/// The table's keys.
pub static TABLE: Table = Table {
    name: "build",
    keys: &[
        Key { name: "profile", kind: Kind::Text, doc: "the cargo profile, as release or dev" },
        Key { name: "features", kind: Kind::List, doc: "cargo features of etmetal to switch on" },
        Key {
            name: "target",
            kind: Kind::Text,
            doc: "the triple to build for, as aarch64-apple-ios; this machine's where it is not set",
        },
    ],
    any_other: None,
};

/// The table's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The cargo profile.
    pub profile: Sourced<String>,
    /// Cargo features of etmetal.
    pub features: Vec<String>,
    /// The triple to build for, where it is set; see `Preset::target`.
    pub target: Option<Sourced<String>>,
}

impl Build {
    /// Reads the merged settings.
    ///
    /// # Errors
    /// `profile` is missing.
    pub fn read(settings: &Settings) -> Result<Self, PresetError> {
        Ok(Self {
            profile: settings.required_text("build.profile")?,
            features: settings.list("build.features"),
            target: settings.text("build.target"),
        })
    }

    /// The folder in which cargo puts what this profile makes.
    pub fn cargo_folder(&self) -> &str {
        match self.profile.value.as_str() {
            "dev" | "test" => "debug",
            "bench" => "release",
            profile => profile,
        }
    }

    /// The CMake build type that goes with the profile.
    pub fn cmake_type(&self) -> &'static str {
        if self.cargo_folder() == "debug" { "Debug" } else { "Release" }
    }
}
