//! Making a release a second time, where as much as possible is different.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use super::compare::{Circumstances, Files};
use super::epoch::Epoch;
use crate::environment::Environment;
use crate::process::{Invocation, status};
use crate::rust_build::cargo_home;
use crate::workspace::Workspace;

/// The second making.
#[derive(Debug)]
pub struct Second {
    workspace: Workspace,
    root: PathBuf,
    home: PathBuf,
}

/// The user that it is made by, as far as variables tell.
const USER: &str = "somebody-else";

impl Second {
    /// Copies the sources to another folder, of another length, with a target folder and a folder
    /// of cargo of its own. What git ignores there is not a change of the sources.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn prepare(workspace: &Workspace, environment: &Environment) -> Result<Self> {
        let place = workspace.state().join("second-making");
        let root = place.join("a-longer-name-than-before/etmetal");
        let home = place.join("home");
        // What is built there before is used again: cargo and CMake see what changed.
        std::fs::create_dir_all(&root).context("cannot make the folder of the second making")?;
        std::fs::create_dir_all(&home)?;
        copy_sources(&workspace.root, &root)?;
        link_cargo_home(&home, environment)?;
        let target = root.join("target");
        std::fs::create_dir_all(target.join("debug"))?;
        // What cargo leaves in target folders: the orchestrator knows its own by it.
        let tag = "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag \
                   created by cargo.\n";
        std::fs::write(target.join("CACHEDIR.TAG"), tag)?;
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let copy = target.join("debug/xtask");
        std::fs::remove_file(&copy).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        std::fs::copy(&program, &copy).context("cannot copy this program")?;
        let workspace = workspace.clone();
        Ok(Self { workspace, root, home })
    }

    /// Makes the release with the same arguments of `cargo xtask package`, and reads it.
    ///
    /// # Errors
    /// It fails, with what it said.
    pub fn make(
        &self,
        arguments: &[String],
        epoch: Epoch,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<Files> {
        let out = self.root.join("dist");
        let program = self.root.join("target/debug/xtask");
        let cargo_home = self.home.join(".cargo");
        // A shell sets the umask.
        let command = Invocation::new("sh")
            .args(["-c", "umask 077 && exec \"$0\" \"$@\""])
            .arg(program)
            .arg("package")
            .args(arguments.iter().map(String::as_str))
            .arg("--out")
            .arg(&out)
            .cwd(&self.root)
            .without_env("CARGO_TARGET_DIR")
            .without_env("CARGO_MANIFEST_PATH")
            .env("CARGO_MANIFEST_DIR", self.root.join("xtask"))
            .env("CARGO_HOME", &cargo_home)
            .env("SOURCE_DATE_EPOCH", epoch.seconds().to_string())
            .env("USER", USER)
            .env("LOGNAME", USER)
            .env("HOSTNAME", "another-host")
            .env("TZ", "Pacific/Chatham")
            .env("LANG", "tr_TR.UTF-8")
            .env("LC_ALL", "C")
            .env("CARGO_BUILD_JOBS", other_jobs());
        let mut last = Vec::new();
        let ended = command.run_lines(|line| {
            on_line(line);
            last.push(line.to_owned());
            Ok(())
        })?;
        if !ended.success() {
            let tail = last.split_off(last.len().saturating_sub(20)).join("\n");
            bail!("the second making failed ({}):\n{tail}", status(ended));
        }
        read(&out)
    }

    /// What only this making saw, and what only the first one did.
    pub fn circumstances(&self, environment: &Environment) -> Circumstances {
        let shown = |path: &Path| path.display().to_string();
        let mut traces = vec![
            (shown(&self.root), "the folder of the second making"),
            (shown(&self.home), "the home folder of the second making"),
            (USER.to_owned(), "the user's name"),
            ("another-host".to_owned(), "the host's name"),
            (shown(&self.workspace.root), "the folder of the first making"),
        ];
        traces.extend(cargo_home(environment).map(|home| (shown(&home), "cargo's folder")));
        Circumstances { traces }
    }
}

/// A number of jobs that cargo does not take by itself: one for each core, and one more.
fn other_jobs() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores + 1).to_string()
}

/// The files of the release in `folder`.
///
/// # Errors
/// One cannot be read.
pub fn read(folder: &Path) -> Result<Files> {
    let context = || format!("cannot read {}", folder.display());
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.insert(name, std::fs::read(&path).with_context(context)?);
    }
    ensure!(!files.is_empty(), "there is no release in {}", folder.display());
    Ok(files)
}

