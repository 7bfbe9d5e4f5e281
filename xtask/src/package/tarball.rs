//! The archive of a stage: what `cargo xtask install` gives, for machines that never saw ours.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::VERSION;
use super::pyproject::{LICENCES, THIRD_PARTY};
use super::strip::Strip;
use super::target::Target;
use super::tree::{Member, Tree};
use crate::audit::stage::binaries;

/// Names the shader compiler of the machine that built the stage.
const MACHINE: &str = "lib/etmetal/msl-compiler";

/// The name without the ending, which is also that of the folder inside.
pub fn name(target: &Target) -> String {
    format!("etmetal-{VERSION}-{}", target.name)
}

/// The stage as it is shipped: stripped, and without what is of the machine that built it.
///
/// # Errors
/// The stage cannot be read or stripped.
pub fn stage(stage: &Path, strip: &Strip) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.copy_all(stage, "")?;
    tree.remove(MACHINE);
    for file in binaries(stage)? {
        let path = file.strip_prefix(stage).ok().and_then(Path::to_str);
        let path = path.context("a file of the stage lies in it, with a name in UTF-8")?;
        // ExecuTorch's own libraries are shipped as they came.
        if !path.starts_with("lib/libexecutorch") {
            let runs = matches!(tree.get(path), Some(Member::File(_, true)));
            tree.add(path, Member::File(strip.stripped(&file)?, runs));
        }
    }
    Ok(tree)
}

/// For applications, which have it from the xcframework.
const STATIC: &str = "lib/libetmetal.a";

/// The archive's members: `stage` with documentation, licences and shaders.
///
/// # Errors
/// A file of the repository cannot be read.
pub fn tree(stage: &Tree, target: &Target, root: &Path, third_party: &str) -> Result<Tree> {
    let mut tree = stage.clone();
    tree.remove(STATIC);
    for file in ["README.md", "CHANGELOG.md"] {
        tree.copy(&root.join(file), format!("share/doc/etmetal/{file}"))?;
    }
    for file in LICENCES {
        tree.copy(&root.join(file), format!("share/licenses/etmetal/{file}"))?;
    }
    tree.file(format!("share/licenses/etmetal/{THIRD_PARTY}"), third_party);
    tree.copy_all(&root.join("runtime/msl"), "share/etmetal/shaders")?;
    Ok(tree.within(&name(target)))
}
