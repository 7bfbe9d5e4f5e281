//! What changed, and what depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::pipeline::{JobPaths, Pipeline};
use crate::preset::{Folder, Source as _, inherits};
use crate::process::Invocation;
use crate::workspace::cargo;

/// The files that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// All of them count as changed, with the reason.
    All(String),
    /// Paths from the repository's root.
    Files(Vec<String>),
}

impl Changes {
    /// What differs between the working copy and the commit where it left `revision`; files that
    /// git does not know yet count too.
    ///
    /// # Errors
    /// git is not there, or does not know `revision`. A full hash that it does not know is no
    /// error: after a forced push the commit that a branch was on may be gone.
    pub fn since(root: &Path, revision: &str) -> Result<Self> {
        let git = || Invocation::new("git").cwd(root).without_env("GIT_DIR");
        let hash = revision.len() == 40 && revision.chars().all(|c| c.is_ascii_hexdigit());
        if revision.is_empty() || hash && revision.chars().all(|c| c == '0') {
            return Ok(Self::All("there is no revision to compare with".to_owned()));
        }
        // An option is no revision.
        ensure!(!revision.starts_with('-'), "`{revision}` is no revision");
        let base = match git().args(["merge-base", revision, "HEAD"]).read() {
            Ok(base) => base.trim().to_owned(),
            Err(_) if hash => return Ok(Self::All(format!("the commit {revision} is not here"))),
            Err(error) => {
                let what = format!("cannot compare with `{revision}`");
                return Err(error.context(what));
            }
        };
        let diff = git().args(["diff", "--name-only", "--no-renames", "-z", &base]).read()?;
        let new = git().args(["ls-files", "--others", "--exclude-standard", "-z"]).read()?;
        let names = diff.split('\0').chain(new.split('\0')).filter(|name| !name.is_empty());
        let files: BTreeSet<String> = names.map(str::to_owned).collect();
        Ok(Self::Files(files.into_iter().collect()))
    }
}

/// Who owns which file, and who depends on whom.
#[derive(Debug, Clone)]
pub struct Dependencies {
    crates: BTreeMap<String, Package>,
    /// Each preset with those it inherits, itself included.
    presets: BTreeMap<String, BTreeSet<String>>,
    everything: Globs,
    nothing: Globs,
    /// The globs of all jobs.
    claimed: Globs,
}

#[derive(Debug, Clone)]
struct Package {
    /// From the repository's root, with `/` at its end.
    folder: String,
    depends: BTreeSet<String>,
}

impl Dependencies {
    /// Asks cargo about the workspace at `root`, and reads its presets.
    ///
    /// # Errors
    /// cargo does not answer, a preset inherits what there is not, a glob is wrong, or a job names
    /// a crate or preset that there is not.
    pub fn read(root: &Path, pipeline: &Pipeline) -> Result<Self> {
        let text = cargo(root).args(["metadata", "--no-deps", "--format-version=1"]).read()?;
        let metadata = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
        Self::new(crates(&metadata)?, presets(root)?, pipeline)
    }

    fn new(
        crates: BTreeMap<String, Package>,
        presets: BTreeMap<String, BTreeSet<String>>,
        pipeline: &Pipeline,
    ) -> Result<Self> {
        for job in &pipeline.job {
            for name in &job.paths.crates {
                ensure!(
                    crates.contains_key(name),
                    "job `{}`: there is no crate `{name}`",
                    job.name
                );
            }
            for name in &job.paths.presets {
                let there = presets.contains_key(name);
                ensure!(there, "job `{}`: there is no preset `{name}`", job.name);
            }
        }
        Ok(Self {
            crates,
            presets,
            everything: Globs::new(&pipeline.paths.everything)?,
            nothing: Globs::new(&pipeline.paths.nothing)?,
            claimed: Globs::new(pipeline.job.iter().flat_map(|job| &job.paths.files))?,
        })
    }

    /// Whether there is a preset `name`.
    pub fn has_preset(&self, name: &str) -> bool {
        self.presets.contains_key(name)
    }

    /// Why a job that depends on `paths` and `preset` has to run after a change of `file`.
    ///
    /// # Errors
    /// A glob is wrong.
    pub fn reason(
        &self,
        file: &str,
        paths: &JobPaths,
        preset: Option<&str>,
    ) -> Result<Option<String>> {
        if let Some(glob) = Globs::new(&paths.files)?.matching(file) {
            return Ok(Some(format!("{file} changed (`{glob}`)")));
        }
        if let Some(glob) = self.everything.matching(file) {
            return Ok(Some(format!("{file} changed, which everything depends on (`{glob}`)")));
        }
        if self.nothing.matching(file).is_some() {
            return Ok(None);
        }
        if paths.is_empty() {
            return Ok(Some(format!("{file} changed")));
        }
        if let Some(owner) = self.owner(file) {
            return Ok(self.through(owner, &paths.crates).map(|job_crate| {
                if job_crate == owner {
                    format!("{file} of {owner} changed")
                } else {
                    format!("{file} of {owner} changed, which {job_crate} depends on")
                }
            }));
        }
        if let Some(name) = preset_of(file) {
            let mut used = paths.presets.iter().map(String::as_str).chain(preset);
            let heir = used.find(|p| self.presets.get(*p).is_some_and(|all| all.contains(name)));
            return Ok(heir.map(|heir| {
                let how = if heir == name { "" } else { ", which it inherits" };
                format!("preset {heir}: {file} changed{how}")
            }));
        }
        if self.claimed.matching(file).is_some() {
            return Ok(None);
        }
        Ok(Some(format!("{file} changed, and nothing says what depends on it")))
    }

