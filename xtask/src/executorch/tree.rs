//! ExecuTorch's source tree: a checkout on this machine, or one that is fetched with git.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::preset::backend::Metal;
use crate::preset::executorch::{From, PREFIX};
use crate::preset::{Preset, Value};
use crate::process::Invocation;
use crate::steps::{Action, Input, Step};
use crate::toolchain::Version;
use crate::workspace::Workspace;

/// The oldest version that a backend from outside can be built into.
const OLDEST: Version = Version(1, 5, 0);

/// The name that ExecuTorch's CMakeLists.txt demands of its folder.
const NAME: &str = "executorch";

/// A source tree.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Its folder, `…/executorch`.
    pub root: PathBuf,
    /// Where it is fetched from; nothing for one that is there and may change.
    pub remote: Option<Remote>,
}

/// A revision of a git repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The repository.
    pub url: String,
    /// The commit, tag or branch.
    pub rev: String,
}

/// Submodules that a build needs, and the option (without [`PREFIX`]) that it needs them for,
/// with whether that is on by default.
const SUBMODULES: [(&str, Option<(&str, bool)>); 11] = [
    ("third-party/flatbuffers", None),
    ("third-party/flatcc", None),
    ("third-party/gflags", None),
    ("third-party/json", None),
    ("backends/xnnpack/third-party/FXdiv", None),
    ("backends/xnnpack/third-party/cpuinfo", Some(("BUILD_CPUINFO", true))),
    ("backends/xnnpack/third-party/pthreadpool", Some(("BUILD_PTHREADPOOL", true))),
    ("backends/xnnpack/third-party/XNNPACK", Some(("BUILD_XNNPACK", false))),
    ("kernels/optimized/third-party/eigen", Some(("BUILD_KERNELS_OPTIMIZED", false))),
    ("third-party/pybind11", Some(("BUILD_PYBIND", false))),
    ("extension/llm/tokenizers", Some(("BUILD_EXTENSION_LLM", false))),
];

/// Options (without [`PREFIX`]) whose code is generated with PyTorch or compiled against it, with
/// whether they are on by default.
const NEED_TORCH: [(&str, bool); 6] = [
    ("BUILD_PORTABLE_OPS", true),
    ("BUILD_KERNELS_OPTIMIZED", false),
    ("BUILD_KERNELS_QUANTIZED", false),
    ("BUILD_KERNELS_LLM", false),
    ("BUILD_PYBIND", false),
    ("BUILD_METAL", false),
];

impl Tree {
    /// The tree that `preset` names, checked as far as it is there.
    ///
    /// # Errors
    /// Everything that is wrong with it, and what to do.
    pub fn new(preset: &Preset, workspace: &Workspace) -> Result<Self> {
        let executorch = &preset.executorch;
        let remote = match (&executorch.url, &executorch.rev) {
            (Some(url), Some(rev)) => {
                Some(Remote { url: url.value.clone(), rev: rev.value.clone() })
            }
            _ => None,
        };
        if let Some(remote) = remote {
            ensure!(
                !remote.rev.starts_with('-') && !remote.url.starts_with('-'),
                "{}: a git repository and its revision do not begin with `-`",
                executorch.from.origin
            );
            let root = remote.tree(&workspace.executorch());
            return Ok(Self { root, remote: Some(remote) });
        }
        let path = executorch.path.as_ref();
        let path = path.context("a preset with `from = \"source\"` has a path")?;
        let root = workspace.root.join(&path.value);
        check(&root, preset).with_context(|| format!("{}: `executorch.path`", path.origin))?;
        Ok(Self { root, remote: None })
    }

    /// The key of [`Tree::fetch_step`].
    fn key(remote: &Remote) -> String {
        format!("executorch-{}", remote.folder())
    }

    /// The step that fetches the tree; nothing for one that is there.
    ///
    /// A branch is fetched once; `--force` fetches it again.
    pub fn fetch_step(&self) -> Option<Step> {
        let remote = self.remote.as_ref()?;
        let folder = self.root.parent()?.to_owned();
        let new = folder.join(format!("{NAME}.new"));
        let git = || {
            // Never wait for a password; and nothing that goes on after git has ended.
            let git = Invocation::new("git").env("GIT_TERMINAL_PROMPT", "0");
            git.args(["-c", "maintenance.auto=false", "-c", "gc.auto=0", "-C"]).arg(&new)
        };
        let fetch = git().args(["fetch", "--depth", "1", "--no-tags"]);
        let update = git().args(["submodule", "update", "--init", "--recursive", "--depth", "1"]);
        Some(Step {
            name: "ExecuTorch's sources",
            key: Self::key(remote),
            inputs: vec![Input::Value("the revision".into(), remote.to_string())],
            // What an interrupted run left is not repaired but removed.
            actions: vec![
                Action::Remove(new.clone()),
                Action::MakeFolder(new.clone()),
                Action::Run(git().args(["init", "--quiet"])),
                Action::Run(fetch.args([&remote.url, &remote.rev])),
                Action::Run(git().args(["checkout", "--quiet", "--detach", "FETCH_HEAD"])),
                // Submodules with relative addresses are found from here.
                Action::Run(git().args(["remote", "add", "origin", &remote.url])),
                Action::Run(update),
                Action::Replace {
                    from: new,
                    to: self.root.clone(),
                    parked: folder.join(format!("{NAME}.old")),
                },
            ],
            outputs: vec![self.root.join("CMakeLists.txt").into()],
            hint: format!(
                "see git's messages in the log: {} may be out of reach, or have no commit, tag or \
                 branch {} (a commit has to be written out in full)",
                remote.url, remote.rev
            ),
        })
    }

