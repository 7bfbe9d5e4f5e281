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
    /// `from` or, for the SDK, `version` is missing; options are set where nothing reads them.
    pub fn read(settings: &Settings) -> Result<Self, PresetError> {
        let from = settings.required_text("executorch.from")?.map(|text| match text.as_str() {
            "sdk" => From::Sdk,
            "source" => From::Source,
            _ => From::Git,
        });
        let version = match from.value {
            From::Sdk => Some(settings.required_text("executorch.version")?),
            From::Source | From::Git => settings.text("executorch.version"),
        };
        let options: BTreeMap<_, _> =
            settings.table(OPTIONS.name).map(|(k, v)| (k.to_owned(), v.clone())).collect();
        if from.value == From::Sdk {
            let mut faults = PresetError::default();
            for (name, value) in &options {
                faults.push(
                    &value.origin,
                    format_args!(
                        "`executorch.options.{name}` has no effect with `executorch.from = \
                         \"sdk\"`: the SDK is built already; remove it or build ExecuTorch from \
                         source"
                    ),
                );
            }
            faults.or(())?;
        }
        let (path, url, rev) = match from.value {
            From::Sdk => (None, None, None),
            From::Source => (Some(settings.required_text("executorch.path")?), None, None),
            From::Git => {
                let url = settings.required_text("executorch.url")?;
                (None, Some(url), Some(settings.required_text("executorch.rev")?))
            }
        };
        Ok(Self { from, version, path, url, rev, options })
    }

    /// The options as CMake takes them: full name and text.
    pub fn cmake_options(&self) -> impl Iterator<Item = (String, String)> {
        let options = self.options.iter();
        options.map(|(name, value)| (format!("{PREFIX}{name}"), value.value.cmake_text()))
    }
}