    /// The crate in whose folder `file` lies.
    fn owner(&self, file: &str) -> Option<&str> {
        let inside = self.crates.iter().filter(|(_, package)| file.starts_with(&package.folder));
        inside.max_by_key(|(_, package)| package.folder.len()).map(|(name, _)| name.as_str())
    }

    /// The first of `crates` that is `wanted` or depends on it, at any distance.
    fn through<'a>(&self, wanted: &str, crates: &'a [String]) -> Option<&'a String> {
        crates.iter().find(|name| {
            let mut seen = BTreeSet::from([name.as_str()]);
            let mut open = vec![name.as_str()];
            while let Some(next) = open.pop() {
                if next == wanted {
                    return true;
                }
                let package = self.crates.get(next);
                let depends = package.into_iter().flat_map(|package| &package.depends);
                open.extend(depends.map(String::as_str).filter(|name| seen.insert(name)));
            }
            false
        })
    }
}

/// Each preset of the repository at `root`, with itself and those it inherits at any distance.
fn presets(root: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let folder = Folder::new(root);
    let family = |name: String| {
        let (line, faults) = inherits::linearize(&folder, &name);
        let documents = faults.or(line)?.documents.into_iter();
        Ok((name, documents.map(|document| document.identity.name).collect()))
    };
    folder.names().into_iter().map(family).collect()
}

/// The preset that `file` declares.
fn preset_of(file: &str) -> Option<&str> {
    file.strip_prefix("presets/")?.strip_suffix(".toml").filter(|name| !name.contains('/'))
}

/// The workspace's crates in what cargo metadata says.
fn crates(metadata: &serde_json::Value) -> Result<BTreeMap<String, Package>> {
    let root = metadata["workspace_root"].as_str().context("cargo metadata has no root")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let package = |package: &serde_json::Value| {
        let name = package["name"].as_str()?;
        let manifest = Path::new(package["manifest_path"].as_str()?);
        let folder = manifest.parent()?.strip_prefix(root).ok()?.to_str()?;
        let local = package["dependencies"].as_array()?.iter().filter(|d| d["path"].is_string());
        let depends = local.filter_map(|d| d["name"].as_str()).map(str::to_owned).collect();
        // A package of the root itself owns what no other does.
        let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        Some((name.to_owned(), Package { folder, depends }))
    };
    let packages = packages.iter().map(|p| package(p).context("a package lacks what it must have"));
    packages.collect()
}

/// Globs over paths: `*` stays inside a folder, `**` does not.
#[derive(Debug, Clone)]
struct Globs {
    globs: Vec<Glob>,
    set: GlobSet,
}

