//! `cargo xtask doctor`: what of the machine is there, what is missing, and how to get it.

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::audit::target::Target;
use crate::environment::Environment;
use crate::openmp;
use crate::preset::Settings;
use crate::preset::link::Link;
use crate::toolchain::install::{Installer, Package};
use crate::toolchain::rust::{self, Rust};
use crate::toolchain::{Memory, Version, cross, cxx, msl};
use crate::venv::{Lock, Python};
use crate::workspace::{Workspace, cargo};

/// `cargo xtask doctor`.
#[derive(Debug, Clone, clap::Args)]
pub struct Doctor {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Free space that a build from nothing needs, in bytes; about half of it is Rust's.
const SPACE: u64 = 4 << 30;

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is on this machine.
    Found,
    /// A build provides it under the target folder, or has done so.
    Provided,
    /// It is not there.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is.
    pub name: &'static str,
    /// How it stands.
    pub status: Status,
    /// Its version, or another measure of it.
    pub version: Option<String>,
    /// Where it is.
    pub path: Option<PathBuf>,
    /// What needs it.
    pub needed_by: &'static str,
    /// Whether nothing can be built without it.
    pub required: bool,
    /// What is wrong.
    pub problem: Option<String>,
    /// The command that helps.
    pub fix: Option<String>,
}

impl Check {
    fn new(name: &'static str, needed_by: &'static str, required: bool) -> Self {
        let (version, path, problem, fix) = (None, None, None, None);
        let status = Status::Found;
        Self { name, status, version, path, needed_by, required, problem, fix }
    }

    fn found(mut self, version: impl ToString, path: Option<PathBuf>) -> Self {
        self.version = Some(version.to_string());
        self.path = path;
        self
    }

    fn provided(mut self, version: impl ToString, path: PathBuf) -> Self {
        self.status = Status::Provided;
        self.version = Some(version.to_string());
        self.path = path.exists().then_some(path);
        self
    }

    fn missing(mut self, problem: impl ToString, fix: impl Into<String>) -> Self {
        self.status = Status::Missing;
        self.problem = Some(problem.to_string());
        self.fix = Some(fix.into());
        self
    }

    fn is_fatal(&self) -> bool {
        self.required && self.status == Status::Missing
    }
}

impl Doctor {
    /// Looks at everything and tells; true if nothing required is missing.
    ///
    /// # Errors
    /// The repository itself cannot be read.
    pub fn run(&self) -> Result<bool> {
        let workspace = Workspace::find()?;
        let checks = examine(&workspace, &Environment::current(), Installer::detect())?;
        print!("{}", if self.json { json(&checks)? } else { table(&checks) });
        Ok(!checks.iter().any(Check::is_fatal))
    }
}

/// Looks at everything.
///
/// # Errors
/// The lock files of the repository cannot be read.
pub fn examine(
    workspace: &Workspace,
    environment: &Environment,
    installer: Installer,
) -> Result<Vec<Check>> {
    let mut checks = rust_checks(workspace, environment);
    checks.push(cxx_check(environment, installer));
    checks.extend(python_checks(workspace, environment, installer)?);
    checks.push(msl_check(workspace, environment, installer)?);
    checks.push(linker_check(environment, installer));
    checks.extend(openmp_check(environment));
    checks.push(program(
        Check::new("git", "ExecuTorch from a git revision (later); working on etmetal", false),
        environment,
        "git",
        installer.command(Package::Git),
    ));
    checks.push(space_check(workspace));
    Ok(checks)
}

/// A program that is asked with `--version`.
fn program(check: Check, environment: &Environment, name: &str, fix: String) -> Check {
    let Some(path) = environment.which(name) else {
        return check.missing(format!("there is no program `{name}`"), fix);
    };
    match Version::of(&path, &["--version"]) {
        Ok(version) => check.found(version, Some(path)),
        Err(error) => check.missing(error, fix),
    }
}

