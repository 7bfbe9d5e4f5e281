//! Finding a Python that can make the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::process::Invocation;
use crate::toolchain::install::{Installer, Package};
use crate::toolchain::{Version, identity};

/// The oldest and newest Python 3 that the SDK has wheels for.
const MINORS: std::ops::RangeInclusive<u32> = 10..=14;
/// The same for people.
pub const OLDEST_MINOR: &str = "3.10";
/// The same for people.
pub const NEWEST_MINOR: &str = "3.14";

/// Names that are tried, in order.
const NAMES: [&str; 6] =
    ["python3.13", "python3.12", "python3.11", "python3.10", "python3", "python"];

/// An interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// Its real path, not that of a wrapper.
    pub path: PathBuf,
    /// Its version.
    pub version: Version,
}

/// Run by a candidate: who it is, and whether it can do the job. One in a virtual environment
/// tells the interpreter that made it: that outlives the environment, which may be the very one
/// that is made anew.
const PROBE: &str = "\
import sys
try:
    import venv, ensurepip
    able = 'venv'
except ImportError as error:
    able = error.name
print(sys.implementation.name, '%d.%d.%d' % sys.version_info[:3], sys.maxsize > 2**32, able)
print(getattr(sys, '_base_executable', None) or sys.executable)
";

impl Python {
    /// The interpreter that `ETMETAL_PYTHON` names, else the first that is usable of
    /// `python3.13` … `python3.10`, `python3`, `python`.
    ///
    /// # Errors
    /// None is usable: what is wrong with each, and how to install one.
    pub fn find(environment: &Environment, installer: Installer) -> Result<Self> {
        if let Some(named) = environment.get("ETMETAL_PYTHON") {
            let path = environment.which(named).context("there is no such program");
            return path
                .and_then(|path| Self::probe(&path))
                .with_context(|| format!("ETMETAL_PYTHON={}", named.display()));
        }
        let mut rejected = String::new();
        for path in NAMES.iter().flat_map(|name| environment.which_all(*name)) {
            match Self::probe(&path) {
                Ok(python) => return Ok(python),
                Err(error) => rejected += &format!("\n  {}: {error:#}", path.display()),
            }
        }
        bail!(
            "no usable Python found: {OLDEST_MINOR} to {NEWEST_MINOR} with its venv module is \
             needed.{rejected}\nInstall one: {}\nor set ETMETAL_PYTHON to the path of one",
            installer.command(Package::Python)
        )
    }

    fn probe(path: &Path) -> Result<Self> {
        let asked = Invocation::new(path).args(["-I", "-c", PROBE]).read();
        let answer = asked.map_err(|error| {
            let text = error.to_string();
            anyhow::anyhow!("does not run: {}", text.lines().last().unwrap_or_default().trim())
        })?;
        let mut lines = answer.lines();
        let words: Vec<_> = lines.next().unwrap_or_default().split_whitespace().collect();
        let [name, version, wide, able] = words[..] else { bail!("gives a strange answer") };
        let version = Version::in_text(version).context("gives a strange version")?;
        let executable = lines.next().context("does not tell where it is")?;
        ensure!(name == "cpython", "is {name}, not CPython");
        ensure!(
            version.0 == 3 && MINORS.contains(&version.1),
            "is Python {version}; {OLDEST_MINOR} to {NEWEST_MINOR} is needed"
        );
        ensure!(wide == "True", "is a 32-bit Python {version}");
        ensure!(able == "venv", "Python {version} has no module `{able}`");
        Ok(Self { path: PathBuf::from(executable), version })
    }
}

/// The last answer of [`Python::find`], valid while what it depends on stays the same: some
/// interpreters are behind wrappers that take long to answer.
#[derive(Debug, Serialize, Deserialize)]
struct Remembered {
    search: Vec<Option<OsString>>,
    path: PathBuf,
    version: (u32, u32, u32),
    identity: String,
}

fn search(environment: &Environment) -> Vec<Option<OsString>> {
    ["PATH", "ETMETAL_PYTHON"].iter().map(|name| environment.get(name).cloned()).collect()
}

/// [`Python::find`], asking no interpreter if the answer that [`remember`] left at `memory` is
/// still good.
///
/// # Errors
/// As [`Python::find`].
pub fn find_again(
    environment: &Environment,
    installer: Installer,
    memory: &Path,
) -> Result<Python> {
    let known = std::fs::read(memory).ok();
    let known: Option<Remembered> = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match known {
        Some(known)
            if known.search == search(environment)
                && known.path.exists()
                && known.identity == identity(&known.path) =>
        {
            let (major, minor, patch) = known.version;
            Ok(Python { path: known.path, version: Version(major, minor, patch) })
        }
        _ => Python::find(environment, installer),
    }
}

