//! The bill of materials and the provenance: do they say what SHA256SUMS says?

use std::collections::BTreeSet;

use serde_json::Value;

use super::Release;
use crate::package::{provenance, sbom, sums};

/// The files of the statement are those of SHA256SUMS, with the same hashes.
pub fn provenance(text: &[u8], release: &Release) -> Vec<String> {
    let own = provenance::name();
    let subjects = match provenance::subjects(text) {
        Ok(subjects) => subjects,
        Err(error) => return vec![format!("{error:#}")],
    };
    let names: BTreeSet<_> = subjects.keys().chain(release.sums.0.keys()).collect();
    let different = names.into_iter().filter(|name| **name != own);
    let different = different.filter(|name| subjects.get(*name) != release.sums.0.get(*name));
    different
        .map(|name| format!("{own} and {} do not have the same hash of {name}", sums::NAME))
        .collect()
}

/// The bill is one, of this version, and its references are to what is in it.
pub fn bill(text: &[u8]) -> Vec<String> {
    let name = sbom::name();
    let Ok(bill) = serde_json::from_slice::<Value>(text) else {
        return vec![format!("{name} is damaged: it is not JSON")];
    };
    if bill["bomFormat"] != "CycloneDX" || bill["specVersion"] != sbom::SPEC {
        return vec![format!("{name} is no bill of materials of CycloneDX {}", sbom::SPEC)];
    }
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let components =
        list(&bill["components"]).into_iter().chain([bill["metadata"]["component"].clone()]);
    let known: BTreeSet<String> =
        components.filter_map(|one| one["bom-ref"].as_str().map(str::to_owned)).collect();
    let dependencies = list(&bill["dependencies"]);
    let named = dependencies
        .iter()
        .flat_map(|one| list(&one["dependsOn"]).into_iter().chain([one["ref"].clone()]));
    let unknown = named.filter(|name| name.as_str().is_none_or(|name| !known.contains(name)));
    unknown.map(|reference| format!("{name} refers to {reference}, which is not in it")).collect()
}
