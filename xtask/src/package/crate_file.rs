//! The crate as it would be published: is everything in it that it needs?

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::VERSION;
use super::tree::{Member, Tree};
use crate::workspace::{Workspace, cargo};

/// Files without which the crate, or its feature `executorch`, cannot be built.
const NEEDED: &[&str] = &[
    "Cargo.toml",
    "CMakeLists.txt",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "build.rs",
    "cmake/targets.cmake",
    "cpp/callback.cpp",
    "cpp/glue.cpp",
    "msl/attention.metal",
    "src/device/host/msl/include/msl.h",
    "src/lib.rs",
];

/// Beginnings of paths that have no place in it: packages of their own.
const FOREIGN: &[&str] = &["cli/", "standin/", "target/"];

/// Makes the crate's package and checks what is in it; gives back the file.
///
/// # Errors
/// cargo refuses, or the package lacks something.
pub fn check(workspace: &Workspace) -> Result<PathBuf> {
    let target = workspace.state().join("crate");
    cargo(&workspace.root)
        .args(["package", "--package", "etmetal", "--no-verify", "--allow-dirty", "--quiet"])
        .arg("--target-dir")
        .arg(&target)
        .read()
        .context("the crate etmetal cannot be packaged")?;
    let file = target.join(format!("package/etmetal-{VERSION}.crate"));
    let tree = read(&file)?;
    for name in NEEDED {
        ensure!(tree.get(name).is_some(), "the crate's package lacks {name}");
    }
    let foreign = tree.iter().find(|(path, _)| FOREIGN.iter().any(|start| path.starts_with(start)));
    ensure!(foreign.is_none(), "the crate's package has {foreign:?}, which is not its own");
    Ok(file)
}

/// The files of a crate's package, without the folder that they lie in.
///
/// # Errors
/// It cannot be read.
pub fn read(file: &Path) -> Result<Tree> {
    let context = || format!("cannot read {}", file.display());
    let bytes = std::fs::read(file).with_context(context)?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&*bytes));
    let mut tree = Tree::default();
    for entry in archive.entries().with_context(context)? {
        let mut entry = entry.with_context(context)?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let (_, path) = path.split_once('/').with_context(context)?;
        let path = path.to_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).with_context(context)?;
        tree.add(path, Member::File(content, false));
    }
    Ok(tree)
}
