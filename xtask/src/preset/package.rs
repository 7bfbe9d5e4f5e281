//! `[package]`: what is made of a finished stage.

use anyhow::{Context as _, Result};

use super::origin::Sourced;
use super::schema::{Key, Table};
use super::settings::Settings;
use super::value::Kind;
use crate::package::size::{self, Budgets};
use crate::package::target::Target;

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
        Key {
            name: "targets",
            kind: Kind::List,
            doc: "what `cargo xtask package` makes packages for, as linux-x86_64 and macos-arm64; \
                  the machine itself where it is not set",
        },
        Key {
            name: "archive_budget",
            kind: Kind::Text,
            doc: "how large the archive of a release may be, as in \"12MB\"",
        },
        Key {
            name: "wheel_budget",
            kind: Kind::Text,
            doc: "how large the wheel of a release may be",
        },
        Key {
            name: "library_budget",
            kind: Kind::Text,
            doc: "how large libetmetal may be in a release",
        },
        Key {
            name: "framework_budget",
            kind: Kind::Text,
            doc: "how large the xcframework of a release may be, packed",
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
    targets: Vec<String>,
    /// `archive_budget`, `wheel_budget`, `library_budget`, `framework_budget`.
    limits: [Option<Sourced<String>>; 4],
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
        let limit = |name: &str| settings.text(&format!("package.{name}"));
        Self {
            archive,
            strip: settings.flag("package.strip"),
            targets: settings.list("package.targets"),
            limits: ["archive_budget", "wheel_budget", "library_budget", "framework_budget"]
                .map(limit),
        }
    }

    /// What releases are made for on a machine of the triple `machine`.
    ///
    /// # Errors
    /// There are no packages for one of them, or for the machine.
    pub fn targets(&self, machine: &str) -> Result<Vec<&'static Target>> {
        if !self.targets.is_empty() {
            return self.targets.iter().map(|name| Target::named(name)).collect();
        }
        let own = Target::of_triple(machine);
        Ok(vec![own.with_context(|| format!("there are no packages for {machine}"))?])
    }

    /// What a release may weigh.
    ///
    /// # Errors
    /// A budget is no size.
    pub fn budgets(&self) -> Result<Budgets> {
        let read = |limit: &Option<Sourced<String>>| {
            let limit = limit.as_ref();
            limit
                .map(|set| size::parse(&set.value).with_context(|| set.origin.to_string()))
                .transpose()
        };
        let [archive, wheel, library, framework] = &self.limits;
        Ok(Budgets {
            archive: read(archive)?,
            wheel: read(wheel)?,
            library: read(library)?,
            framework: read(framework)?,
        })
    }
}
