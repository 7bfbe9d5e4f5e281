//! Making the files of a release from finished stages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::archive::{self, Form, Packed};
use super::catalogue::{self, Archive, Catalogue};
use super::compare::Files;
use super::crates::{self, Crate};
use super::digest::sha256;
use super::epoch::Epoch;
use super::licences::{self, Other};
use super::provenance::{self, Provenance};
use super::sources::Sources;
use super::strip::Strip;
use super::sums::{self, Sums};
use super::target::{Kind, Target};
use super::tree::{Member, Tree};
use super::xcframework::{self, Slice};
use super::{VERSION, sbom, sdist, tarball, wheel};
use crate::audit::image::OsVersion;
use crate::environment::Environment;
use crate::preset::Preset;
use crate::process::Invocation;
use crate::toolchain::{Installer, apple, cxx, linux};
use crate::venv::Lock;
use crate::workspace::{Workspace, cargo};

/// A target with its finished stage.
#[derive(Debug)]
pub struct Staged {
    /// For what.
    pub target: &'static Target,
    /// The preset that was built.
    pub preset: Preset,
    /// The stage's folder.
    pub stage: PathBuf,
    /// The Python environment with the ExecuTorch SDK.
    pub python: PathBuf,
}

impl Staged {
    /// The oldest Apple system that is promised.
    fn minimum_os(&self) -> Option<OsVersion> {
        let set = self.preset.toolchain.deployment_target.as_ref();
        set.filter(|_| self.target.is_apple()).and_then(|set| OsVersion::parse(&set.value))
    }
}

/// The files of a release, before they are put in place.
#[derive(Debug)]
pub struct Made {
    /// The files, by name.
    pub files: Files,
    /// What is in them.
    pub catalogue: Catalogue,
    /// The time that they bear.
    pub epoch: Epoch,
}

/// The lock files that say what goes in.
const LOCKS: [&str; 3] =
    ["Cargo.lock", "xtask/lock/requirements-sdk.txt", "xtask/lock/requirements-zig.txt"];

/// Makes the files of a release from `stages`.
///
/// # Errors
/// A stage lacks something, a licence may not be shipped, or a tool does not tell its version.
pub fn make(
    workspace: &Workspace,
    stages: &[Staged],
    environment: &Environment,
    on_line: &mut dyn FnMut(&str),
) -> Result<Made> {
    let root = &workspace.root;
    let sources = Sources::of(root);
    let epoch = Epoch::find(environment, &sources)?;
    let lock = Lock::load(workspace, "sdk")?;
    let sdk = lock.version_of("executorch").context("the lock file names no executorch")?;
    let strip = Strip::find(workspace, environment)?;
    let mut release = Release::new(epoch);
    // Its wheel is of the same version for all.
    let executorch = [executorch(stages.first().context("there is nothing to make")?, sdk)?];
    let (mut all, mut apple) = (Crates::new(), Crates::new());
    let (mut parts, mut shipped) = (Vec::new(), Vec::new());
    for staged in stages {
        let crates = crates::shipped(workspace, staged.target.triple)?;
        let named = crates.iter().map(|one| (one.id(), one.clone()));
        all.extend(named.clone());
        let stage = tarball::stage(&staged.stage, &strip)?;
        parts.extend(native_parts(sdk, &stage));
        if staged.target.kind == Kind::Native {
            on_line(&format!("packing {}", staged.target.name));
            let third_party = licences::text(&crates, &executorch, root)?;
            release.add_native(staged, &stage, root, &third_party)?;
        }
        if staged.target.is_apple() {
            apple.extend(named);
            shipped.push((staged, stage));
        }
    }
    release.add(&sdist::name(), Form::TarGz, &sdist::tree(root)?)?;
    let repository = repository(root)?;
    if shipped.iter().any(|(staged, _)| staged.target.kind == Kind::Slice) {
        on_line("packing the xcframework");
        let apple: Vec<_> = apple.into_values().collect();
        let third_party = licences::text(&apple, &executorch, root)?;
        release.add_xcframework(&shipped, &licences::files(root, &third_party)?, &repository)?;
    }
    parts.sort_by(|one, two| one.name.cmp(&two.name));
    parts.dedup();
    let crates: Vec<_> = all.into_values().collect();
    let provenance = Provenance {
        repository,
        sources,
        locks: locks(root)?,
        tools: tools(workspace, stages, &strip, environment)?,
        presets: stages
            .iter()
            .map(|staged| (staged.target.name.into(), resolution(staged)))
            .collect(),
    };
    release.finish(&sbom::text(&crates, &parts, epoch)?, &provenance)
}

/// Crates by name and version.
type Crates = BTreeMap<String, Crate>;

/// A release that is being made.
pub(super) struct Release {
    files: Files,
    catalogue: Catalogue,
    epoch: Epoch,
}

