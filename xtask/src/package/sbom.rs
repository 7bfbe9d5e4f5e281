//! What is inside of a release: a bill of materials in the form of CycloneDX 1.6.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::VERSION;
use super::crates::Crate;
use super::digest::sha256;
use super::epoch::Epoch;

/// The file's name.
pub fn name() -> String {
    format!("etmetal-{VERSION}.cdx.json")
}

/// The version of the form.
pub const SPEC: &str = "1.6";

/// Something beside crates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// `library`, or `file` for one that is shipped as it is.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its version, where it has one.
    pub version: Option<String>,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// Its package URL, where it has one.
    pub url: Option<String>,
    /// Its SHA-256, where it is a file.
    pub sha256: Option<String>,
    /// What it is here, for people.
    pub about: &'static str,
}

impl Part {
    /// A file is told from one of its name for another system by its hash.
    fn reference(&self) -> String {
        let hash = self.sha256.as_deref().unwrap_or_default();
        self.url.clone().unwrap_or_else(|| format!("file:{}#{hash}", self.name))
    }
}

/// The text of the bill for `crates` and `parts`.
///
/// # Errors
/// Never, for what is in memory.
pub fn text(crates: &[Crate], parts: &[Part], epoch: Epoch) -> Result<String> {
    let components: Vec<Value> =
        crates.iter().map(of_crate).chain(parts.iter().map(of_part)).collect();
    let root = format!("pkg:github/etmetal/etmetal@{VERSION}");
    let mut dependencies = BTreeMap::new();
    let own = crates.iter().filter(|one| one.is_own()).map(purl);
    let direct: Vec<_> = own.chain(parts.iter().map(Part::reference)).collect();
    dependencies.insert(root.clone(), direct);
    let by_id: BTreeMap<_, _> = crates.iter().map(|one| (one.id(), purl(one))).collect();
    for one in crates {
        let uses = one.uses.iter().filter_map(|id| by_id.get(id).cloned()).collect();
        dependencies.insert(purl(one), uses);
    }
    let dependencies: Vec<_> = dependencies
        .into_iter()
        .map(|(reference, on)| json!({ "ref": reference, "dependsOn": on }))
        .collect();
    let bill = json!({
        "$schema": format!("http://cyclonedx.org/schema/bom-{SPEC}.schema.json"),
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": serial(&components)?,
        "version": 1,
        "metadata": {
            "timestamp": epoch.iso(),
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": "etmetal",
                "version": VERSION,
                "purl": root,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

/// Made of the content, so that the same bill has the same number.
fn serial(components: &[Value]) -> Result<String> {
    let hash = sha256(serde_json::to_string(components)?.as_bytes());
    // Version 8 of UUIDs is for numbers made in ways of one's own.
    Ok(format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &hash[..8],
        &hash[8..12],
        &hash[12..15],
        &hash[15..18],
        &hash[18..30]
    ))
}

fn purl(one: &Crate) -> String {
    // `+` has a meaning of its own in such URLs.
    format!("pkg:cargo/{}@{}", one.name, one.version.replace('+', "%2B"))
}

fn of_crate(one: &Crate) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(one),
        "name": one.name,
        "version": one.version,
        "purl": purl(one),
        "licenses": [{ "expression": one.licence }],
    });
    if let Some(checksum) = &one.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

fn of_part(part: &Part) -> Value {
    let mut component = json!({
        "type": part.kind,
        "bom-ref": part.reference(),
        "name": part.name,
        "licenses": [{ "expression": part.licence }],
        "description": part.about,
    });
    if let Some(version) = &part.version {
        component["version"] = json!(version);
    }
    if let Some(url) = &part.url {
        component["purl"] = json!(url);
    }
    if let Some(sha256) = &part.sha256 {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_the_bill_is_to_something_in_it() {
        let one = |name: &str, uses: &[&str], own: bool| Crate {
            name: name.into(),
            version: "1.0.0+abi".into(),
            licence: "MIT".into(),
            authors: Vec::new(),
            folder: "/".into(),
            checksum: (!own).then(|| "00".into()),
            uses: uses.iter().map(|name| format!("{name} 1.0.0+abi")).collect(),
        };
        let crates = [one("etmetal", &["half"], true), one("half", &[], false)];
        let part = Part {
            kind: "file",
            name: "libexecutorch.so".into(),
            version: None,
            licence: "BSD-3-Clause".into(),
            url: None,
            sha256: Some("11".into()),
            about: "ExecuTorch's runtime",
        };
        let epoch = Epoch::parse("1700000000").unwrap();
        let text = text(&crates, std::slice::from_ref(&part), epoch).unwrap();
        let bill: Value = serde_json::from_str(&text).unwrap();
        let known: Vec<_> = bill["components"]
            .as_array()
            .unwrap()
            .iter()
            .chain([&bill["metadata"]["component"]])
            .map(|component| component["bom-ref"].as_str().unwrap())
            .collect();
        assert_eq!(known.len(), 4);
        for dependency in bill["dependencies"].as_array().unwrap() {
            let on = dependency["dependsOn"].as_array().unwrap();
            for reference in on.iter().chain([&dependency["ref"]]) {
                assert!(known.contains(&reference.as_str().unwrap()), "{reference}");
            }
        }
        assert_eq!(bill["dependencies"][0]["ref"], "pkg:cargo/etmetal@1.0.0%2Babi");
        assert_eq!(bill["dependencies"][0]["dependsOn"][0], "pkg:cargo/half@1.0.0%2Babi");
        let serial = bill["serialNumber"].as_str().unwrap();
        assert_eq!(serial.len(), "urn:uuid:".len() + 36, "{serial}");
    }
}