/// The files that git knows of and is to know of in the folder, by path.
fn sources(folder: &Path) -> Result<BTreeSet<String>> {
    let list = Invocation::new("git")
        .cwd(folder)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .read()
        .context("git tells which files are sources: --verify needs a git working copy")?;
    Ok(list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// Copies what git knows of, and the files that it does not ignore; files that have not changed
/// stay as they are, with their times. What an earlier copy had and the sources no longer have goes.
fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    let git = Invocation::new("git").cwd(from).args(["rev-parse", "--absolute-git-dir"]).read()?;
    // The same commit, without a second repository.
    std::fs::write(to.join(".git"), format!("gitdir: {}\n", git.trim()))?;
    let mut files = sources(from)?;
    // One that was removed and not yet committed is no source, nor is another repository.
    files.retain(|path| from.join(path).symlink_metadata().is_ok_and(|file| !file.is_dir()));
    // What was made there stays, also where no .gitignore is there yet.
    let is_made = |path: &str| ["target/", "dist/"].iter().any(|made| path.starts_with(made));
    for path in sources(to)?.difference(&files).filter(|path| !is_made(path)) {
        remove(to, path).with_context(|| format!("cannot remove the copy of {path}"))?;
    }
    for path in &files {
        let (source, copy) = (from.join(path), to.join(path));
        let folder = copy.parent().context("a file lies in a folder")?;
        std::fs::create_dir_all(folder)?;
        if let Ok(named) = std::fs::read_link(&source) {
            if std::fs::read_link(&copy).ok().as_ref() != Some(&named) {
                let _ = std::fs::remove_file(&copy);
                std::os::unix::fs::symlink(&named, &copy)?;
            }
            continue;
        }
        let bytes = std::fs::read(&source).with_context(|| format!("cannot read {path}"))?;
        if std::fs::read(&copy).is_ok_and(|old| old == bytes) {
            continue;
        }
        std::fs::copy(&source, &copy).with_context(|| format!("cannot copy {path}"))?;
    }
    Ok(())
}

/// Removes the file `path` below `root`, and the folders that are empty then.
fn remove(root: &Path, path: &str) -> std::io::Result<()> {
    match std::fs::remove_file(root.join(path)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut folder = Path::new(path).parent();
    while let Some(inner) = folder.filter(|inner| !inner.as_os_str().is_empty()) {
        // One that is not empty stays.
        if std::fs::remove_dir(root.join(inner)).is_err() {
            break;
        }
        folder = inner.parent();
    }
    Ok(())
}

/// A folder of cargo with another name and the same downloads.
fn link_cargo_home(home: &Path, environment: &Environment) -> Result<()> {
    let (Some(real), own) = (cargo_home(environment), home.join(".cargo")) else { return Ok(()) };
    std::fs::create_dir_all(&own)?;
    for name in ["registry", "git", "bin", "config.toml", "config"] {
        let (source, link) = (real.join(name), own.join(name));
        if source.exists() && link.symlink_metadata().is_err() {
            std::os::unix::fs::symlink(&source, &link)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_copy_has_the_files_that_the_sources_have_now() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let write = |path: &str, text: &str| {
            let path = from.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let git =
            |args: &[&str]| Invocation::new("git").cwd(&from).args(args.iter().copied()).read();
        for path in ["src/stream.rs", "gone.rs", "kept.rs", ".gitignore", "a/b/unknown.rs"] {
            write(path, if path == ".gitignore" { "target\n" } else { path });
        }
        git(&["init", "--quiet"]).unwrap();
        git(&["add", "src/stream.rs", "gone.rs", "kept.rs", ".gitignore"]).unwrap();
        std::fs::create_dir_all(to.join("target")).unwrap();
        std::fs::write(to.join("target/made"), "what was made stays").unwrap();
        copy_sources(&from, &to).unwrap();
        let kept = || std::fs::metadata(to.join("kept.rs")).unwrap().modified().unwrap();
        let time = kept();
        // Moved, as git is told; removed, as it is not; and one that it was never told of.
        write("src/stream/mod.rs", "moved");
        git(&["rm", "--quiet", "--cached", "src/stream.rs"]).unwrap();
        for path in ["src/stream.rs", "gone.rs", "a/b/unknown.rs"] {
            std::fs::remove_file(from.join(path)).unwrap();
        }
        // Where a folder was, there may be a file then.
        std::fs::remove_dir_all(from.join("a")).unwrap();
        write("a", "a file");
        copy_sources(&from, &to).unwrap();
        let copied: Vec<_> = sources(&to).unwrap().into_iter().collect();
        let there: Vec<_> = copied.iter().filter(|path| to.join(path).exists()).collect();
        assert_eq!(there, [".gitignore", "a", "kept.rs", "src/stream/mod.rs"]);
        assert_eq!(kept(), time, "what did not change is not written");
        assert!(to.join("target/made").exists());
    }
}