impl Release {
    /// An empty one, whose members bear the time `epoch`.
    pub(super) fn new(epoch: Epoch) -> Self {
        let catalogue = Catalogue {
            version: VERSION.into(),
            epoch: epoch.seconds(),
            archives: BTreeMap::new(),
        };
        Self { files: Files::new(), catalogue, epoch }
    }

    fn sums(&self) -> BTreeMap<String, String> {
        self.files.iter().map(|(name, bytes)| (name.clone(), sha256(bytes))).collect()
    }

    /// Packs `tree` into the file `name`, and gives back its entry in the catalogue.
    pub(super) fn add(&mut self, name: &str, form: Form, tree: &Tree) -> Result<&mut Archive> {
        let packed: Packed =
            archive::pack(form, tree, self.epoch).with_context(|| format!("cannot make {name}"))?;
        let entry = Archive::new(tree, &packed);
        self.files.insert(name.to_owned(), packed.bytes);
        let entry = self.catalogue.archives.entry(name.to_owned()).insert_entry(entry);
        Ok(entry.into_mut())
    }

    /// Adds what tells about the archives: the bill of materials, the catalogue, the provenance and
    /// the hashes.
    pub(super) fn finish(mut self, bill: &str, provenance: &Provenance) -> Result<Made> {
        self.files.insert(sbom::name(), bill.as_bytes().to_vec());
        self.files.insert(catalogue::name(), self.catalogue.text()?.into_bytes());
        let statement = provenance::text(provenance, &self.sums(), self.epoch)?;
        self.files.insert(provenance::name(), statement.into_bytes());
        let sums = Sums(self.sums());
        self.files.insert(sums::NAME.into(), sums.text().into_bytes());
        Ok(Made { files: self.files, catalogue: self.catalogue, epoch: self.epoch })
    }

    /// The archive of the stage and the wheel.
    fn add_native(&mut self, of: &Staged, stage: &Tree, root: &Path, licences: &str) -> Result<()> {
        let oldest = of.minimum_os();
        let archive = tarball::tree(stage, of.target, root, licences)?;
        let wheel = wheel::wheel(stage, of.target, oldest, root, licences)?;
        let name = format!("{}.tar.zst", tarball::name(of.target));
        for (name, form, tree) in
            [(&name, Form::TarZst, &archive), (&wheel.name, Form::Zip, &wheel.tree)]
        {
            let entry = self.add(name, form, tree)?;
            entry.target = Some(of.target.triple.to_owned());
            entry.minimum_os = oldest.map(|oldest| oldest.to_string());
        }
        Ok(())
    }

    /// The framework of Apple's systems, and the Swift package that names it.
    fn add_xcframework(
        &mut self,
        shipped: &[(&Staged, Tree)],
        licences: &Tree,
        repository: &str,
    ) -> Result<()> {
        let slices: Vec<_> = shipped
            .iter()
            .map(|(staged, stage)| Slice {
                target: staged.target,
                stage,
                minimum_os: staged.minimum_os(),
            })
            .collect();
        let name = xcframework::name();
        let entry = self.add(&name, Form::Zip, &xcframework::tree(&slices, licences)?)?;
        let oldest =
            slices.iter().filter_map(|s| Some((s.target.name.into(), s.minimum_os?.to_string())));
        entry.slices = oldest.collect();
        let text = xcframework::swift_package(&slices, repository, &sha256(&self.files[&name]));
        self.files.insert("Package.swift".into(), text.into_bytes());
        Ok(())
    }
}

/// ExecuTorch's licence, from its wheel.
fn executorch(staged: &Staged, version: &str) -> Result<Other> {
    let bin =
        staged.python.parent().and_then(Path::parent).context("the environment has a folder")?;
    let pattern = format!("executorch-{version}.dist-info/licenses/LICENSE");
    let lib = bin.join("lib");
    let entries =
        std::fs::read_dir(&lib).with_context(|| format!("cannot read {}", lib.display()))?;
    let found = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("site-packages").join(&pattern))
        .find(|path| path.is_file());
    let path =
        found.with_context(|| format!("ExecuTorch's wheel in {} has no licence", lib.display()))?;
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Other { name: format!("ExecuTorch {version} (BSD-3-Clause)"), text })
}