fn rust_checks(workspace: &Workspace, environment: &Environment) -> Vec<Check> {
    let rustc = Check::new("rustc", "every build", true);
    let mut checks = vec![match Rust::find(workspace, &Memory::default()) {
        Ok(rust) => rustc.found(rust.version, environment.which("rustc")),
        Err(error) => rustc.missing(error, "rustup toolchain install stable"),
    }];
    let tool = |name, arguments: &[&str], needed_by, required, fix: &str| {
        let check = Check::new(name, needed_by, required);
        let asked = cargo(&workspace.root).args(arguments.iter().copied());
        match asked.read().ok().and_then(|text| Version::in_text(&text)) {
            Some(version) => check.found(version, environment.which(asked.program())),
            None => check.missing(format!("`{asked}` does not answer"), fix),
        }
    };
    let (build, test) = ("every build", "cargo xtask test");
    checks.push(tool("cargo", &["--version"], build, true, "rustup toolchain install stable"));
    checks.push(tool(
        "rustfmt",
        &["fmt", "--version"],
        test,
        false,
        "rustup component add rustfmt",
    ));
    checks.push(tool(
        "clippy",
        &["clippy", "--version"],
        test,
        false,
        "rustup component add clippy",
    ));
    let target =
        Check::new("Rust for aarch64-apple-darwin", "cargo xtask test, which adds it", false);
    checks.push(match rust::target_library(workspace, rust::APPLE) {
        Some(path) => target.found(rust::APPLE, Some(path)),
        None => target.missing("not installed", format!("rustup target add {}", rust::APPLE)),
    });
    checks
}

fn cxx_check(environment: &Environment, installer: Installer) -> Check {
    let check = Check::new("C++ compiler", "cargo xtask build", true);
    let fix = installer.command(Package::Cxx);
    match cxx::find(environment, None, installer) {
        Err(error) => check.missing(error, fix),
        Ok(path) => match Version::of(&path, &["--version"]) {
            Ok(version) => check.found(version, Some(path)),
            Err(error) => check.missing(error, fix),
        },
    }
}

fn python_checks(
    workspace: &Workspace,
    environment: &Environment,
    installer: Installer,
) -> Result<Vec<Check>> {
    let python = Check::new("Python with venv", "cargo xtask build", true);
    let mut checks = vec![match Python::find(environment, installer) {
        Ok(found) => python.found(found.version, Some(found.path)),
        Err(error) => python.missing(format!("{error:#}"), installer.command(Package::Python)),
    }];
    let lock = Lock::load(workspace, "sdk")?;
    let bin = workspace.venv().join("bin");
    for (name, package, path) in [
        ("ExecuTorch SDK", "executorch", workspace.venv()),
        ("CMake", "cmake", bin.join("cmake")),
        ("Ninja", "ninja", bin.join("ninja")),
    ] {
        let version = lock.version_of(package).unwrap_or("not pinned");
        checks.push(Check::new(name, "cargo xtask build", true).provided(version, path));
    }
    Ok(checks)
}

fn msl_check(
    workspace: &Workspace,
    environment: &Environment,
    installer: Installer,
) -> Result<Check> {
    let check = Check::new("clang for Metal shaders", "models on the host device", true);
    Ok(match msl::find_clang(environment, &Memory::default()) {
        Ok(Some(tool)) => check.found(tool.version, Some(tool.path)),
        Ok(None) => {
            let lock = Lock::load(workspace, "zig")?;
            let version = lock.version_of("ziglang").unwrap_or("not pinned");
            check.provided(format!("zig {version}"), workspace.venv())
        }
        Err(error) => check.missing(format!("{error:#}"), installer.command(Package::Clang)),
    })
}

/// What the tests of everything about Mach-O link with.
fn linker_check(environment: &Environment, installer: Installer) -> Check {
    let needed_by = "cargo xtask test, which links for macOS";
    let check = Check::new("linker for macOS (ld64.lld)", needed_by, false);
    match cross::find_linker(environment) {
        None => check.missing("there is no program `ld64.lld`", installer.command(Package::Lld)),
        Some(path) => match Version::of(&path, &["--version"]) {
            Ok(version) => check.found(version, Some(path)),
            Err(error) => check.missing(error, installer.command(Package::Lld)),
        },
    }
}