/// Leaves `python` at `memory` for [`find_again`].
///
/// # Errors
/// The file system refuses.
pub fn remember(environment: &Environment, python: &Python, memory: &Path) -> Result<()> {
    let Version(major, minor, patch) = python.version;
    let known = Remembered {
        search: search(environment),
        path: python.path.clone(),
        version: (major, minor, patch),
        identity: identity(&python.path),
    };
    std::fs::write(memory, serde_json::to_vec(&known)?)
        .with_context(|| format!("cannot write {}", memory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venv::tests::FakePrograms;

    fn answers(version: &str, able: &str) -> String {
        format!("echo 'cpython {version} True {able}'; echo /real/python{version}")
    }

    fn find(fake: &FakePrograms) -> Result<Python> {
        Python::find(&fake.environment(), Installer::Apt)
    }

    #[test]
    fn the_first_usable_interpreter_is_taken_and_wrappers_are_seen_through() {
        let fake = FakePrograms::new();
        fake.program("python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127");
        fake.program("python3.12", &answers("3.12.1", "ensurepip"));
        fake.program("python3.11", &answers("3.11.7", "venv"));
        fake.program("python3", &answers("3.10.13", "venv"));
        let found = find(&fake).unwrap();
        let expected = Python { path: "/real/python3.11.7".into(), version: Version(3, 11, 7) };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_wrong_with_each_interpreter_is_told() {
        let fake = FakePrograms::new();
        fake.program("python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127");
        fake.program("python3.12", &answers("3.12.1", "ensurepip"));
        fake.program("python3.11", "echo 'pypy 3.11.0 True venv'; echo /pypy");
        fake.program("python3.10", "echo 'cpython 3.10.0 False venv'; echo /32");
        fake.program("python3", &answers("3.9.18", "venv"));
        fake.program("python", "echo hello");
        let text = find(&fake).unwrap_err().to_string();
        let text = text.replace(&fake.folder().display().to_string(), "BIN");
        insta::assert_snapshot!(text, @"
        no usable Python found: 3.10 to 3.14 with its venv module is needed.
          BIN/python3.13: does not run: pyenv: python3.13: command not found
          BIN/python3.12: Python 3.12.1 has no module `ensurepip`
          BIN/python3.11: is pypy, not CPython
          BIN/python3.10: is a 32-bit Python 3.10.0
          BIN/python3: is Python 3.9.18; 3.10 to 3.14 is needed
          BIN/python: gives a strange answer
        Install one: apt-get install -y python3-venv
        or set ETMETAL_PYTHON to the path of one
        ");
    }

    #[test]
    fn no_interpreter_at_all_says_how_to_get_one() {
        insta::assert_snapshot!(find(&FakePrograms::new()).unwrap_err(), @"
        no usable Python found: 3.10 to 3.14 with its venv module is needed.
        Install one: apt-get install -y python3-venv
        or set ETMETAL_PYTHON to the path of one
        ");
    }

    #[test]
    fn a_named_interpreter_is_the_only_one_looked_at() {
        let fake = FakePrograms::new();
        fake.program("python3", &answers("3.11.7", "venv"));
        fake.program("mine", &answers("3.15.0", "venv"));
        let error = |name: &str| {
            let environment = fake.environment().with("ETMETAL_PYTHON", name);
            format!("{:#}", Python::find(&environment, Installer::Apt).unwrap_err())
        };
        assert_eq!(error("mine"), "ETMETAL_PYTHON=mine: is Python 3.15.0; 3.10 to 3.14 is needed");
        assert_eq!(error("none"), "ETMETAL_PYTHON=none: there is no such program");
    }

    #[test]
    fn this_machines_python_is_found_and_remembered() {
        let environment = Environment::current();
        let python = Python::find(&environment, Installer::detect()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let memory = folder.path().join("python.json");
        remember(&environment, &python, &memory).unwrap();
        assert_eq!(find_again(&environment, Installer::Apt, &memory).unwrap(), python);

        let fake = FakePrograms::new();
        let elsewhere = fake.environment();
        assert!(
            find_again(&elsewhere, Installer::Apt, &memory).is_err(),
            "another PATH is another search"
        );
        std::fs::write(&memory, "{").unwrap();
        assert_eq!(find_again(&environment, Installer::Apt, &memory).unwrap(), python);
    }
}
