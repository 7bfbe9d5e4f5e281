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
    /// The working copy that this program was built from, with the target folder that cargo
    /// uses for it (`CARGO_TARGET_DIR` and cargo's configuration included).
    ///
    /// # Errors
    /// The sources have moved, or cargo does not answer.
    pub fn find() -> Result<Self> {
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = here.parent().context("xtask is not inside the repository")?.to_owned();
        let metadata = cargo(&root)
            .args(["metadata", "--no-deps", "--format-version=1"])
            .read()
            .with_context(|| format!("cannot ask cargo about {}", root.display()))?;
        let metadata: serde_json::Value =
            serde_json::from_str(&metadata).context("cargo metadata is not JSON")?;
        let target = metadata["target_directory"]
            .as_str()
            .context("cargo metadata names no target_directory")?;
        Ok(Self { root, target: PathBuf::from(target) })
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

/// The cargo that runs this program, in `folder`.
pub fn cargo(folder: &Path) -> Invocation {
    let program = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    Invocation::new(program).cwd(folder)
}