/// The OpenMP that models would find: nobody needs one, but two are trouble.
fn openmp_check(environment: &Environment) -> Option<Check> {
    let cxx = cxx::find(environment, None, Installer::Unknown).ok()?;
    let target = Target::of_this_machine();
    let link = Link::read(&Settings::default());
    let search = openmp::find::search(environment, &target, &cxx, &link);
    let chosen = search.chosen()?;
    let check = Check::new("OpenMP", "models that use it", false);
    Some(match &search.clash {
        Some(clash) => check.missing(clash, "set `[link] openmp` in the preset"),
        None => check.found(format!("{}'s", chosen.flavour), Some(chosen.path.clone())),
    })
}

fn space_check(workspace: &Workspace) -> Check {
    let check = Check::new("disk space", "a build from nothing", true);
    let folder = workspace.target.ancestors().find(|p| p.exists()).unwrap_or(&workspace.root);
    match rustix::fs::statvfs(folder) {
        Err(error) => check.missing(format!("{}: {error}", folder.display()), "df -h"),
        Ok(state) => {
            let free = state.f_bavail * state.f_frsize;
            let text = format!("{:.1} GiB free", free as f64 / f64::from(1 << 30));
            // What is made already needs no more room.
            if free >= SPACE || workspace.venv().exists() {
                check.found(text, Some(folder.to_owned()))
            } else {
                check.missing(
                    format!("{text} in {}; {} GiB are needed", folder.display(), SPACE >> 30),
                    "free some space, or set CARGO_TARGET_DIR to a folder elsewhere",
                )
            }
        }
    }
}

fn json(checks: &[Check]) -> Result<String> {
    #[derive(Serialize)]
    struct Report<'a> {
        ok: bool,
        checks: &'a [Check],
    }
    let report = Report { ok: !checks.iter().any(Check::is_fatal), checks };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

