//! A target folder of its own, with the tools and the Rust library of the real one, and a small
//! tree in the shape of ExecuTorch's.

#![allow(dead_code)] // each test program uses a part of it

use std::path::{Path, PathBuf};

use anyhow::Result;
use xtask::audit::target::Target;
use xtask::cmake::CmakeBuild;
use xtask::environment::Environment;
use xtask::executorch::{Executorch, Sdk};
use xtask::linkage::Linkage;
use xtask::preset::{Context, Folder, Preset, machine};
use xtask::rust_build::RustBuild;
use xtask::stage::Stage;
use xtask::steps::{BuildLock, Options, Runner, Step};
use xtask::toolchain::msl::{self, MslCompiler};
use xtask::toolchain::rust::Rust;
use xtask::toolchain::{Installer, Memory, Version, cxx};
use xtask::venv::{Lock, Python, Venv};
use xtask::workspace::Workspace;

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A model of the end-to-end tests.
pub fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures").join(name)
}

/// The target folder of the build that these tests run against.
fn real_target() -> PathBuf {
    let stage = std::env::var_os("ETMETAL_STAGE")
        .expect("ETMETAL_STAGE is not set: run these tests with `cargo xtask test`");
    // target/stage/PRESET/TRIPLE
    PathBuf::from(stage).ancestors().nth(3).unwrap().to_owned()
}

/// Puts the small tree into `to`.
pub fn copy_tree(to: &Path) {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &to);
            } else {
                std::fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/small_tree"), to);
    std::fs::write(to.join("sdk-path.txt"), sdk().display().to_string()).unwrap();
}

/// A place to build in.
pub struct Bench {
    /// Where all of it lies.
    pub folder: PathBuf,
    /// Removes it in the end.
    temporary: Option<tempfile::TempDir>,
    /// The repository with a target folder below `folder`.
    pub workspace: Workspace,
    /// What to build.
    pub preset: Preset,
    /// The compiler launcher.
    pub launcher: Option<PathBuf>,
    rust: Rust,
    venv: Venv,
    cxx: PathBuf,
    environment: Environment,
}

impl Bench {
    /// With the small tree as ExecuTorch, and settings of the preset `metal` overridden.
    pub fn new(defines: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy_tree(&folder.path().join("executorch"));
        let bench = Self::with_tree(folder.path(), defines);
        Self { temporary: Some(folder), ..bench }
    }

    /// The same in a folder that is there, with the tree in it.
    pub fn with_tree(folder: &Path, defines: &[&str]) -> Self {
        let path = format!("executorch.path={}", folder.join("executorch").display());
        Self::at(folder, &[&["executorch.from=source", &path], defines].concat())
    }

    /// With ExecuTorch from where `defines` say.
    pub fn of_git(defines: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bench = Self::at(folder.path(), defines);
        Self { temporary: Some(folder), ..bench }
    }

    fn at(folder: &Path, defines: &[&str]) -> Self {
        let target = folder.join("target");
        std::fs::create_dir_all(&target).unwrap();
        // Only read, as no step that makes them is planned here.
        for shared in ["venv", "release"] {
            let link = target.join(shared);
            if link.symlink_metadata().is_err() {
                std::os::unix::fs::symlink(real_target().join(shared), link).unwrap();
            }
        }
        let workspace = Workspace { root: root().to_owned(), target };
        let rust = Rust::find(&workspace, &Memory::default()).unwrap();
        let defines: Vec<_> = defines.iter().map(|define| (*define).to_owned()).collect();
        let environment = Environment::current();
        let context = Context {
            host: rust.preset_host().unwrap(),
            triple: &rust.host,
            environment: &environment,
            defines: &defines,
            root: root(),
            fetched: None,
        };
        let preset = Preset::resolve(&Folder::new(root()), "metal", &context).unwrap();
        let venv = Venv::new(&workspace, base_python(&workspace.venv()));
        let cxx = cxx::find(&environment, None, Installer::detect()).unwrap();
        let folder = folder.to_owned();
        Self {
            folder,
            temporary: None,
            workspace,
            preset,
            launcher: None,
            rust,
            venv,
            cxx,
            environment,
        }
    }

