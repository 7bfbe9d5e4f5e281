//! The catalogue of members: what lies where in each file of a release, and what it hashes to.
//!
//! With it, a byte that was changed anywhere has a name.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::VERSION;
use super::archive::{Packed, Part};
use super::digest::sha256;
use super::target::Target;
use super::tree::{Member, Tree};

/// The catalogue's file name.
pub fn name() -> String {
    format!("etmetal-{VERSION}.members.json")
}

/// The catalogue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// The version of what was packed.
    pub version: String,
    /// The time that members bear, in seconds since 1970.
    pub epoch: u64,
    /// The archives, by file name.
    pub archives: BTreeMap<String, Archive>,
}

/// An archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// The target's triple, where it is for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The oldest system that is promised, as `14.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_os: Option<String>,
    /// The same for each slice of an xcframework, by its folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slices: BTreeMap<String, String>,
    /// What its bytes are, from the first to the last.
    pub parts: Vec<Part>,
    /// Its members.
    pub members: BTreeMap<String, Entry>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of its content.
    pub sha256: String,
    /// Permissions in octal digits, or `link`.
    pub mode: String,
}

impl Archive {
    /// Of `tree` as it was packed.
    pub fn new(tree: &Tree, packed: &Packed) -> Self {
        let members = tree.iter().map(|(path, member)| (path.to_owned(), Entry::of(member)));
        Self {
            target: None,
            minimum_os: None,
            slices: BTreeMap::new(),
            parts: packed.parts.clone(),
            members: members.collect(),
        }
    }
}

impl Entry {
    /// Of a member.
    pub fn of(member: &Member) -> Self {
        let mode = match member {
            Member::File(..) => format!("{:o}", member.mode()),
            Member::Link(_) => "link".to_owned(),
        };
        Self { size: member.bytes().len() as u64, sha256: sha256(member.bytes()), mode }
    }
}

impl Catalogue {
    /// The wheel for `target`.
    pub fn wheel(&self, target: &Target) -> Option<&str> {
        let is_for = |archive: &Archive| archive.target.as_deref() == Some(target.triple);
        let mut named = self.archives.iter();
        named.find(|(name, of)| name.ends_with(".whl") && is_for(of)).map(|(name, _)| name.as_str())
    }

    /// The text of the file.
    ///
    /// # Errors
    /// Never, for what is in memory.
    pub fn text(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Reads the file.
    ///
    /// # Errors
    /// It is no catalogue.
    pub fn parse(text: &[u8]) -> Result<Self> {
        serde_json::from_slice(text).with_context(|| format!("{} is damaged", name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_wheels_for_several_systems_the_one_for_a_target_is_found() {
        let target = |name: &str| Target::named(name).unwrap();
        let archive = |of: Option<&str>| Archive {
            target: of.map(str::to_owned),
            ..Archive::new(&Tree::default(), &Packed { bytes: Vec::new(), parts: Vec::new() })
        };
        let mut catalogue = Catalogue::default();
        for name in ["linux-x86_64", "linux-aarch64"] {
            for ending in ["tar.zst", "whl"] {
                let of = archive(Some(target(name).triple));
                catalogue.archives.insert(format!("{name}.{ending}"), of);
            }
        }
        catalogue.archives.insert("sources.whl".into(), archive(None));
        assert_eq!(catalogue.wheel(target("linux-x86_64")), Some("linux-x86_64.whl"));
        assert_eq!(catalogue.wheel(target("linux-aarch64")), Some("linux-aarch64.whl"));
        assert_eq!(catalogue.wheel(target("macos-arm64")), None);
    }
}
