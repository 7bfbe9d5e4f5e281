//! `[preset]`: what a preset is called and what it builds on. Never inherited.

use super::origin::{Origin, Sourced};
use super::schema::{Key, Table};
use super::value::Kind;

/// The table's keys.
pub static TABLE: Table = Table {
    name: "preset",
    keys: &[
        Key { name: "name", kind: Kind::Text, doc: "the preset's name; the file's name too" },
        Key { name: "description", kind: Kind::Text, doc: "one line for people" },
        Key {
            name: "inherits",
            kind: Kind::List,
            doc: "presets to start from; later ones override earlier ones",
        },
        Key {
            name: "hosts",
            kind: Kind::List,
            doc: "the machines that it can be built on: linux, macos; both where it is not set",
        },
    ],
    any_other: None,
};

/// The table's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The preset's name, equal to the file's stem.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// The presets that this one starts from, in order.
    pub inherits: Vec<Sourced<String>>,
    /// The hosts that it can be built on; every one where it is empty.
    pub hosts: Vec<Sourced<String>>,
    /// Where the table is: the place of what the preset lacks.
    pub origin: Origin,
}

impl Identity {
    /// What is known of a file before it is read.
    pub fn unnamed(name: &str, origin: Origin) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            inherits: Vec::new(),
            hosts: Vec::new(),
            origin,
        }
    }

    /// Whether the preset can be built on `host`.
    pub fn builds_on(&self, host: &str) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|known| known.value == host)
    }
}
