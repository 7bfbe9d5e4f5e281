//! `cargo xtask clean`: removes what builds have left.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::preset::{Folder, Source as _};
use crate::steps::{Action, BuildLock};
use crate::workspace::Workspace;

/// `cargo xtask clean`.
#[derive(Debug, Clone, clap::Args)]
pub struct Clean {
    /// The preset whose build folders and stages go
    #[arg(long, default_value = "metal", value_name = "NAME")]
    preset: String,
    /// Everything of every preset, with the Python environment and fetched sources; what cargo
    /// itself has made stays (`cargo clean` removes that)
    #[arg(long, conflicts_with = "preset")]
    all: bool,
    /// Show the commands as shell and do nothing
    #[arg(long)]
    dry_run: bool,
}

impl Clean {
    /// Removes.
    ///
    /// # Errors
    /// There is no such preset, or the file system refuses.
    pub fn run(&self) -> Result<()> {
        let workspace = Workspace::find()?;
        let found = if self.all { everything(&workspace) } else { of(&workspace, &self.preset)? };
        let found: Vec<_> =
            found.into_iter().filter(|path| path.symlink_metadata().is_ok()).collect();
        if found.is_empty() {
            eprintln!("nothing to remove");
            return Ok(());
        }
        let actions = found.iter().cloned().map(Action::Remove);
        if self.dry_run {
            actions.for_each(|action| println!("{action}"));
            return Ok(());
        }
        let _lock = BuildLock::take(&workspace.state(), |text| eprintln!("{text}"))?;
        for action in actions {
            action.perform(&mut |_| Ok(()))?;
        }
        for path in found.iter().filter(|path| !path.starts_with(workspace.state())) {
            eprintln!("removed: {}", workspace.shown(path));
        }
        Ok(())
    }
}

/// What every preset has left, and what they share.
fn everything(workspace: &Workspace) -> BTreeSet<PathBuf> {
    let state = workspace.state();
    [
        workspace.target.join("cmake"),
        workspace.target.join("stage"),
        workspace.executorch(),
        workspace.venv(),
        workspace.compile_commands(),
        state.join("stamps"),
        state.join("logs"),
        state.join("python.json"),
        state.join("tools.json"),
    ]
    .into()
}

/// What the preset `name` has left.
fn of(workspace: &Workspace, name: &str) -> Result<BTreeSet<PathBuf>> {
    let names = Folder::new(&workspace.root).names();
    ensure!(
        names.iter().any(|known| known == name),
        "there is no preset `{name}`; there are {}",
        names.join(", ")
    );
    let folders = ["cmake", "stage"].map(|folder| workspace.target.join(folder).join(name));
    let mut found: BTreeSet<_> = folders.iter().cloned().collect();
    for triple in folders.iter().flat_map(|folder| entries(folder)) {
        for step in ["configure", "compile", "stage", "install"] {
            let key = format!("{step}-{name}-{triple}");
            found.insert(workspace.state().join("stamps").join(format!("{key}.json")));
            found.insert(workspace.state().join("logs").join(format!("{key}.log")));
        }
    }
    Ok(found)
}

/// The names in `folder`.
fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_loses_what_is_its_own_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let workspace =
            Workspace { root: folder.path().to_owned(), target: folder.path().join("target") };
        std::fs::create_dir(folder.path().join("presets")).unwrap();
        for preset in ["metal", "metal-debug"] {
            std::fs::write(folder.path().join(format!("presets/{preset}.toml")), "").unwrap();
            for inner in ["cmake", "stage"] {
                std::fs::create_dir_all(workspace.target.join(inner).join(preset).join("t"))
                    .unwrap();
            }
        }
        let found = of(&workspace, "metal").unwrap();
        let shown: Vec<_> =
            found.iter().map(|path| workspace.shown(path).to_string() + "\n").collect();
        insta::assert_snapshot!(shown.concat(), @"
        target/cmake/metal
        target/stage/metal
        target/xtask/logs/compile-metal-t.log
        target/xtask/logs/configure-metal-t.log
        target/xtask/logs/install-metal-t.log
        target/xtask/logs/stage-metal-t.log
        target/xtask/stamps/compile-metal-t.json
        target/xtask/stamps/configure-metal-t.json
        target/xtask/stamps/install-metal-t.json
        target/xtask/stamps/stage-metal-t.json
        ");
        assert_eq!(
            of(&workspace, "../metal").unwrap_err().to_string(),
            "there is no preset `../metal`; there are metal, metal-debug"
        );
        assert!(everything(&workspace).iter().all(|path| path.starts_with(&workspace.target)));
    }
}
