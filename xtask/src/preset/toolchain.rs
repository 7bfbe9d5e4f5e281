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
        Key { name: "cc", kind: Kind::Text, doc: "the C compiler: a name in PATH, or a path" },
        Key { name: "cxx", kind: Kind::Text, doc: "the C++ compiler: a name in PATH, or a path" },
        Key { name: "cflags", kind: Kind::List, doc: "flags for the C compiler" },
        Key { name: "cxxflags", kind: Kind::List, doc: "flags for the C++ compiler" },
        Key {
            name: "launcher",
            kind: Kind::Text,
            doc: "a program that compilers are started with, as ccache or sccache",
        },
        Key {
            name: "deployment_target",
            kind: Kind::Version,
            doc: "the oldest Apple system that the build runs on, as 14.0",
        },
        Key {
            name: "sysroot",
            kind: Kind::Text,
            doc: "the SDK of the target: a path, or a name that xcrun knows, as iphoneos",
        },
    ],
    any_other: None,
};

/// The table's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// The CMake generator.
    pub generator: Sourced<String>,
    /// The C compiler; the machine's own where it is not set.
    pub cc: Option<Sourced<String>>,
    /// The C++ compiler; the machine's own where it is not set.
    pub cxx: Option<Sourced<String>>,
    /// Flags for the C compiler.
    pub cflags: Vec<String>,
    /// Flags for the C++ compiler.
    pub cxxflags: Vec<String>,
    /// A program that compilers are started with.
    pub launcher: Option<Sourced<String>>,
    /// The oldest Apple system that the build runs on.
    pub deployment_target: Option<Sourced<String>>,
    /// The SDK of the target: a path, or a name that `xcrun` knows.
    pub sysroot: Option<Sourced<String>>,
}

impl Toolchain {
    /// Reads the merged settings.
    ///
    /// # Errors
    /// `generator` is missing.
    pub fn read(settings: &Settings) -> Result<Self, PresetError> {
        Ok(Self {
            generator: settings.required_text("toolchain.generator")?,
            cc: settings.text("toolchain.cc"),
            cxx: settings.text("toolchain.cxx"),
            cflags: settings.list("toolchain.cflags"),
            cxxflags: settings.list("toolchain.cxxflags"),
            launcher: settings.text("toolchain.launcher"),
            deployment_target: settings.text("toolchain.deployment_target"),
            sysroot: settings.text("toolchain.sysroot"),
        })
    }
}
