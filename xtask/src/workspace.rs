//! Where things are: the sources, and everything that is made from them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::process::Invocation;

/// The folders of a working copy.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The repository.
    pub root: PathBuf,
    /// Cargo's target folder; whatever is made lies in it.
    pub target: PathBuf,
}

impl Workspace {
    /// The repository that this program was built from; starts no program.
    ///
    /// # Errors
    /// The sources have moved.
    pub fn root() -> Result<PathBuf> {
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        Ok(here.parent().context("xtask is not inside the repository")?.to_owned())
    }

    /// The working copy that this program was built from, with the target folder that cargo
    /// uses for it: the one that this program lies in, which is faster to see than to ask for.
    ///
    /// # Errors
    /// The sources have moved, or cargo does not answer.
    pub fn find() -> Result<Self> {
        let root = Self::root()?;
        let own = std::env::current_exe().ok().and_then(|program| target_of(&program));
        let target = own.map_or_else(|| ask_cargo(&root), Ok)?;
        Ok(Self { root, target })
    }

    /// What the orchestrator keeps for itself: stamps, logs, the build lock.
    pub fn state(&self) -> PathBuf {
        self.target.join("xtask")
    }

    /// What the audit of a preset's last build found, as JSON.
    pub fn audit_record(&self, preset: &str, triple: &str) -> PathBuf {
        self.state().join("audit").join(format!("{preset}-{triple}.json"))
    }

    /// The Python environment with the ExecuTorch SDK.
    pub fn venv(&self) -> PathBuf {
        self.target.join("venv")
    }

    /// Where ExecuTorch's sources are fetched to.
    pub fn executorch(&self) -> PathBuf {
        self.target.join("executorch")
    }

    /// How the sources of the last build were compiled, for editors (`.clangd` names the folder).
    pub fn compile_commands(&self) -> PathBuf {
        self.target.join("compile_commands.json")
    }

    /// CMake's build folder.
    pub fn cmake(&self, preset: &str, triple: &str) -> PathBuf {
        self.target.join("cmake").join(preset).join(triple)
    }

    /// Where the finished build of a preset is put.
    pub fn stage(&self, preset: &str, triple: &str) -> PathBuf {
        self.target.join("stage").join(preset).join(triple)
    }

    /// `path` as it is shown to people: relative to the repository where it lies inside.
    pub fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// The target folder that holds `program`, by the tag that cargo leaves in it.
fn target_of(program: &Path) -> Option<PathBuf> {
    let tagged = |folder: &&Path| {
        let tag = std::fs::read_to_string(folder.join("CACHEDIR.TAG"));
        tag.is_ok_and(|text| text.contains("created by cargo"))
    };
    program.ancestors().skip(1).find(tagged).map(Path::to_owned)
}

fn ask_cargo(root: &Path) -> Result<PathBuf> {
    let metadata = cargo(root)
        .args(["metadata", "--no-deps", "--format-version=1"])
        .read()
        .with_context(|| format!("cannot ask cargo about {}", root.display()))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).context("cargo metadata is not JSON")?;
    let target = metadata["target_directory"].as_str();
    target.map(PathBuf::from).context("cargo metadata names no target_directory")
}

/// The cargo that runs this program, in `folder`.
pub fn cargo(folder: &Path) -> Invocation {
    let program = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    Invocation::new(program).cwd(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_folder_is_the_one_that_holds_this_program() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found = target_of(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(found.canonicalize().unwrap(), ask_cargo(root).unwrap().canonicalize().unwrap());
        assert_eq!(Workspace::find().unwrap().target, found);
        assert_eq!(target_of(Path::new("/bin/sh")), None);
    }
}