impl Globs {
    fn new<'a>(globs: impl IntoIterator<Item = &'a String>) -> Result<Self> {
        let glob = |glob: &String| GlobBuilder::new(glob).literal_separator(true).build();
        let globs = globs.into_iter().map(glob).collect::<Result<Vec<_>, _>>()?;
        let mut set = GlobSetBuilder::new();
        globs.iter().for_each(|glob| {
            set.add(glob.clone());
        });
        Ok(Self { globs, set: set.build()? })
    }

    fn matching(&self, file: &str) -> Option<&Glob> {
        self.set.matches(file).first().map(|&index| &self.globs[index])
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `app` on `lib` on `core`; `tool` alone; presets `metal` on `base`, `tiny` alone.
    pub(crate) fn dependencies(pipeline: &Pipeline) -> Dependencies {
        let package = |folder: &str, depends: &[&str]| Package {
            folder: folder.to_owned(),
            depends: depends.iter().map(|&name| name.to_owned()).collect(),
        };
        let crates = BTreeMap::from([
            ("core".to_owned(), package("core/", &[])),
            ("lib".to_owned(), package("lib/", &["core"])),
            ("app".to_owned(), package("lib/app/", &["lib"])),
            ("tool".to_owned(), package("tool/", &[])),
        ]);
        let presets = BTreeMap::from([
            ("base".to_owned(), BTreeSet::from(["base".to_owned()])),
            ("metal".to_owned(), BTreeSet::from(["base".to_owned(), "metal".to_owned()])),
            ("tiny".to_owned(), BTreeSet::from(["tiny".to_owned()])),
        ]);
        Dependencies::new(crates, presets, pipeline).unwrap()
    }

    fn pipeline() -> Pipeline {
        Pipeline::parse(
            r#"
            [action]
            [runner.linux]
            [paths]
            everything = ["Cargo.lock", ".cargo/**"]
            nothing = ["*.md"]
            [[job]]
            name = "docs"
            about = ""
            timeout = 1
            minutes = 1
            steps = [{ name = "a", run = "true" }]
            paths.files = ["docs/**", "*.css"]
            matrix.runner = ["linux"]
            "#,
        )
        .unwrap()
    }

    fn reason(file: &str, crates: &[&str], preset: Option<&str>) -> Option<String> {
        let crates = crates.iter().map(|&name| name.to_owned()).collect();
        let paths = JobPaths { crates, files: vec!["ci/*.sh".into()], ..JobPaths::default() };
        dependencies(&pipeline()).reason(file, &paths, preset).unwrap()
    }

    #[test]
    fn a_change_reaches_what_depends_on_its_crate() {
        let text = reason("core/src/x.rs", &["app"], None).unwrap();
        assert_eq!(text, "core/src/x.rs of core changed, which app depends on");
        let text = reason("lib/app/x.rs", &["app"], None).unwrap();
        assert_eq!(text, "lib/app/x.rs of app changed");
        assert_eq!(reason("lib/app/x.rs", &["lib"], None), None, "the innermost crate owns it");
        assert_eq!(reason("core/src/x.rs", &["tool"], None), None);
        assert!(reason("core/README.md", &["core"], None).is_some(), "`*` stays in its folder");
    }

    #[test]
    fn a_preset_reaches_its_heirs() {
        let text = reason("presets/base.toml", &[], Some("metal")).unwrap();
        assert_eq!(text, "preset metal: presets/base.toml changed, which it inherits");
        assert_eq!(reason("presets/base.toml", &[], Some("tiny")), None);
        assert_eq!(reason("presets/metal.toml", &["app"], None), None);
        assert!(reason("presets/tiny.toml", &[], Some("tiny")).is_some());
    }

    #[test]
    fn presets_know_all_that_they_inherit() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let presets = presets(root).unwrap();
        let family: Vec<_> = presets["metal-debug"].iter().map(String::as_str).collect();
        assert_eq!(family, ["base", "metal", "metal-debug"]);
    }

    #[test]
    fn shared_globs_and_files_that_nothing_claims() {
        assert!(reason(".cargo/config.toml", &["tool"], None).unwrap().contains("everything"));
        assert_eq!(reason("README.md", &["tool"], None), None);
        assert_eq!(reason("docs/x/y.txt", &["tool"], None), None, "another job's");
        assert_eq!(reason("ci/a.sh", &["tool"], None).unwrap(), "ci/a.sh changed (`ci/*.sh`)");
        assert!(reason("Makefile", &["tool"], None).unwrap().contains("nothing says"));
    }

    #[test]
    fn a_job_without_paths_runs_after_any_change_but_those_of_nothing() {
        let dependencies = dependencies(&pipeline());
        let reason = |file| dependencies.reason(file, &JobPaths::default(), None).unwrap();
        assert_eq!(reason("core/x").unwrap(), "core/x changed");
        assert_eq!(reason("README.md"), None);
    }

    #[test]
    fn changes_since_a_revision_are_those_of_the_branch_and_the_working_copy() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let git = |args: &[&str]| {
            let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
            Invocation::new("git").cwd(root).args(identity).args(args).read().unwrap()
        };
        let commit = |file: &str| {
            std::fs::write(root.join(file), file).unwrap();
            git(&["add", "."]);
            git(&["commit", "-qm", file]);
        };
        git(&["init", "-qb", "main"]);
        commit("old");
        git(&["checkout", "-qb", "topic"]);
        commit("ours");
        git(&["checkout", "-q", "main"]);
        commit("theirs");
        git(&["checkout", "-q", "topic"]);
        std::fs::write(root.join("old"), "edited").unwrap();
        std::fs::write(root.join("new ü"), "").unwrap();
        let files = |names: &[&str]| Changes::Files(names.iter().map(|&n| n.to_owned()).collect());
        assert_eq!(Changes::since(root, "main").unwrap(), files(&["new ü", "old", "ours"]));
        for gone in [String::new(), "0".repeat(40), "1234567890".repeat(4)] {
            assert!(matches!(Changes::since(root, &gone), Ok(Changes::All(_))), "{gone}");
        }
        let error = Changes::since(root, "nowhere").unwrap_err().to_string();
        assert_eq!(error, "cannot compare with `nowhere`");
        assert!(Changes::since(root, "--output=x").is_err());
    }
}
