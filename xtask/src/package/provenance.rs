//! From what a release was made: an in-toto statement with SLSA's predicate.
//!
//! It tells nothing of the moment or the machine, so that who makes the same release again gets
//! the same statement.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::VERSION;
use super::epoch::Epoch;
use super::sources::Sources;

/// The file's name.
pub fn name() -> String {
    format!("etmetal-{VERSION}.provenance.json")
}

/// What statements of this kind are called.
const TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://slsa.dev/provenance/v1";

/// What a release was made from.
#[derive(Debug, Clone, Default)]
pub struct Provenance {
    /// The repository.
    pub repository: String,
    /// Which sources.
    pub sources: Sources,
    /// The lock files with their hashes.
    pub locks: BTreeMap<String, String>,
    /// The tools with their versions.
    pub tools: BTreeMap<String, String>,
    /// By target: each setting of its preset with where it comes from.
    pub presets: BTreeMap<String, BTreeMap<String, Value>>,
}

/// The text of the statement about `files`, names with hashes.
///
/// # Errors
/// Never, for what is in memory.
pub fn text(of: &Provenance, files: &BTreeMap<String, String>, epoch: Epoch) -> Result<String> {
    let subjects: Vec<_> = files
        .iter()
        .map(|(name, hash)| json!({ "name": name, "digest": { "sha256": hash } }))
        .collect();
    let mut dependencies = vec![json!({
        "uri": format!("git+{}", of.repository),
        "digest": { "gitCommit": of.sources.commit.clone().unwrap_or_default() },
        "annotations": { "changedFiles": of.sources.changed },
    })];
    dependencies.extend(of.locks.iter().map(
        |(path, hash)| json!({ "uri": format!("file:{path}"), "digest": { "sha256": hash } }),
    ));
    let statement = json!({
        "_type": TYPE,
        "subject": subjects,
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{}/blob/v{VERSION}/xtask/src/package/mod.rs", of.repository),
                "externalParameters": {
                    "command": "cargo xtask package",
                    "sourceDateEpoch": epoch.seconds(),
                    "presets": of.presets,
                },
                "internalParameters": { "tools": of.tools },
                "resolvedDependencies": dependencies,
            },
            "runDetails": {
                "builder": { "id": format!("{}/xtask", of.repository), "version": { "etmetal": VERSION } },
            },
        },
    });
    Ok(serde_json::to_string_pretty(&statement)? + "\n")
}

/// The files that a statement is about, with their hashes.
///
/// # Errors
/// It is no statement of this kind.
pub fn subjects(text: &[u8]) -> Result<BTreeMap<String, String>> {
    let damaged = || format!("{} is no in-toto statement about a build", name());
    let statement: Value = serde_json::from_slice(text).with_context(damaged)?;
    ensure!(statement["_type"] == TYPE && statement["predicateType"] == PREDICATE, damaged());
    let subjects = statement["subject"].as_array().with_context(damaged)?;
    subjects
        .iter()
        .map(|subject| {
            let name = subject["name"].as_str().with_context(damaged)?;
            let hash = subject["digest"]["sha256"].as_str().with_context(damaged)?;
            Ok((name.to_owned(), hash.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_names_its_files_and_what_they_were_made_from() {
        let files = BTreeMap::from([("a.whl".to_owned(), "00".to_owned())]);
        let provenance = Provenance {
            repository: "https://example.org/etmetal".into(),
            sources: Sources { commit: Some("c0ffee".into()), ..Sources::default() },
            locks: [("Cargo.lock".to_owned(), "11".to_owned())].into(),
            ..Provenance::default()
        };
        let text = text(&provenance, &files, Epoch::parse("1700000000").unwrap()).unwrap();
        assert_eq!(subjects(text.as_bytes()).unwrap(), files);
        let value: Value = serde_json::from_str(&text).unwrap();
        let from = &value["predicate"]["buildDefinition"]["resolvedDependencies"];
        assert_eq!(from[0]["digest"]["gitCommit"], "c0ffee");
        assert_eq!(from[1]["uri"], "file:Cargo.lock");
        let error = subjects(b"{}").unwrap_err().to_string();
        assert!(error.ends_with("is no in-toto statement about a build"), "{error}");
    }
}