    /// What steps that compile the tree depend on.
    pub fn input(&self) -> Input {
        match &self.remote {
            Some(remote) => Input::Step(Self::key(remote)),
            None => Input::Tool("CMake looks for changes in ExecuTorch's sources"),
        }
    }

    /// ExecuTorch's options in full: what the backend needs, and those of the preset, which has
    /// been checked.
    pub fn options(preset: &Preset) -> BTreeMap<String, String> {
        let needed = preset.backend.metal.value.options().iter();
        let mut options: BTreeMap<_, _> =
            needed.map(|name| (format!("{PREFIX}{name}"), "ON".to_owned())).collect();
        options.extend(preset.executorch.cmake_options());
        options
    }

    /// The option for which the build of `preset` needs PyTorch, if it does.
    pub fn needs_torch(preset: &Preset) -> Option<&'static str> {
        let upstream = preset.backend.metal.value == Metal::Upstream;
        let is_on = |(name, default): &&(&'static str, bool)| match *name {
            "BUILD_METAL" => upstream,
            name => option_is_on(preset, name, *default),
        };
        NEED_TORCH.iter().find(is_on).map(|(name, _)| *name)
    }
}

impl Remote {
    /// Where its tree lies, once it is fetched into `folder`.
    pub fn tree(&self, folder: &Path) -> PathBuf {
        folder.join(self.folder()).join(NAME)
    }

    /// A name for its folder: readable, and its own.
    fn folder(&self) -> String {
        let short = self.rev.chars().take(24);
        let readable: String =
            short.map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        let digest = Sha256::digest(self.to_string().as_bytes());
        let digest: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{readable}-{digest}")
    }
}

impl std::fmt::Display for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.url, self.rev)
    }
}

/// Whether CMake takes `value` for true.
fn is_on(value: &Value) -> bool {
    let text = value.cmake_text().to_uppercase();
    !matches!(text.as_str(), "OFF" | "0" | "FALSE" | "NO" | "N" | "IGNORE" | "" | "NOTFOUND")
        && !text.ends_with("-NOTFOUND")
}

fn option_is_on(preset: &Preset, name: &str, default: bool) -> bool {
    preset.executorch.options.get(name).map_or(default, |set| is_on(&set.value))
}

/// Checks a tree that is there.
fn check(root: &Path, preset: &Preset) -> Result<()> {
    ensure!(root.is_dir(), "there is no folder {}", root.display());
    let version = root.join("version.txt");
    if !root.join("CMakeLists.txt").is_file() || !version.is_file() {
        bail!(
            "{} is no ExecuTorch checkout: it lacks CMakeLists.txt or version.txt",
            root.display()
        );
    }
    let text = std::fs::read_to_string(&version)
        .with_context(|| format!("cannot read {}", version.display()))?;
    let found = Version::in_text(text.trim())
        .with_context(|| format!("{} holds no version: {:?}", version.display(), text.trim()))?;
    let mut faults = Vec::new();
    if found < OLDEST {
        faults.push(format!("it is ExecuTorch {found}; {OLDEST} or newer is needed"));
    }
    if root.file_name().is_none_or(|name| name != NAME) {
        faults.push(format!(
            "its folder has to be called `{NAME}` (its CMakeLists.txt insists): rename it, or set \
             the path to a symbolic link of that name"
        ));
    }
    let missing = missing_submodules(root, preset);
    if !missing.is_empty() {
        faults.push(format!(
            "it lacks submodules ({}): git -C {} submodule update --init --recursive",
            missing.join(", "),
            crate::process::quote(root.as_os_str())
        ));
    }
    ensure!(faults.is_empty(), "{}: {}", root.display(), faults.join("; "));
    Ok(())
}

/// The submodules that a build of `preset` needs and that were not checked out.
fn missing_submodules(root: &Path, preset: &Preset) -> Vec<&'static str> {
    let listed = std::fs::read_to_string(root.join(".gitmodules")).unwrap_or_default();
    let is_listed = |path: &str| listed.lines().any(|line| line.trim() == format!("path = {path}"));
    let is_empty = |path: &str| {
        std::fs::read_dir(root.join(path)).map_or(true, |mut entries| entries.next().is_none())
    };
    let needed = SUBMODULES.iter().filter(|(_, option)| {
        option.is_none_or(|(name, default)| option_is_on(preset, name, default))
    });
    needed.map(|(path, _)| *path).filter(|path| is_listed(path) && is_empty(path)).collect()
}

/// Whether `preset` builds ExecuTorch's own tests.
pub fn has_tests(preset: &Preset) -> bool {
    is_from_source(preset) && option_is_on(preset, "BUILD_TESTS", false)
}

/// Whether `preset` builds ExecuTorch itself.
pub fn is_from_source(preset: &Preset) -> bool {
    preset.executorch.from.value != From::Sdk
}
