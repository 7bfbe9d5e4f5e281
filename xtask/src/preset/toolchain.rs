//! `[toolchain]`: the tools that build the C++ side.

use super::error::PresetError;
use super::origin::Sourced;
use super::schema::{Key, Table};
use super::settings::Settings;
use super::value::Kind;

/// The table's keys.
pub static TABLE: Table = Table {
    name: "toolchain",
    keys: &[
        Key { name: "generator", kind: Kind::Text, doc: "the CMake generator" },
        Key { name: "cxx", kind: Kind::Text, doc: "the C++ compiler: a name in PATH, or a path" },
        Key { name: "cxxflags", kind: Kind::List, doc: "flags for the C++ compiler" },
        Key {
            name: "launcher",
            kind: Kind::Text,
            doc: "a program that compilers are started with, as ccache or sccache",
        },
    ],
    any_other: None,
};

/// The table's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// The CMake generator.
    pub generator: Sourced<String>,
    /// The C++ compiler; the machine's own where it is not set.
    pub cxx: Option<Sourced<String>>,
    /// Flags for the C++ compiler.
    pub cxxflags: Vec<String>,
    /// A program that compilers are started with.
    pub launcher: Option<Sourced<String>>,
}

impl Toolchain {
    /// Reads the merged settings.
    ///
    /// # Errors
    /// `generator` is missing.
    pub fn read(settings: &Settings) -> Result<Self, PresetError> {
        Ok(Self {
            generator: settings.required_text("toolchain.generator")?,
            cxx: settings.text("toolchain.cxx"),
            cxxflags: settings.list("toolchain.cxxflags"),
            launcher: settings.text("toolchain.launcher"),
        })
    }
}
