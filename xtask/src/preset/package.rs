//! `[package]`: what is made of a finished stage.

use super::schema::{Key, Table};
use super::settings::Settings;
use super::value::Kind;

/// The table's keys.
pub static TABLE: Table = Table {
    name: "package",
    keys: &[
        Key {
            name: "archive",
            kind: Kind::Choice(&["off", "tar.gz", "tar.zst", "zip"]),
            doc: "the form of the archive that a build makes of its stage, in target/package",
        },
        Key {
            name: "strip",
            kind: Kind::Bool,
            doc: "whether the libraries in the stage lose debug information and local symbols",
        },
    ],
    any_other: None,
};

/// The form of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archive {
    /// `.tar.gz`
    TarGz,
    /// `.tar.zst`
    TarZst,
    /// `.zip`
    Zip,
}

impl Archive {
    /// The end of its file name.
    pub fn extension(self) -> &'static str {
        match self {
            Archive::TarGz => "tar.gz",
            Archive::TarZst => "tar.zst",
            Archive::Zip => "zip",
        }
    }
}

/// The table's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The archive to make, if any.
    pub archive: Option<Archive>,
    /// Whether the libraries in the stage lose debug information and local symbols.
    pub strip: bool,
}

impl Package {
    /// Reads the merged settings.
    pub fn read(settings: &Settings) -> Self {
        let archive = settings.text("package.archive").and_then(|text| match text.value.as_str() {
            "tar.gz" => Some(Archive::TarGz),
            "tar.zst" => Some(Archive::TarZst),
            "zip" => Some(Archive::Zip),
            _ => None,
        });
        Self { archive, strip: settings.flag("package.strip") }
    }
}
