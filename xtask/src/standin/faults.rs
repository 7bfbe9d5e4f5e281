//! Seeded faults: mistakes that the Metal device could have, made one by one in a copy of the
//! sources, to see that a test notices each. They are listed in `runtime/standin/faults.toml`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context as _, Result, bail, ensure};

use super::{HOST, NEW_MACOS, Tools, cargo_for};
use crate::process::{Invocation, status};

/// The list, below the repository.
const LIST: &str = "runtime/standin/faults.toml";

/// Where the device's sources lie.
const DEVICE: &str = "runtime/src/device/metal";

/// Where the tests lie.
const TESTS: &str = "runtime/standin/tests/metal";

/// Seconds after which a test that does not end has noticed the fault too.
const PATIENCE: &str = "300";

/// The exit status of `timeout` where it ended the program.
const TIMED_OUT: i32 = 124;

/// What the workspace is made of; the rest is not copied.
const COPIED: [&str; 7] =
    ["Cargo.toml", "Cargo.lock", ".cargo", "rust-toolchain.toml", "runtime", "xtask", "tests"];

/// One mistake.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub name: String,
    /// The file, below the device's folder.
    file: PathBuf,
    /// The text that is replaced, which stands there once.
    find: String,
    /// What stands there instead.
    replace: String,
    /// The test that must fail.
    test: String,
    /// The version of macOS that it is seen with.
    macos: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    fault: Vec<Fault>,
}

/// The faults of the sources at `root`.
///
/// # Errors
/// The list cannot be read.
pub fn list(root: &Path) -> Result<Vec<Fault>> {
    let path = root.join(LIST);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {LIST}"))?;
    let list: List = toml::from_str(&text).with_context(|| format!("{LIST} is no list"))?;
    Ok(list.fault)
}

impl Fault {
    fn path(&self, root: &Path) -> PathBuf {
        root.join(DEVICE).join(&self.file)
    }

    /// The text of the file with the fault in it.
    ///
    /// # Errors
    /// The file does not hold the text once.
    fn applied(&self, root: &Path) -> Result<String> {
        let path = self.path(root);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("fault {:?}: cannot read {}", self.name, path.display()))?;
        let count = text.matches(&self.find).count();
        ensure!(
            count == 1,
            "fault {:?} of {LIST}: its text stands {count} times in {}, not once; it is\n{}",
            self.name,
            self.file.display(),
            self.find
        );
        Ok(text.replace(&self.find, &self.replace))
    }

    /// Whether it can be made, and its test is there.
    ///
    /// # Errors
    /// What is not as the list says.
    pub fn check(&self, root: &Path) -> Result<()> {
        let changed = self.applied(root)?;
        ensure!(changed != fs::read_to_string(self.path(root))?, "fault {:?} is none", self.name);
        let (module, test) = self
            .test
            .split_once("::")
            .with_context(|| format!("{:?} is no test in a module", self.test))?;
        let tests = fs::read_to_string(root.join(TESTS).join(module).with_extension("rs"));
        ensure!(
            tests.is_ok_and(|text| text.contains(&format!("fn {test}()"))),
            "fault {:?} of {LIST}: there is no test {:?}",
            self.name,
            self.test
        );
        Ok(())
    }
}

/// What came of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// The test failed, as it must.
    Caught,
    /// The test passed.
    Missed,
    /// The compiler or the tests before the fault told something else.
    Broken(String),
}