fn table(checks: &[Check]) -> String {
    let width = checks.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let version = |check: &Check| check.version.clone().unwrap_or_default();
    let version_width = checks.iter().map(|c| version(c).len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let mark = match (check.status, check.required) {
            (Status::Found, _) => "ok      ",
            (Status::Provided, _) => "provided",
            (Status::Missing, true) => "MISSING ",
            (Status::Missing, false) => "missing ",
        };
        let version = version(check);
        let path = check.path.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
        let line = format!("{mark}  {:width$}  {version:version_width$}  {path}", check.name);
        text += line.trim_end();
        text += "\n";
        if let (Some(problem), Some(fix)) = (&check.problem, &check.fix) {
            text += &format!("          {}\n", problem.replace('\n', "\n          "));
            text += &format!("          needed by: {}\n          fix: {fix}\n", check.needed_by);
        }
    }
    let fatal = checks.iter().filter(|c| c.is_fatal()).count();
    text += &match fatal {
        0 => "everything that a build needs is here\n".to_owned(),
        1 => "1 thing that a build needs is missing\n".to_owned(),
        n => format!("{n} things that a build needs are missing\n"),
    };
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::venv::tests::FakePrograms;

    fn workspace(target: &Path) -> Workspace {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
        Workspace { root, target: target.to_owned() }
    }

    /// The machine that runs the tests may have a full disk, or an OpenMP.
    fn without_space(checks: Vec<Check>) -> Vec<Check> {
        let of_the_machine = ["disk space", "OpenMP"];
        checks.into_iter().filter(|check| !of_the_machine.contains(&check.name)).collect()
    }

    /// What people read about a machine with these programs, but for what is said of Rust.
    fn told(fake: &FakePrograms) -> String {
        let target = tempfile::tempdir().unwrap();
        let workspace = workspace(target.path());
        let checks = examine(&workspace, &fake.environment(), Installer::Apt).unwrap();
        let checks = without_space(checks);
        let first = checks.iter().position(|check| check.name == "C++ compiler").unwrap();
        table(&checks[first..]).replace(&fake.folder().display().to_string(), "BIN")
    }

    #[test]
    fn the_report_of_a_machine_with_everything_and_of_one_with_nothing() {
        let fake = FakePrograms::new();
        insta::assert_snapshot!("doctor_empty", told(&fake));
        fake.program("g++", "echo 'g++ (Debian 12.2.0-14) 12.2.0'");
        fake.program("python3", "echo 'cpython 3.11.2 True venv'; echo /usr/bin/python3.11");
        fake.program("clang++-19", "echo 'Debian clang version 19.1.7'");
        fake.program("ld64.lld-19", "echo 'Debian LLD 19.1.7'");
        fake.program("git", "echo 'git version 2.39.5'");
        insta::assert_snapshot!("doctor_whole", told(&fake));
    }

    fn check<'a>(checks: &'a [Check], name: &str) -> &'a Check {
        checks.iter().find(|c| c.name == name).unwrap()
    }

    #[test]
    fn an_empty_machine_is_told_what_to_install() {
        let fake = FakePrograms::new();
        let target = tempfile::tempdir().unwrap();
        let workspace = workspace(target.path());
        let checks = examine(&workspace, &fake.environment(), Installer::Apt).unwrap();
        let fix = |name| check(&checks, name).fix.clone().unwrap();
        assert_eq!(fix("C++ compiler"), "apt-get install -y g++");
        assert_eq!(fix("Python with venv"), "apt-get install -y python3-venv");
        assert_eq!(fix("git"), "apt-get install -y git");
        assert_eq!(check(&checks, "clang for Metal shaders").status, Status::Provided);
        let report: serde_json::Value = serde_json::from_str(&json(&checks).unwrap()).unwrap();
        assert_eq!(report["ok"], false);
        let cxx =
            &report["checks"].as_array().unwrap().iter().find(|c| c["name"] == "C++ compiler");
        insta::assert_snapshot!(serde_json::to_string_pretty(cxx.unwrap()).unwrap(), @r#"
        {
          "fix": "apt-get install -y g++",
          "name": "C++ compiler",
          "needed_by": "cargo xtask build",
          "path": null,
          "problem": "no C++ compiler found (c++, g++, clang++). Install one: apt-get install -y g++",
          "required": true,
          "status": "missing",
          "version": null
        }
        "#);
        let checks = without_space(checks);
        assert!(table(&checks).ends_with("2 things that a build needs are missing\n"));
    }

    #[test]
    fn what_is_there_is_found_with_version_and_place() {
        let fake = FakePrograms::new();
        fake.program("g++", "echo 'g++ (Debian 12.2.0-14) 12.2.0'");
        fake.program("python3", "echo 'cpython 3.11.2 True venv'; echo /usr/bin/python3.11");
        fake.program("clang++-19", "echo 'Debian clang version 19.1.7'");
        let target = tempfile::tempdir().unwrap();
        let workspace = workspace(target.path());
        let checks = examine(&workspace, &fake.environment(), Installer::Apt).unwrap();
        let found = |name| {
            let check = check(&checks, name);
            (check.status, check.version.clone().unwrap(), check.path.clone())
        };
        assert_eq!(found("C++ compiler"), (Status::Found, "12.2.0".into(), Some(fake.path("g++"))));
        assert_eq!(
            found("Python with venv"),
            (Status::Found, "3.11.2".into(), Some("/usr/bin/python3.11".into()))
        );
        assert_eq!(
            found("clang for Metal shaders"),
            (Status::Found, "19.1.7".into(), Some(fake.path("clang++-19")))
        );
        assert_eq!(found("ExecuTorch SDK"), (Status::Provided, "1.5.1".into(), None));
        let checks = without_space(checks);
        let report: serde_json::Value = serde_json::from_str(&json(&checks).unwrap()).unwrap();
        assert_eq!(report["ok"], true, "git is missing but not required");
        insta::assert_snapshot!(table(&checks[5..6]).replace(&fake.folder().display().to_string(), "BIN"), @"
        ok        C++ compiler  12.2.0  BIN/g++
        everything that a build needs is here
        ");
    }
}
