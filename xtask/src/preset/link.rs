//! `[link]`: how libetmetal is linked.

use std::path::PathBuf;

use super::origin::Sourced;
use super::schema::{Key, Table};
use super::settings::Settings;
use super::value::Kind;

/// The table's keys.
pub static TABLE: Table = Table {
    name: "link",
    keys: &[
        Key {
            name: "flags",
            kind: Kind::List,
            doc: "flags for the C++ compiler when it links libetmetal",
        },
        Key {
            name: "frameworks",
            kind: Kind::List,
            doc: "Apple frameworks to link, besides those that the delegate itself needs",
        },
        Key {
            name: "weak_frameworks",
            kind: Kind::List,
            doc: "Apple frameworks that may be missing where the build runs",
        },
        Key {
            name: "export",
            kind: Kind::List,
            doc: "symbols to export besides the delegate's own C ABI; `*` stands for any text",
        },
        Key {
            name: "rpaths",
            kind: Kind::List,
            doc: "folders where the loader looks for libraries, besides libetmetal's own",
        },
        Key {
            name: "openmp",
            kind: Kind::ChoiceOrPath(&["auto", "torch", "homebrew", "off"]),
            doc: "which OpenMP library models find: the first there is, that of the torch in use, \
                  Homebrew's, the one at a path, or none",
        },
    ],
    any_other: None,
};

/// Which OpenMP library models find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Openmp {
    /// The first there is: torch's, Homebrew's, the compiler's.
    Auto,
    /// That of the torch in use.
    Torch,
    /// Homebrew's.
    Homebrew,
    /// This one.
    Path(PathBuf),
    /// None.
    Off,
}

/// The table's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Flags for the link of libetmetal.
    pub flags: Vec<String>,
    /// Further Apple frameworks.
    pub frameworks: Vec<String>,
    /// Apple frameworks that may be missing at run time.
    pub weak_frameworks: Vec<String>,
    /// Further symbols to export; `*` stands for any text. Without Apple's leading underscore.
    pub export: Vec<String>,
    /// Further folders where the loader looks.
    pub rpaths: Vec<String>,
    /// Which OpenMP, where it is set.
    pub openmp: Option<Sourced<Openmp>>,
}

impl Link {
    /// Reads the merged settings.
    pub fn read(settings: &Settings) -> Self {
        let openmp = settings.text("link.openmp").map(|text| {
            text.map(|text| match text.as_str() {
                "auto" => Openmp::Auto,
                "torch" => Openmp::Torch,
                "homebrew" => Openmp::Homebrew,
                "off" => Openmp::Off,
                path => Openmp::Path(path.into()),
            })
        });
        Self {
            flags: settings.list("link.flags"),
            frameworks: settings.list("link.frameworks"),
            weak_frameworks: settings.list("link.weak_frameworks"),
            export: settings.list("link.export"),
            rpaths: settings.list("link.rpaths"),
            openmp,
        }
    }

    /// Which OpenMP: [`Openmp::Auto`] where nothing is set.
    pub fn openmp(&self) -> &Openmp {
        self.openmp.as_ref().map_or(&Openmp::Auto, |set| &set.value)
    }
}
