//! The PyTorch in use: found without importing it, which would take seconds and load its
//! libraries.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::process::Invocation;

/// Finds the package's folder without running its code.
const PROBE: &str = "import importlib.util as u; s = u.find_spec('torch'); \
                     print(s.submodule_search_locations[0] if s else '')";

/// An installed PyTorch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torch {
    /// Its folder, `site-packages/torch`.
    pub root: PathBuf,
}

impl Torch {
    /// The PyTorch of the Python that is active: that of `VIRTUAL_ENV`, else `python3`.
    pub fn find(environment: &Environment) -> Option<Self> {
        let active = environment.get("VIRTUAL_ENV").map(|v| Path::new(v).join("bin/python"));
        let python =
            active.filter(|path| path.exists()).or_else(|| environment.which("python3"))?;
        Self::of(&python)
    }

    /// The PyTorch that this Python would import.
    pub fn of(python: &Path) -> Option<Self> {
        let asked = Invocation::new(python).args(["-I", "-c", PROBE]).read().ok()?;
        Self::at(Path::new(asked.trim()))
    }

    /// The PyTorch in this folder.
    pub fn at(root: &Path) -> Option<Self> {
        root.join("lib").is_dir().then(|| Self { root: root.to_owned() })
    }

    /// Folders in which its wheels keep libraries of others, in the order of importance.
    pub fn library_folders(&self) -> Vec<PathBuf> {
        let beside = self.root.with_file_name("torch.libs");
        vec![self.root.join("lib"), self.root.join(".dylibs"), beside]
    }

    /// The headers of the C ABI that AOTInductor's models call, if they are installed.
    pub fn aoti_headers(&self) -> Option<PathBuf> {
        let folder = self.root.join("include");
        folder.join("torch/csrc/inductor/aoti_torch/c/shim.h").is_file().then_some(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torch_is_found_without_being_imported() {
        let folder = tempfile::tempdir().unwrap();
        let torch = folder.path().join("torch");
        let headers = torch.join("include/torch/csrc/inductor/aoti_torch/c");
        std::fs::create_dir_all(torch.join("lib")).unwrap();
        std::fs::create_dir_all(&headers).unwrap();
        std::fs::write(headers.join("shim.h"), "").unwrap();
        std::fs::write(torch.join("__init__.py"), "raise SystemExit('imported')").unwrap();
        // `-I` ignores PYTHONPATH; a script in front of the interpreter sets the path instead.
        let python = folder.path().join("python");
        let script = format!(
            "#!/bin/sh\nshift 2\nexec python3 -c \"import sys; sys.path.insert(0, '{}'); $1\"\n",
            folder.path().display()
        );
        std::fs::write(&python, script).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = Torch::of(&python).unwrap();
        assert_eq!(found.root, torch);
        assert_eq!(found.aoti_headers(), Some(torch.join("include")));
        assert_eq!(Torch::at(Path::new("")), None);
    }
}