/// Makes the faults whose names hold `filter`, each in turn; true if a test noticed every one.
/// The copy of the sources is used again, and so is its build, which shares that of other crates
/// with the tests themselves.
///
/// # Errors
/// A fault cannot be made, or the tests fail without any.
pub fn run(tools: &Tools, filter: Option<&str>) -> Result<bool> {
    let root = &tools.workspace.root;
    let mut faults = list(root)?;
    faults.iter().try_for_each(|fault| fault.check(root))?;
    if let Some(filter) = filter {
        faults.retain(|fault| fault.name.contains(filter));
    }
    if faults.is_empty() {
        bail!("no fault has such a name");
    }
    let copy = tools.workspace.target.join("standin-faults");
    let trial = Trial { root, copy, target: tools.target(), path: tools.path.clone() };
    for name in COPIED {
        copy_changed(&root.join(name), &trial.copy.join(name))?;
    }
    trial.hasten()?;
    trial.sound(&faults)?;
    let mut caught = 0;
    for (at, fault) in faults.iter().enumerate() {
        let outcome = trial.of(fault)?;
        let text = match &outcome {
            Outcome::Caught => "caught".to_owned(),
            Outcome::Missed => format!("MISSED by {}", fault.test),
            Outcome::Broken(why) => format!("BROKEN: {why}"),
        };
        caught += usize::from(outcome == Outcome::Caught);
        println!("{:3}/{} {text}: {} ({})", at + 1, faults.len(), fault.name, fault.file.display());
    }
    println!("caught {caught} of {}", faults.len());
    Ok(caught == faults.len())
}

/// A copy of the sources in which faults are made.
struct Trial<'a> {
    root: &'a Path,
    copy: PathBuf,
    target: PathBuf,
    path: OsString,
}

impl Trial<'_> {
    /// Leaves out what takes time and no test uses: the library for C++.
    fn hasten(&self) -> Result<()> {
        let path = self.copy.join("runtime/Cargo.toml");
        let text = fs::read_to_string(&path)?;
        fs::write(&path, text.replace(r#"["rlib", "staticlib"]"#, r#"["rlib"]"#))?;
        Ok(())
    }

    /// Builds the tests without a fault, and runs those that faults name: each must pass.
    fn sound(&self, faults: &[Fault]) -> Result<()> {
        let program = match self.build()? {
            Ok(program) => program,
            Err(text) => bail!("the tests do not compile:\n{text}"),
        };
        let mut tests: Vec<_> =
            faults.iter().map(|fault| (fault.macos.as_deref(), &fault.test)).collect();
        tests.sort();
        tests.dedup();
        for (macos, test) in tests {
            let ended = self.test(&program, test, macos)?;
            ensure!(ended.0.success(), "{test} fails without a fault:\n{}", ended.1);
        }
        Ok(())
    }

    /// Makes a fault, builds, runs its test, and takes the fault back.
    fn of(&self, fault: &Fault) -> Result<Outcome> {
        let path = fault.path(&self.copy);
        let sound = fs::read_to_string(&path)?;
        fs::write(&path, fault.applied(&self.copy)?)?;
        let outcome = self.outcome(fault);
        fs::write(&path, sound)?;
        outcome
    }

    fn outcome(&self, fault: &Fault) -> Result<Outcome> {
        let program = match self.build()? {
            Ok(program) => program,
            Err(text) => return Ok(Outcome::Broken(format!("it does not compile:\n{text}"))),
        };
        let (ended, text) = self.test(&program, &fault.test, fault.macos.as_deref())?;
        Ok(match ended.code() {
            Some(0) if text.contains("running 1 test") => Outcome::Missed,
            Some(0) => Outcome::Broken(format!("{} did not run", fault.test)),
            // A test's failure, one that never ends, or a program that crashed.
            Some(101 | TIMED_OUT) | None => Outcome::Caught,
            // `timeout` passes a signal on as a status.
            Some(code) if code > 128 => Outcome::Caught,
            Some(_) => Outcome::Broken(format!("{}:\n{text}", status(ended))),
        })
    }

    /// The test program, or what the compiler says.
    fn build(&self) -> Result<std::result::Result<PathBuf, String>> {
        let build = cargo_for(&self.copy, &self.target, &self.path, "test")
            .args(["--test", "metal", "--no-run"])
            .arg("--message-format=json-render-diagnostics")
            // What is built again for each fault.
            .args(["--config", "profile.dev.package.etmetal.debug=false"])
            .args(["--config", "profile.dev.package.etmetal-standin.debug=false"]);
        let (ended, text) = output(&build)?;
        if !ended.success() {
            // The compiler speaks for people, cargo of other crates for programs.
            let said = text.lines().filter(|line| !line.starts_with('{'));
            return Ok(Err(said.collect::<Vec<_>>().join("\n")));
        }
        let mut programs = text.lines().filter_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            let is_test = message["target"]["name"] == "metal";
            is_test.then(|| message["executable"].as_str().map(PathBuf::from))?
        });
        Ok(Ok(programs.next().context("cargo names no test program")?))
    }

    fn test(
        &self,
        program: &Path,
        test: &str,
        macos: Option<&str>,
    ) -> Result<(ExitStatus, String)> {
        // It lies in the folder of the target's own name, with what it was linked with.
        debug_assert!(program.to_string_lossy().contains(HOST));
        output(
            &Invocation::new("timeout")
                .args(["--kill-after=10", PATIENCE])
                .arg(program)
                .args(["--exact", test])
                .cwd(self.copy.join("runtime/standin"))
                .env("ETMETAL_STANDIN_MACOS", macos.unwrap_or(NEW_MACOS))
                .env("ETMETAL_STANDIN_MODELS", self.root.join("tests/fixtures"))
                .env("ETMETAL_STANDIN_SOURCES", self.target.join("sources"))
                .env("PATH", &self.path),
        )
    }
}

