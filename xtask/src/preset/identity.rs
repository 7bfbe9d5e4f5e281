//! `[preset]`: what a preset is called and what it builds on. Never inherited.

use super::origin::Sourced;
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
}
