//! What exporting a model needs: PyTorch in the Python environment, and the package `etmetal`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::process::Invocation;
use crate::steps::{Action, Input, Step};
use crate::venv::{self, Lock, Venv};
use crate::workspace::Workspace;

/// Where PyTorch comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TorchSource {
    /// The wheel of the lock file; on Linux with stubs for its NVIDIA libraries.
    #[default]
    Stubs,
    /// The same with NVIDIA's own libraries: several gigabytes.
    Full,
    /// An index of wheels for the CPU alone, as PyTorch publishes one: a fraction of the size.
    /// Their hashes are those that the index gives.
    Index(String),
}

/// The name of the program that makes stubs, in the orchestrator's own folder.
const STUBS: &str = "xtask/src/export/nvidia_stubs.py";

const HINT: &str = "see the log. PyTorch's wheel for Linux is a download of 530 MB and takes \
                    1.5 GB on disk: the network, a proxy or a full disk may be in the way. What \
                    was downloaded whole is not downloaded again. --torch-index names an index \
                    of wheels for the CPU alone, which are smaller";

/// The steps after that which makes `venv`; `cxx` compiles the stubs.
///
/// # Errors
/// A lock file is missing.
pub fn steps(
    workspace: &Workspace,
    venv: &Venv,
    torch: &TorchSource,
    cxx: &Path,
) -> Result<Vec<Step>> {
    let lock = |name| Lock::load(workspace, name);
    let packages = venv.site_packages();
    let mut steps = vec![
        torch_step(venv, &lock("torch")?, torch, packages.join("torch/__init__.py")),
        venv.fetch_step(
            "Python packages for exporting",
            &lock("export")?,
            vec![packages.join("lief/__init__.py")],
        ),
    ];
    if cfg!(target_os = "linux") {
        let script = workspace.root.join(STUBS);
        let library = packages.join("torch/lib");
        let run = |verb: &str| venv.run("python").arg("-I").arg(&script).arg(verb).arg(&library);
        match torch {
            TorchSource::Stubs | TorchSource::Index(_) => {
                // An import that fails is told here, and not by the first export.
                let import = venv.run("python").args(["-I", "-c", "import torch"]);
                steps.push(stubs_step([run("make").arg(cxx), import], script, library));
            }
            TorchSource::Full => {
                let mut step = venv.fetch_step(
                    "NVIDIA libraries",
                    &lock("nvidia")?,
                    vec![packages.join("nvidia")],
                );
                step.inputs.push(Input::Step(TORCH_KEY.to_owned()));
                step.actions.insert(0, Action::Run(run("remove")));
                step.key = LIBRARIES_KEY.to_owned();
                steps.push(step);
            }
        }
    }
    Ok(steps)
}

const TORCH_KEY: &str = "venv-torch";
const LIBRARIES_KEY: &str = "venv-torch-libraries";

fn torch_step(venv: &Venv, lock: &Lock, torch: &TorchSource, output: PathBuf) -> Step {
    let mut step = venv.fetch_step("PyTorch", lock, vec![output]);
    if let TorchSource::Index(index) = torch {
        let version = lock.version_of("torch").unwrap_or_default();
        step.actions = vec![Action::Fetch(
            venv.pip()
                .args(["--no-deps", "--only-binary", ":all:", "--force-reinstall"])
                .args(["--index-url", index])
                .arg(format!("torch=={version}")),
        )];
    }
    step.hint = HINT.to_owned();
    step
}

fn stubs_step(commands: [Invocation; 2], script: PathBuf, library: PathBuf) -> Step {
    Step {
        name: "stubs for NVIDIA libraries",
        key: LIBRARIES_KEY.to_owned(),
        inputs: vec![
            Input::Step(venv::KEY.to_owned()),
            Input::Step(TORCH_KEY.to_owned()),
            Input::Path(script),
        ],
        actions: commands.map(Action::Run).into(),
        outputs: vec![library.join("nvidia-stubs.txt").into()],
        hint: "see the log; readelf (binutils) and a C++ compiler are needed".to_owned(),
    }
}

/// Python of the environment with the package `etmetal` and its examples.
pub fn python(workspace: &Workspace, venv_python: &Path, library: &Path) -> Invocation {
    let package = workspace.root.join("python");
    let paths = [package.join("src"), package.clone()];
    let paths = paths.iter().map(|path| path.as_os_str()).collect::<Vec<_>>();
    Invocation::new(venv_python)
        .without_env("PYTHONHOME")
        .env("PYTHONPATH", paths.join(std::ffi::OsStr::new(":")))
        .env("ETMETAL_LIB", library)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::runner::render;
    use crate::toolchain::Version;
    use crate::venv::Python;

    fn shown(torch: &TorchSource) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
        let workspace = Workspace { target: root.join("target"), root: root.clone() };
        let python = Python { path: "/usr/bin/python3.11".into(), version: Version(3, 11, 2) };
        let venv = Venv::new(&workspace, python);
        let steps = steps(&workspace, &venv, torch, Path::new("/usr/bin/c++")).unwrap();
        let text: Vec<_> =
            steps.iter().enumerate().map(|(i, s)| render(i, steps.len(), s, Some("new"))).collect();
        text.join("\n").replace(&root.display().to_string(), "ROOT")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn stubs_take_the_place_of_nvidia_libraries() {
        insta::assert_snapshot!(shown(&TorchSource::Stubs));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nvidia_libraries_take_the_place_of_stubs() {
        let text = shown(&TorchSource::Full);
        let last = text.split_once("# [3/3]").unwrap().1;
        assert!(last.contains("nvidia_stubs.py remove ROOT/target/venv"), "{text}");
        assert!(last.contains("requirements-nvidia.txt"), "{text}");
    }

    #[test]
    fn an_index_is_asked_for_the_locked_version() {
        let text = shown(&TorchSource::Index("https://example.org/cpu".into()));
        assert!(text.contains("--index-url https://example.org/cpu"), "{text}");
        assert!(text.contains("torch==2."), "{text}");
        assert!(!text.contains("requirements-torch.txt"), "{text}");
    }
}
