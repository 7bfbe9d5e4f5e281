//! The keys there are: each element file lists its own, and this module puts them together.

use super::value::Kind;
use super::{backend, build, executorch, identity, link, package, toolchain};

/// One key of a table.
#[derive(Debug)]
pub struct Key {
    /// Its name in the table.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// One line for people.
    pub doc: &'static str,
}

/// One table of a preset file.
#[derive(Debug)]
pub struct Table {
    /// Its full name, as in `executorch.options`.
    pub name: &'static str,
    /// The keys it knows.
    pub keys: &'static [Key],
    /// The kind of every other key, where the table takes any key.
    pub any_other: Option<Kind>,
}

/// The tables that can also stand in `[host.*]` and `[target.*]`.
pub static SETTINGS: &[&Table] = &[
    &executorch::TABLE,
    &executorch::OPTIONS,
    &backend::TABLE,
    &toolchain::TABLE,
    &build::TABLE,
    &link::TABLE,
    &package::TABLE,
];

/// The table that names the preset; only at the top of a file.
pub static IDENTITY: &Table = &identity::TABLE;

/// The hosts that `[host.*]` can name.
pub const HOSTS: &[&str] = &["linux", "macos"];

/// The table called `name`, where there is one.
pub fn settings_table(name: &str) -> Option<&'static Table> {
    SETTINGS.iter().find(|t| t.name == name).copied()
}

/// The kind of the setting `table.key`.
pub fn settings_kind(full: &str) -> Option<Kind> {
    let (table, key) = full.rsplit_once('.')?;
    settings_table(table)?.kind(key)
}

/// Every setting's full name, for suggestions.
pub fn setting_names() -> impl Iterator<Item = String> {
    SETTINGS.iter().flat_map(|t| t.keys.iter().map(|k| format!("{}.{}", t.name, k.name)))
}

impl Table {
    /// The kind of `key`, or nothing where the table has no such key.
    pub fn kind(&self, key: &str) -> Option<Kind> {
        self.keys.iter().find(|k| k.name == key).map(|k| k.kind).or(self.any_other)
    }
}

/// The candidate nearest to `word`, if one is near enough to be a slip of the hand.
pub fn nearest(word: &str, candidates: impl IntoIterator<Item = String>) -> Option<String> {
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(word, &c), c))
        .filter(|(distance, c)| *distance <= 1 + word.len().min(c.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// `; did you mean \`x\`?`, or which names there are where none is near.
pub fn suggestion(word: &str, candidates: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = candidates.into_iter().collect();
    match nearest(word, all.clone()) {
        Some(best) => format!("; did you mean `{best}`?"),
        None => format!("; known here: {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_suggested_and_far_ones_are_not() {
        let names = || ["generator", "cxx", "launcher"].map(String::from);
        assert_eq!(suggestion("genrator", names()), "; did you mean `generator`?");
        assert_eq!(suggestion("cxxx", names()), "; did you mean `cxx`?");
        assert_eq!(suggestion("sysroot", names()), "; known here: generator, cxx, launcher");
    }

    #[test]
    fn every_key_has_a_line_of_help_and_a_unique_name() {
        let mut names: Vec<_> = setting_names().collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        for table in SETTINGS.iter().chain([&IDENTITY]) {
            assert!(table.keys.iter().all(|k| !k.doc.is_empty()), "{}", table.name);
        }
    }
}