/// What of a stage is no crate: ExecuTorch, Rust's own library, what Python needs.
fn native_parts(executorch: &str, stage: &Tree) -> Vec<sbom::Part> {
    let mut parts = vec![
        sbom::Part {
            kind: "library",
            name: "executorch".into(),
            url: Some(format!("pkg:pypi/executorch@{executorch}")),
            version: Some(executorch.to_owned()),
            licence: "BSD-3-Clause".into(),
            sha256: None,
            about: "its C++ headers are compiled in; its libraries lie beside libetmetal",
        },
        sbom::Part {
            kind: "library",
            name: "numpy".into(),
            version: None,
            licence: "BSD-3-Clause".into(),
            url: Some("pkg:pypi/numpy".into()),
            sha256: None,
            about: "what the Python package needs, not inside",
        },
        sbom::Part {
            kind: "library",
            name: "rust-std".into(),
            version: None,
            licence: "MIT OR Apache-2.0".into(),
            url: Some("pkg:github/rust-lang/rust".into()),
            sha256: None,
            about: "Rust's standard library, in libetmetal and the program",
        },
    ];
    for (path, member) in stage.iter() {
        if let (Some(name), Member::File(bytes, _)) = (path.strip_prefix("lib/"), member)
            && name.starts_with("libexecutorch")
        {
            parts.push(sbom::Part {
                kind: "file",
                name: name.to_owned(),
                version: None,
                licence: "BSD-3-Clause".into(),
                url: None,
                sha256: Some(sha256(bytes)),
                about: "a library of ExecuTorch, as its wheel has it",
            });
        }
    }
    parts
}

fn locks(root: &Path) -> Result<BTreeMap<String, String>> {
    let read = |path: &&str| -> Result<(String, String)> {
        let bytes =
            std::fs::read(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        Ok(((*path).to_owned(), sha256(&bytes)))
    };
    LOCKS.iter().map(read).collect()
}

/// The tools that were used, with the first line of what they say of their version.
fn tools(
    workspace: &Workspace,
    stages: &[Staged],
    strip: &Strip,
    environment: &Environment,
) -> Result<BTreeMap<String, String>> {
    let root = &workspace.root;
    let mut tools = BTreeMap::new();
    tools.insert("cargo".into(), first_line(cargo(root).arg("--version"))?);
    let rustc = Invocation::new("rustc").cwd(root).arg("--version");
    tools.insert("rustc".into(), first_line(rustc)?);
    tools.insert("strip".into(), strip_version(strip)?);
    let lock = Lock::load(workspace, "zig")?;
    let zig = lock.version_of("ziglang").context("the lock file names no ziglang")?;
    for staged in stages {
        let program = |name: &str| Invocation::new(staged.python.with_file_name(name));
        for name in ["python", "cmake", "ninja"] {
            tools.insert(name.into(), first_line(program(name).arg("--version"))?);
        }
        let (name, version) = compiler(staged, environment, zig)?;
        tools.insert(format!("{name} for {}", staged.target.name), version);
    }
    Ok(tools)
}

/// The C++ compiler of a stage: for Apple's systems elsewhere it is zig's, which is pinned.
fn compiler(
    staged: &Staged,
    environment: &Environment,
    zig: &str,
) -> Result<(&'static str, String)> {
    let named = staged.preset.toolchain.cxx.as_ref();
    if apple::is_cross(&staged.preset) && named.is_none() {
        return Ok(("zig c++", zig.to_owned()));
    }
    let cxx = match linux::is_cross(&staged.preset) {
        true => linux::find(environment, &staged.preset, Installer::detect())?,
        false => cxx::find(environment, named, Installer::detect())?,
    };
    Ok(("c++", first_line(Invocation::new(cxx).arg("--version"))?))
}

/// The first line of what a program says.
fn first_line(command: Invocation) -> Result<String> {
    Ok(command.read()?.lines().next().unwrap_or_default().to_owned())
}

/// As in `LLVM version 22.1`: the line that has it is not the first.
fn strip_version(strip: &Strip) -> Result<String> {
    let told = strip.version().read()?;
    let line = told.lines().find(|line| line.contains("version"));
    Ok(line.unwrap_or_default().trim().to_owned())
}

/// Each setting of the preset with its value and what set it.
fn resolution(staged: &Staged) -> BTreeMap<String, serde_json::Value> {
    let settings = staged.preset.settings.iter();
    let mut all: BTreeMap<_, _> = settings
        .map(|(name, set)| {
            let by = set.origin.to_string();
            (name.to_owned(), json!({ "value": set.value.to_string(), "from": by }))
        })
        .collect();
    all.insert("preset".into(), json!({ "value": staged.preset.identity.name }));
    all
}

/// The repository, as the workspace's manifest has it.
fn repository(root: &Path) -> Result<String> {
    let path = root.join("Cargo.toml");
    let context = || format!("cannot read {}", path.display());
    let text = std::fs::read_to_string(&path).with_context(context)?;
    let manifest: toml::Table = toml::from_str(&text).with_context(context)?;
    let found = manifest["workspace"]["package"].get("repository").and_then(|url| url.as_str());
    Ok(found.context("Cargo.toml names no repository")?.to_owned())
}
