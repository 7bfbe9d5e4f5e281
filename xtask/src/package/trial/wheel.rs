//! The wheel and the sdist, in fresh environments.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::Trial;
use crate::process::Invocation;

/// Runs the model with numpy alone.
const NUMPY: &str = include_str!("run_numpy.py");
/// Runs it in ExecuTorch's own Python runtime.
const EXECUTORCH: &str = include_str!("run_executorch.py");

/// A fresh environment in `place`.
fn environment(trial: &Trial<'_>, place: &Path, name: &str) -> Result<PathBuf> {
    let root = place.join(name);
    trial.bare(trial.python, place).args(["-I", "-m", "venv"]).arg(&root).read()?;
    Ok(root)
}

fn pip(trial: &Trial<'_>, root: &Path, place: &Path) -> Invocation {
    let pip = trial.bare(root.join("bin/python"), place);
    pip.args(["-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet"])
}

fn site_packages(trial: &Trial<'_>, root: &Path, place: &Path) -> Result<PathBuf> {
    let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let told = trial.bare(root.join("bin/python"), place).args(["-I", "-c", ask]).read()?;
    Ok(PathBuf::from(told.trim()))
}

/// Runs one of the scripts on the model; it says which package it used.
fn run(
    trial: &Trial<'_>,
    root: &Path,
    place: &Path,
    script: &str,
    library: Option<&Path>,
) -> Result<()> {
    let mut command = trial.bare(root.join("bin/python"), place);
    if let Some(library) = library {
        command = command.env("ETMETAL_LIB", library);
    }
    let told = command.args(["-I", "-c", script]).arg(trial.model()).read()?;
    let package = told.trim();
    let own = root.canonicalize()?;
    ensure!(
        Path::new(package).starts_with(&own) || Path::new(package).starts_with(root),
        "not the installed package was used, but {package}"
    );
    Ok(())
}

/// With the packages of the build's environment at hand, but nothing of this project.
pub fn quick(trial: &Trial<'_>, place: &Path) -> Result<()> {
    let root = environment(trial, place, "venv")?;
    let wheel = trial.wheel()?;
    pip(trial, &root, place).args(["--no-index", "--no-deps"]).arg(wheel).read()?;
    let packages = site_packages(trial, &root, place)?;
    let theirs =
        trial.python.parent().and_then(Path::parent).context("an environment has a folder")?;
    let theirs = site_packages(trial, theirs, place)?;
    std::fs::write(packages.join("of-the-build.pth"), format!("{}\n", theirs.display()))?;
    trial.name_compiler(&packages.join("etmetal/lib/etmetal"))?;
    run(trial, &root, place, NUMPY, None)?;
    run(trial, &root, place, EXECUTORCH, None)
}

/// With what the wheel asks for, from the index.
pub fn full(trial: &Trial<'_>, place: &Path) -> Result<()> {
    let root = environment(trial, place, "venv-full")?;
    pip(trial, &root, place).args(["--only-binary", ":all:"]).arg(trial.wheel()?).read()?;
    let packages = site_packages(trial, &root, place)?;
    trial.name_compiler(&packages.join("etmetal/lib/etmetal"))?;
    run(trial, &root, place, NUMPY, None)
}

/// The sources, with the library of the archive in `prefix`.
pub fn sdist(trial: &Trial<'_>, prefix: &Path, place: &Path) -> Result<()> {
    let root = environment(trial, place, "venv-sdist")?;
    pip(trial, &root, place).arg(trial.release.join(super::super::sdist::name())).read()?;
    let library = prefix.join(format!("lib/libetmetal.{}", trial.target.library_extension()));
    run(trial, &root, place, NUMPY, Some(&library))
}
