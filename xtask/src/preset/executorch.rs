//! `[executorch]`: where ExecuTorch itself comes from.

use std::collections::BTreeMap;

use super::error::PresetError;
use super::origin::Sourced;
use super::schema::{Key, Table};
use super::settings::Settings;
use super::value::{Kind, Value};

/// The table's keys.
pub static TABLE: Table = Table {
    name: "executorch",
    keys: &[
        Key {
            name: "from",
            kind: Kind::Choice(&["sdk", "source", "git"]),
            doc: "the official SDK, a source tree, or a git revision",
        },
        Key {
            name: "version",
            kind: Kind::Version,
            doc: "the version of the SDK; of a source tree, the version whose options it has",
        },
        Key {
            name: "path",
            kind: Kind::Text,
            doc: "the source tree, for from = \"source\"; relative to the repository",
        },
        Key { name: "url", kind: Kind::Text, doc: "the repository, for from = \"git\"" },
        Key { name: "rev", kind: Kind::Text, doc: "the commit, tag or branch, for from = \"git\"" },
    ],
    any_other: None,
};

/// What the names of ExecuTorch's CMake options begin with; presets leave it out.
pub const PREFIX: &str = "EXECUTORCH_";

/// `[executorch.options]`: ExecuTorch's CMake options, without [`PREFIX`].
pub static OPTIONS: Table =
    Table { name: "executorch.options", keys: &[], any_other: Some(Kind::Option) };

/// Where ExecuTorch comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The official SDK (its Python wheel).
    Sdk,
    /// A source tree on this machine.
    Source,
    /// A git revision.
    Git,
}

impl From {
    /// By the word in a preset, which the schema has checked.
    pub fn named(word: &str) -> Self {
        match word {
            "sdk" => From::Sdk,
            "source" => From::Source,
            _ => From::Git,
        }
    }
}

/// The tables' content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executorch {
    /// Where ExecuTorch comes from.
    pub from: Sourced<From>,
    /// The version of the SDK.
    pub version: Option<Sourced<String>>,
    /// The source tree, for [`From::Source`]; relative to the repository.
    pub path: Option<Sourced<String>>,
    /// The repository, for [`From::Git`].
    pub url: Option<Sourced<String>>,
    /// The commit, tag or branch, for [`From::Git`].
    pub rev: Option<Sourced<String>>,
    /// CMake options by name, without [`PREFIX`].
    pub options: BTreeMap<String, Sourced<Value>>,
}

impl Executorch {
    /// Reads the merged settings.
    ///
    /// # Errors
    /// `from` is missing, or what it needs: `version`, `path`, or `url` and `rev`.
    pub fn read(settings: &Settings) -> Result<Self, PresetError> {
        let from = settings.required_text("executorch.from")?.map(|text| From::named(&text));
        let mut faults = PresetError::default();
        let mut required = |name: &str, by: From| match by == from.value {
            // What another source needs may stand in a parent, and does not count.
            false => None,
            true => settings.required_text(name).map_err(|fault| faults.extend(fault)).ok(),
        };
        let path = required("executorch.path", From::Source);
        let url = required("executorch.url", From::Git);
        let rev = required("executorch.rev", From::Git);
        let version = required("executorch.version", From::Sdk);
        let version = version.or_else(|| settings.text("executorch.version"));
        let options =
            settings.table(OPTIONS.name).map(|(k, v)| (k.to_owned(), v.clone())).collect();
        faults.or(())?;
        Ok(Self { from, version, path, url, rev, options })
    }

    /// The options as CMake takes them: full name and text.
    pub fn cmake_options(&self) -> impl Iterator<Item = (String, String)> {
        let options = self.options.iter();
        options.map(|(name, value)| (format!("{PREFIX}{name}"), value.value.cmake_text()))
    }
}
