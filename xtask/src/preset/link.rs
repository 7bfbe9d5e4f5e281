//! `[link]`: how libetmetal is linked.

use super::schema::{Key, Table};
use super::settings::Settings;
use super::value::Kind;

/// The table's keys.
pub static TABLE: Table = Table {
    name: "link",
    keys: &[Key {
        name: "flags",
        kind: Kind::List,
        doc: "flags for the C++ compiler when it links libetmetal",
    }],
    any_other: None,
};

/// The table's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Flags for the link of libetmetal.
    pub flags: Vec<String>,
}

impl Link {
    /// Reads the merged settings.
    pub fn read(settings: &Settings) -> Self {
        Self { flags: settings.list("link.flags") }
    }
}