    /// The steps from the configuration to the stage.
    pub fn steps(&self) -> Result<Vec<Step>> {
        let lock = Lock::load(&self.workspace, "sdk")?;
        let executorch = self.executorch(&lock)?;
        let rust = self.rust_build();
        let target = Target::parse(&self.preset.target).map_err(anyhow::Error::msg)?;
        let linkage = Linkage::new(&target, &self.preset, &[]);
        let cmake = self.cmake(&rust, &executorch, &linkage);
        let clang = msl::find_clang(&self.environment, &Memory::default())?;
        let msl = clang.map_or_else(
            || MslCompiler::Zig(self.venv.site_packages().join("ziglang/zig")),
            MslCompiler::Clang,
        );
        let mut steps = Vec::new();
        if let Executorch::Tree(tree) = &executorch {
            steps.extend(tree.fetch_step());
        }
        let msl = cmake.has_etmetal().then_some(&msl);
        let stage = self.stage().step(&cmake, msl);
        steps.extend([cmake.configure_step()?, cmake.compile_step(), stage]);
        Ok(steps)
    }

    /// Builds, under the lock; true if there was anything to do.
    pub fn build(&self) -> Result<bool> {
        let state = self.workspace.state();
        let _lock = BuildLock::take(&state, |text| eprintln!("{text}"))?;
        let runner = Runner::new(state, root().to_owned(), Options::default());
        runner.run(&self.steps()?)
    }

    fn executorch(&self, lock: &Lock) -> Result<Executorch> {
        Executorch::new(&self.preset, &self.workspace, &self.venv, lock)
    }

    fn rust_build(&self) -> RustBuild<'_> {
        RustBuild {
            workspace: &self.workspace,
            preset: &self.preset,
            rust: &self.rust,
            environment: &self.environment,
            cxx: &self.cxx,
            launcher: None,
            toolchain: None,
            lacks_target: false,
        }
    }

    fn cmake<'a>(
        &'a self,
        rust: &'a RustBuild<'a>,
        executorch: &'a Executorch,
        linkage: &'a Linkage<'a>,
    ) -> CmakeBuild<'a> {
        CmakeBuild {
            rust,
            venv: &self.venv,
            executorch,
            cxx: &self.cxx,
            launcher: self.launcher.as_deref(),
            torch_python: None,
            linkage,
        }
    }

    /// ExecuTorch's sources.
    pub fn tree(&self) -> PathBuf {
        match self.executorch(&Lock::load(&self.workspace, "sdk").unwrap()).unwrap() {
            Executorch::Tree(tree) => tree.root,
            Executorch::Sdk(_) => panic!("these tests build ExecuTorch from source"),
        }
    }

    /// CMake's build folder.
    pub fn build_folder(&self) -> PathBuf {
        self.workspace.cmake(&self.preset.identity.name, &self.preset.target)
    }

    /// The result.
    pub fn stage(&self) -> Stage {
        Stage::new(self.workspace.stage(&self.preset.identity.name, &self.preset.target))
    }
}

/// The interpreter that an environment was made with, as far as paths depend on it.
fn base_python(venv: &Path) -> Python {
    let minor = std::fs::read_dir(venv.join("lib")).unwrap().find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_prefix("python3.")?.parse().ok()
    });
    Python { path: venv.join("bin/python"), version: Version(3, minor.unwrap(), 0) }
}

/// The SDK that the small tree takes its runtime from.
pub fn sdk() -> PathBuf {
    let target = real_target();
    let workspace = Workspace { root: root().to_owned(), target };
    let venv = Venv::new(&workspace, base_python(&workspace.venv()));
    Sdk::at(&venv, machine::host().unwrap()).root
}
