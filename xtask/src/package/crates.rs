//! The crates that are compiled into what is shipped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::workspace::{Workspace, cargo};

/// The packages that are shipped; their dependencies come along.
const ROOTS: [&str; 2] = ["etmetal", "etmetal-cli"];

/// A crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// Who wrote it.
    pub authors: Vec<String>,
    /// The folder of its sources.
    pub folder: PathBuf,
    /// The SHA-256 of its package; none for those of this workspace.
    pub checksum: Option<String>,
    /// The names and versions of those that it uses, as in `half 2.7.1`.
    pub uses: Vec<String>,
}

impl Crate {
    /// As in `half 2.7.1`.
    pub fn id(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    /// Whether it is this project's.
    pub fn is_own(&self) -> bool {
        self.checksum.is_none()
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    authors: Vec<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct LockFile {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// The crates in what is shipped for `triple`, by name.
///
/// # Errors
/// cargo does not tell, or a crate has no licence.
pub fn shipped(workspace: &Workspace, triple: &str) -> Result<Vec<Crate>> {
    let text = cargo(&workspace.root)
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", triple])
        .read()?;
    let metadata: Metadata = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    let checksums = checksums(&workspace.root)?;
    let reached = reach(&metadata);
    let packages: BTreeMap<_, _> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let name = |id: &str| packages.get(id).map(|p| format!("{} {}", p.name, p.version));
    let mut crates = Vec::new();
    for (id, uses) in &reached {
        let package = packages.get(id).with_context(|| format!("cargo knows no {id}"))?;
        let shown = name(id).unwrap_or_default();
        let folder = package.manifest_path.parent().context("a manifest lies in a folder")?;
        crates.push(Crate {
            name: package.name.clone(),
            version: package.version.clone(),
            licence: licence(package)?,
            authors: package.authors.clone(),
            folder: folder.to_owned(),
            checksum: checksums.get(&shown).cloned(),
            uses: uses.iter().filter_map(|id| name(id)).collect(),
        });
    }
    crates.sort();
    Ok(crates)
}

fn licence(package: &Package) -> Result<String> {
    let given = package.license.as_ref().with_context(|| {
        format!("the crate {} {} states no licence", package.name, package.version)
    })?;
    // An older way to write it.
    Ok(given.replace('/', " OR "))
}

/// The packages that the shipped ones are made of, with what each uses.
fn reach(metadata: &Metadata) -> BTreeMap<&str, BTreeSet<&str>> {
    let nodes: BTreeMap<_, _> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let roots = metadata.packages.iter().filter(|package| ROOTS.contains(&package.name.as_str()));
    let mut open: Vec<_> = roots.map(|package| package.id.as_str()).collect();
    let mut reached = BTreeMap::new();
    while let Some(id) = open.pop() {
        if reached.contains_key(id) {
            continue;
        }
        let uses = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        // Not what only builds or tests.
        let uses = uses.filter(|used| used.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        let uses: BTreeSet<_> = uses.map(|used| used.pkg.as_str()).collect();
        open.extend(&uses);
        reached.insert(id, uses);
    }
    reached
}

fn checksums(root: &Path) -> Result<BTreeMap<String, String>> {
    let path = root.join("Cargo.lock");
    let context = || format!("cannot read {}", path.display());
    let text = std::fs::read_to_string(&path).with_context(context)?;
    let lock: LockFile = toml::from_str(&text).with_context(context)?;
    let packages = lock.package.into_iter();
    Ok(packages.filter_map(|p| Some((format!("{} {}", p.name, p.version), p.checksum?))).collect())
}
