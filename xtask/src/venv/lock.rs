//! Lock files: pinned packages with the hashes of their wheels.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::workspace::Workspace;

/// A lock file of the repository.
#[derive(Debug, Clone)]
pub struct Lock {
    /// What it is for, as in `requirements-NAME.txt`.
    pub name: &'static str,
    /// The file.
    pub path: PathBuf,
    text: String,
}

impl Lock {
    /// Reads `xtask/lock/requirements-NAME.txt`.
    ///
    /// # Errors
    /// It is not there.
    pub fn load(workspace: &Workspace, name: &'static str) -> Result<Self> {
        let path = workspace.root.join(format!("xtask/lock/requirements-{name}.txt"));
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read the lock file {}", path.display()))?;
        Ok(Self { name, path, text })
    }

    /// The lines of `package`: its version and the hashes of its wheels.
    pub fn requirement(&self, package: &str) -> Option<String> {
        let begins = format!("{package}==");
        let mut lines = self.text.lines().skip_while(|line| !line.starts_with(&begins));
        let first = lines.next()?;
        let hashes = lines.take_while(|line| line.starts_with(' '));
        Some([first].into_iter().chain(hashes).map(|line| format!("{line}\n")).collect())
    }

    /// The version that `package` is pinned to, where it is.
    pub fn version_of(&self, package: &str) -> Option<&str> {
        self.text.lines().find_map(|line| {
            let pinned = line.strip_prefix(package)?.strip_prefix("==")?;
            pinned.split([' ', ';', '\\']).next()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_package_of_every_lock_file_is_pinned_with_hashes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
        let workspace = Workspace { target: root.join("target"), root };
        let lock = |name| Lock::load(&workspace, name).unwrap();
        assert_eq!(lock("sdk").version_of("executorch"), Some("1.5.1"));
        assert_eq!(lock("sdk").version_of("execu"), None);
        let one = lock("sdk").requirement("executorch").unwrap();
        assert!(one.starts_with("executorch==1.5.1 ") && !one.contains("ninja"), "{one}");
        assert!(one.lines().count() > 5 && !one.trim_end().ends_with('\\'), "{one}");
        assert!(lock("bench").version_of("numpy").is_some());
        assert!(lock("zig").version_of("ziglang").is_some());
        for name in ["sdk", "bench", "zig", "torch", "export", "python-tests"] {
            let text = lock(name).text;
            let lines = text.lines().filter(|l| !l.trim_start().starts_with('#'));
            let (hashes, packages): (Vec<_>, Vec<_>) =
                lines.partition(|line| line.starts_with("    --hash=sha256:"));
            assert!(packages.iter().all(|p| p.contains("==") && p.ends_with('\\')), "{packages:?}");
            assert!(hashes.len() > packages.len() * 5, "{name}: one hash a platform");
        }
    }
}