/// How a program ended, and what it wrote.
fn output(invocation: &Invocation) -> Result<(ExitStatus, String)> {
    let mut text = String::new();
    let ended = invocation.run_lines(|line| {
        text.push_str(line);
        text.push('\n');
        Ok(())
    })?;
    Ok((ended, text))
}

/// Makes `to` like `from`, a file or a folder, and writes nothing that is like it already: cargo
/// builds again what was written. Models are left out.
fn copy_changed(from: &Path, to: &Path) -> Result<()> {
    if from.ends_with("tests/fixtures") || from.ends_with("target") {
        return Ok(());
    }
    if !from.is_dir() {
        let text = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        if fs::read(to).is_ok_and(|there| there == text) {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(from, to).with_context(|| format!("cannot write {}", to.display()))?;
        return Ok(());
    }
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let names = |folder: &Path| -> Result<Vec<OsString>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    };
    let wanted = names(from)?;
    for name in &wanted {
        copy_changed(&from.join(name), &to.join(name))?;
    }
    for name in names(to)?.into_iter().filter(|name| !wanted.contains(name)) {
        let path = to.join(name);
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn every_fault_of_the_list_can_be_made() {
        let root = Workspace::root().unwrap();
        let faults = list(&root).unwrap();
        assert!(faults.len() >= 20, "{} faults", faults.len());
        for fault in &faults {
            fault.check(&root).unwrap();
        }
        let mut names: Vec<_> = faults.iter().map(|fault| &fault.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), faults.len(), "each has a name of its own");
    }

    #[test]
    fn a_fault_whose_text_is_gone_is_named() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join(DEVICE);
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("a.rs"), "one two two").unwrap();
        let fault = |find: &str| Fault {
            name: "wrong".into(),
            file: "a.rs".into(),
            find: find.into(),
            replace: "three".into(),
            test: "rules::some".into(),
            macos: None,
        };
        assert_eq!(fault("one").applied(root.path()).unwrap(), "three two two");
        for (find, count) in [("two", "2 times"), ("four", "0 times")] {
            let text = fault(find).applied(root.path()).unwrap_err().to_string();
            assert!(text.contains("\"wrong\"") && text.contains(count), "{text}");
        }
        let text = fault("one").check(root.path()).unwrap_err().to_string();
        assert!(text.contains("no test \"rules::some\""), "{text}");
    }

    #[test]
    fn a_copy_is_written_only_where_it_differs() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/one"), "1").unwrap();
        fs::write(from.join("two"), "2").unwrap();
        copy_changed(&from, &to).unwrap();
        let time = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let before = time("a/one");
        fs::write(from.join("two"), "3").unwrap();
        fs::write(to.join("gone"), "").unwrap();
        copy_changed(&from, &to).unwrap();
        assert_eq!(before, time("a/one"));
        assert_eq!(fs::read_to_string(to.join("two")).unwrap(), "3");
        assert!(!to.join("gone").exists());
    }
}
