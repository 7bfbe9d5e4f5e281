//! What a step is made of.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::audit::stage::StageAudit;
use crate::cmake::file_api::Model;
use crate::linkage::ExportList;
use crate::process::{Invocation, quote};

/// One unit of work.
#[derive(Debug, Clone)]
pub struct Step {
    /// For people, as in `Rust library`.
    pub name: &'static str,
    /// Names the stamp and the log: unique to what the step makes.
    pub key: String,
    /// What the result depends on. The actions are an input too, without being named here.
    pub inputs: Vec<Input>,
    /// What to do, in order.
    pub actions: Vec<Action>,
    /// What is there afterwards.
    pub outputs: Vec<Output>,
    /// What to do about a failure, for people.
    pub hint: String,
}

/// Something that a step leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A file or a folder.
    Path(PathBuf),
    /// What CMake says that a build folder makes.
    CmakeTargets {
        /// The configured folder.
        build: PathBuf,
        /// Targets whose files have to be there; those of others count where they are.
        required: Vec<String>,
    },
}

impl From<PathBuf> for Output {
    fn from(path: PathBuf) -> Self {
        Output::Path(path)
    }
}

impl Output {
    /// The files and folders themselves, now that the step is done.
    ///
    /// # Errors
    /// CMake cannot be asked, or it knows no target that is required.
    pub fn paths(&self) -> Result<Vec<PathBuf>> {
        let (build, required) = match self {
            Output::Path(path) => return Ok(vec![path.clone()]),
            Output::CmakeTargets { build, required } => (build, required),
        };
        let model = Model::read(build)?;
        let mut paths = Vec::new();
        for name in required {
            let target = model.target(name);
            let target = target
                .with_context(|| format!("CMake has no target `{name}` in {}", build.display()))?;
            paths.extend(target.artifacts.iter().cloned());
        }
        let others = model.targets.iter().filter(|target| !required.contains(&target.name));
        let others = others.flat_map(|target| &target.artifacts);
        paths.extend(others.filter(|path| path.exists()).cloned());
        Ok(paths)
    }
}

/// Something that a step's result depends on.
#[derive(Debug, Clone)]
pub enum Input {
    /// A file or a folder with everything in it; one that is not there counts as empty.
    Path(PathBuf),
    /// A value with its name, as the version of a tool.
    Value(String, String),
    /// Another step, by its key: when that one runs, this one runs.
    Step(String),
    /// Files that only the tool itself knows: it runs every time, and says by what it leaves
    /// whether anything changed. The text says so for people.
    Tool(&'static str),
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Run a program; the step fails if it does.
    Run(Invocation),
    /// Run a program that downloads, up to three times; the step fails if the last time does.
    Fetch(Invocation),
    /// Remove a file, or a folder with everything in it, if it is there.
    Remove(PathBuf),
    /// Make a folder and those above it.
    MakeFolder(PathBuf),
    /// Copy a file with its permissions.
    Copy(PathBuf, PathBuf),
    /// Write a text file.
    Write(PathBuf, String),
    /// Write a text file that can be run.
    WriteProgram(PathBuf, String),
    /// Write a stand-in for Apple's SDK into a folder.
    AppleSdk(PathBuf),
    /// Write the list of what libetmetal exports.
    Exports(ExportList),
    /// Audit a stage; the step fails if it would not load.
    Audit(StageAudit),
    /// Put the files in the first folder into the second, which holds other things too; see
    /// [`install`](super::install).
    Install(PathBuf, PathBuf),
    /// Put the folder at the first path in place of the second, whose old content is parked at
    /// the third until that has worked.
    Replace {
        /// The new folder.
        from: PathBuf,
        /// Where it belongs.
        to: PathBuf,
        /// Where the old one waits.
        parked: PathBuf,
    },
}

impl Action {
    /// Does it; output lines of programs go to `on_line`.
    ///
    /// # Errors
    /// It did not work; the text names the command or the paths.
    pub fn perform(&self, on_line: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        match self {
            Action::Run(invocation) => {
                let status = invocation.run_lines(on_line)?;
                anyhow::ensure!(
                    status.success(),
                    "`{invocation}` failed ({})",
                    crate::process::status(status)
                );
                Ok(())
            }
            Action::Fetch(invocation) => fetch(invocation, on_line),
            Action::Remove(path) => remove(path),
            Action::MakeFolder(path) => std::fs::create_dir_all(path)
                .with_context(|| format!("cannot make the folder {}", path.display())),
            Action::Copy(from, to) => std::fs::copy(from, to)
                .map(drop)
                .with_context(|| format!("cannot copy {} to {}", from.display(), to.display())),
            Action::Write(path, text) => std::fs::write(path, text)
                .with_context(|| format!("cannot write {}", path.display())),
            Action::WriteProgram(path, text) => write_program(path, text),
            Action::AppleSdk(folder) => crate::apple_sdk::write(folder),
            Action::Install(from, to) => super::install::install(from, to),
            Action::Exports(list) => list.write(),
            Action::Audit(audit) => audit.perform(on_line),
            Action::Replace { from, to, parked } => replace(from, to, parked),
        }
    }
}

/// How long to wait before a download is tried again.
const WAITS: [u64; 2] = [5, 20];

fn fetch(invocation: &Invocation, on_line: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let mut waits = WAITS.into_iter();
    loop {
        let status = invocation.run_lines(&mut *on_line)?;
        if status.success() {
            return Ok(());
        }
        let status = crate::process::status(status);
        let Some(wait) = waits.next() else {
            anyhow::bail!("`{invocation}` failed ({status}), {} times", WAITS.len() + 1);
        };
        on_line(&format!("failed ({status}); trying again in {wait} s"))?;
        std::thread::sleep(std::time::Duration::from_secs(wait));
    }
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text)
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn replace(from: &Path, to: &Path, parked: &Path) -> Result<()> {
    let context = || format!("cannot put {} in place of {}", from.display(), to.display());
    remove(parked)?;
    match std::fs::rename(to, parked) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).with_context(context),
        _ => {}
    }
    if let Err(error) = std::fs::rename(from, to) {
        // Put the old one back; where that fails too the first error is the one to tell.
        let _ = std::fs::rename(parked, to);
        return Err(error).with_context(context);
    }
    remove(parked)
}

impl fmt::Display for Action {
    /// The action as POSIX shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let q = |path: &Path| quote(path.as_os_str());
        match self {
            Action::Run(invocation) => write!(f, "{invocation}"),
            Action::Fetch(invocation) => {
                write!(f, "{invocation}")?;
                WAITS.iter().try_for_each(|wait| write!(f, " || {{ sleep {wait}; {invocation}; }}"))
            }
            Action::Remove(path) => write!(f, "rm -rf {}", q(path)),
            Action::MakeFolder(path) => write!(f, "mkdir -p {}", q(path)),
            Action::Copy(from, to) => write!(f, "cp {} {}", q(from), q(to)),
            Action::Write(path, text) => {
                write!(f, "printf %s {} > {}", quote(text.as_ref()), q(path))
            }
            Action::WriteProgram(path, text) => {
                let path = q(path);
                write!(f, "printf %s {} > {path} && chmod 755 {path}", quote(text.as_ref()))
            }
            Action::AppleSdk(folder) => write!(f, "cargo xtask symbols --sdk {}", q(folder)),
            Action::Install(from, to) => {
                let (from, to) = (q(from), q(to));
                write!(f, "mkdir -p {to} && cp -RP {from}/. {to}/")
            }
            Action::Exports(list) => write!(f, "{list}"),
            Action::Audit(audit) => write!(f, "{audit}"),
            Action::Replace { from, to, parked } => {
                let (from, to, parked) = (q(from), q(to), q(parked));
                write!(
                    f,
                    "rm -rf {parked}; if [ -e {to} ]; then mv {to} {parked}; fi; mv {from} {to}; \
                     rm -rf {parked}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignore(_: &str) -> Result<()> {
        Ok(())
    }

    /// Builds `x` (to be replaced) and `x.new`, then lets `put` replace one by the other.
    fn replaced(put: impl Fn(&Action)) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in [("x.new", "new"), ("x", "old"), ("x.old", "older")] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join("f"), text).unwrap();
        }
        put(&Action::Replace { from: at("x.new"), to: at("x"), parked: at("x.old") });
        assert_eq!(std::fs::read_to_string(at("x").join("f")).unwrap(), "new");
        let entries = std::fs::read_dir(folder.path()).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn replacing_leaves_the_new_folder_alone() {
        assert_eq!(replaced(|a| a.perform(&mut ignore).unwrap()), ["x"]);
    }

    #[test]
    fn the_shell_text_of_an_action_does_the_same() {
        let shell = |a: &Action| {
            Invocation::new("sh").args(["-ec", &a.to_string()]).read().unwrap();
        };
        assert_eq!(replaced(shell), ["x"]);
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("x")).unwrap();
        std::fs::write(at("x").join("f"), "old").unwrap();
        let action = Action::Replace { from: at("x.new"), to: at("x"), parked: at("x.old") };
        let error = action.perform(&mut ignore).unwrap_err();
        assert!(error.to_string().starts_with("cannot put "), "{error}");
        assert_eq!(std::fs::read_to_string(at("x").join("f")).unwrap(), "old");
    }

    #[test]
    fn the_first_replacement_needs_no_old_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("x.new")).unwrap();
        let action = Action::Replace { from: at("x.new"), to: at("x"), parked: at("x.old") };
        action.perform(&mut ignore).unwrap();
        assert!(at("x").is_dir());
    }
}
