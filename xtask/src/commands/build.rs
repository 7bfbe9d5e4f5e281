//! `cargo xtask build`: a preset, from nothing to a stage.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::audit::image::OsVersion;
use crate::audit::target::Target;
use crate::cmake::CmakeBuild;
use crate::environment::Environment;
use crate::executorch;
use crate::linkage::Linkage;
use crate::openmp::{self, find::Search};
use crate::preset::{Folder, Preset};
use crate::rust_build::RustBuild;
use crate::stage::Stage;
use crate::steps::{BuildLock, Options, Runner, Step};
use crate::toolchain::msl::{self, MslCompiler};
use crate::toolchain::rust::Rust;
use crate::toolchain::{Installer, cxx};
use crate::venv::{Lock, Venv, python};
use crate::why::{self, Decision, Record};
use crate::workspace::Workspace;

/// What to build, for every command that builds.
#[derive(Debug, Clone, clap::Args)]
pub struct Selection {
    /// The preset: the name of a file in presets/
    #[arg(long, default_value = "metal", value_name = "NAME")]
    pub preset: String,
    /// Override a setting of the preset, as in `-D toolchain.cxx=clang++`
    #[arg(short = 'D', value_name = "KEY=VALUE")]
    pub define: Vec<String>,
    /// Show the commands as shell and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Show the output of the tools
    #[arg(long, short)]
    pub verbose: bool,
}

/// `cargo xtask build`.
#[derive(Debug, Clone, clap::Args)]
pub struct Build {
    #[command(flatten)]
    selection: Selection,
    /// Do every step anew
    #[arg(long)]
    force: bool,
}

impl Build {
    /// Builds.
    ///
    /// # Errors
    /// What failed, and what to do.
    pub fn run(&self) -> Result<()> {
        let start = Instant::now();
        let built = build(&self.selection, Extras::default(), self.force)?;
        if !self.selection.dry_run {
            let how = if built.anything_done { "built" } else { "up to date" };
            eprintln!(
                "{how}: {} ({:.1} s)",
                built.workspace.shown(built.stage.root()),
                start.elapsed().as_secs_f64()
            );
        }
        Ok(())
    }
}

/// What a command needs besides the stage.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras {
    /// The packages of `requirements-bench.txt` in the Python environment.
    pub bench: bool,
}

/// What came of a build.
#[derive(Debug)]
pub struct Built {
    /// The working copy.
    pub workspace: Workspace,
    /// The compiler.
    pub rust: Rust,
    /// The stage.
    pub stage: Stage,
    /// The interpreter of the Python environment.
    pub python: PathBuf,
    /// Whether any step ran.
    pub anything_done: bool,
}

impl Built {
    /// `PATH` with the build tools of the Python environment in front.
    pub fn path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let tools = self.python.parent().map(PathBuf::from);
        let all = tools.into_iter().chain(std::env::split_paths(&path));
        // Folders with a colon in their names cannot be in PATH.
        std::env::join_paths(all).unwrap_or(path)
    }
}

/// Builds what `selection` says, or shows how.
///
/// # Errors
/// What failed, and what to do.
pub fn build(selection: &Selection, extras: Extras, force: bool) -> Result<Built> {
    let workspace = Workspace::find()?;
    let environment = Environment::current();
    let rust = Rust::find(&workspace)?;
    let preset = Preset::resolve(
        &Folder::new(&workspace.root),
        &selection.preset,
        rust.preset_host()?,
        &rust.host,
        &selection.define,
    )
    .context("the preset cannot be used")?;
    let memory = workspace.state().join("python.json");
    let python = python::find_again(&environment, Installer::detect(), &memory)?;
    let cxx = cxx::find(&environment, preset.toolchain.cxx.as_ref(), Installer::detect())?;
    let target = Target::parse(&rust.host).map_err(anyhow::Error::msg)?;
    let apple = target.platform.is_some();
    let facts = Facts {
        environment: environment.clone(),
        openmp: apple.then(|| openmp::find::search(&environment, &target, &cxx, &preset.link)),
        cxx,
        target,
        clang: msl::find_clang(&environment)?.map(MslCompiler::Clang),
        venv: Venv::new(&workspace, python.clone()),
        workspace,
        rust,
        preset,
    };
    let plan = plan(&facts, extras)?;
    let options = Options { dry_run: selection.dry_run, verbose: selection.verbose, force };
    let state = facts.workspace.state();
    let _lock = match selection.dry_run {
        true => None,
        false => Some(BuildLock::take(&state, |text| eprintln!("{text}"))?),
    };
    let runner = Runner::new(state, facts.workspace.root.clone(), options);
    let anything_done = runner.run(&plan.steps)?;
    if !selection.dry_run && anything_done {
        python::remember(&environment, &python, &memory)?;
    }
    if !selection.dry_run {
        record(&facts, anything_done)?;
    }
    Ok(Built {
        stage: plan.stage,
        python: facts.venv.python(),
        rust: facts.rust,
        workspace: facts.workspace,
        anything_done,
    })
}

/// Records why the build is as it is, for `cargo xtask why`.
fn record(facts: &Facts, anew: bool) -> Result<()> {
    let (state, preset) = (facts.workspace.state(), &facts.preset);
    let (name, triple) = (&preset.identity.name, &facts.target.triple);
    let settings = why::settings(preset);
    // Looking for OpenMP takes longer than everything else that a build with nothing to do does.
    let known = Record::load(&Record::of(&state, name, triple)).ok();
    let known =
        known.filter(|record| !anew && settings.iter().all(|s| record.decisions.contains(s)));
    if let Some(record) = known {
        return record.store(&state);
    }
    let link = &preset.link;
    let search = || openmp::find::search(&facts.environment, &facts.target, &facts.cxx, link);
    let openmp = facts.openmp.clone().unwrap_or_else(search);
    let mut decisions = vec![
        why::compiler(&facts.environment, preset, &facts.cxx),
        facts.why_shaders(),
        facts.why_python(),
        why::openmp(&openmp),
    ];
    decisions.extend(settings);
    let audit = facts.workspace.audit_record(name, triple);
    Record { preset: name.clone(), triple: triple.clone(), audit, decisions }.store(&state)
}

impl Facts {
    fn why_python(&self) -> Decision {
        let because = match self.environment.get("ETMETAL_PYTHON") {
            Some(named) => format!("the environment says ETMETAL_PYTHON={}", named.display()),
            None => "it is the first in PATH that ExecuTorch's wheel is made for and that has \
                     venv, which ETMETAL_PYTHON could override"
                .into(),
        };
        let base = self.venv.base();
        let choice = format!("{} ({})", base.path.display(), base.version);
        Decision::new("python", choice, because)
    }

    fn why_shaders(&self) -> Decision {
        match &self.clang {
            Some(MslCompiler::Clang(tool)) => {
                let because = match self.environment.get("ETMETAL_CLANG") {
                    Some(named) => {
                        format!("the environment says ETMETAL_CLANG={}", named.display())
                    }
                    None => {
                        "it is the newest clang in PATH, which ETMETAL_CLANG could override".into()
                    }
                };
                Decision::new("shaders", tool.path.display(), because)
            }
            Some(MslCompiler::Zig(_)) | None => Decision::new(
                "shaders",
                "zig's clang",
                format!("this machine has no clang that is {} or newer", msl::OLDEST),
            ),
        }
    }
}

/// Everything that a plan depends on: found out before, so that the same facts always give the
/// same plan.
#[derive(Debug)]
struct Facts {
    environment: Environment,
    workspace: Workspace,
    rust: Rust,
    preset: Preset,
    venv: Venv,
    cxx: PathBuf,
    /// The target of the build.
    target: Target,
    /// The OpenMP that models find: on Apple systems they look where libetmetal looks.
    openmp: Option<Search>,
    /// The machine's clang; zig's is provided where there is none.
    clang: Option<MslCompiler>,
}

struct Plan {
    steps: Vec<Step>,
    stage: Stage,
}

fn plan(facts: &Facts, extras: Extras) -> Result<Plan> {
    let lock = |name| Lock::load(&facts.workspace, name);
    let sdk_lock = lock("sdk")?;
    let sdk = executorch::provide(&facts.preset, &facts.venv, &sdk_lock)?;
    let tools = ["cmake", "ninja"].map(|name| facts.venv.program(name));
    let mut steps = vec![facts.venv.make_step(&sdk_lock, [sdk.files(), tools.to_vec()].concat())];
    let msl = match &facts.clang {
        Some(clang) => clang.clone(),
        None => {
            let zig = facts.venv.site_packages().join("ziglang/zig");
            let name = "zig, for its clang (this machine has none that is 15 or newer)";
            steps.push(facts.venv.add_step(name, &lock("zig")?, vec![zig.clone()]));
            MslCompiler::Zig(zig)
        }
    };
    if extras.bench {
        let numpy = facts.venv.site_packages().join("numpy/__init__.py");
        steps.push(facts.venv.add_step("numpy", &lock("bench")?, vec![numpy]));
    }
    let rust = RustBuild {
        workspace: &facts.workspace,
        preset: &facts.preset,
        rust: &facts.rust,
        environment: &facts.environment,
    };
    let deployment_target = facts.preset.toolchain.deployment_target.as_ref();
    let openmp_rpaths = facts.openmp.as_ref().map(Search::rpaths).unwrap_or_default();
    let linkage = Linkage {
        target: &facts.target,
        deployment_target: deployment_target.and_then(|oldest| OsVersion::parse(&oldest.value)),
        link: &facts.preset.link,
        rpaths: &openmp_rpaths,
    };
    let cmake = CmakeBuild {
        linkage: &linkage,
        rust: &rust,
        venv: &facts.venv,
        sdk: &sdk,
        cxx: &facts.cxx,
        triple: &facts.rust.host,
    };
    cmake.check()?;
    let stage = Stage::new(cmake.stage());
    steps.extend([
        rust.step(),
        cmake.configure_step(),
        cmake.compile_step(),
        stage.step(&cmake, &msl),
    ]);
    Ok(Plan { steps, stage })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::process::this_program;
    use crate::steps::runner::render;
    use crate::toolchain::{Tool, Version};
    use crate::venv::Python;

    /// A workspace with the real presets and lock files and an empty `CMakeLists.txt`.
    fn facts(folder: &Path, preset: &str, defines: &[&str], clang: bool) -> Facts {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for name in ["sdk", "zig", "bench"] {
            let path = format!("xtask/lock/requirements-{name}.txt");
            std::fs::create_dir_all(folder.join("xtask/lock")).unwrap();
            std::fs::copy(repository.join(&path), folder.join(&path)).unwrap();
        }
        std::fs::create_dir_all(folder.join("runtime")).unwrap();
        std::fs::write(folder.join("runtime/CMakeLists.txt"), "").unwrap();
        let workspace = Workspace { root: folder.to_owned(), target: folder.join("target") };
        let triple = "x86_64-unknown-linux-gnu";
        let defines: Vec<_> = defines.iter().map(|d| (*d).to_owned()).collect();
        let source = Folder::new(repository);
        let clang = clang.then(|| {
            let path = "/usr/bin/clang++-19".into();
            MslCompiler::Clang(Tool { path, version: Version(19, 1, 7) })
        });
        Facts {
            environment: Environment::default().with("HOME", "/home/me"),
            preset: Preset::resolve(&source, preset, "linux", triple, &defines).unwrap(),
            rust: Rust {
                version: Version(1, 95, 0),
                verbose_version: "rustc 1.95.0".into(),
                host: triple.into(),
            },
            venv: Venv::new(
                &workspace,
                Python { path: "/usr/bin/python3.11".into(), version: Version(3, 11, 2) },
            ),
            cxx: "/usr/bin/c++".into(),
            target: Target::parse(triple).unwrap(),
            openmp: None,
            workspace,
            clang,
        }
    }

    fn shown(preset: &str, defines: &[&str], clang: bool, extras: Extras) -> String {
        let folder = tempfile::tempdir().unwrap();
        shown_of(&folder, &facts(folder.path(), preset, defines, clang), extras)
    }

    fn shown_of(folder: &tempfile::TempDir, facts: &Facts, extras: Extras) -> String {
        let steps = plan(facts, extras).unwrap().steps;
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let text: Vec<_> = steps
            .iter()
            .enumerate()
            .map(|(index, step)| render(index, steps.len(), step, Some("not made yet")))
            .collect();
        let text = text.join("\n").replace(&folder.path().display().to_string(), "ROOT");
        let text = text.replace(&this_program().display().to_string(), "xtask");
        text.replace(&cargo, "cargo")
    }

    #[test]
    fn the_plan_of_the_metal_preset() {
        insta::assert_snapshot!(shown("metal", &[], true, Extras::default()));
    }

    #[test]
    fn the_plan_without_clang_and_with_every_setting() {
        let defines = [
            "toolchain.launcher=ccache",
            "toolchain.cxxflags=-g3,-fno-omit-frame-pointer",
            "link.flags=-fuse-ld=lld",
            "build.features=checked",
        ];
        insta::assert_snapshot!(shown("metal-debug", &defines, false, Extras { bench: true }));
    }

    #[test]
    fn flags_of_the_environment_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut facts = facts(folder.path(), "metal", &[], true);
        facts.environment = facts.environment.with("RUSTFLAGS", "-C target-cpu=native");
        let text = shown_of(&folder, &facts, Extras::default());
        assert!(
            text.contains(
                "env -u CARGO_BUILD_TARGET RUSTFLAGS='-C target-cpu=native \
                 --remap-path-prefix=ROOT=/etmetal --remap-path-prefix=/home/me/.cargo=/cargo' \
                 cargo build --release"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_plan_is_refused_before_anything_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |defines: &[&str], spoil: &dyn Fn()| {
            let facts = facts(folder.path(), "metal", defines, true);
            spoil();
            let error = plan(&facts, Extras::default()).err().unwrap();
            format!("{error:#}").replace(&folder.path().display().to_string(), "ROOT")
        };
        let nothing = || {};
        let version = refused(&["executorch.version=1.4.0"], &nothing);
        insta::assert_snapshot!(version, @"-D executorch.version=1.4.0: the preset wants ExecuTorch 1.4.0, but ROOT/xtask/lock/requirements-sdk.txt pins 1.5.1: change one of them");
        insta::assert_snapshot!(refused(&["executorch.from=git"], &nothing), @r#"-D executorch.from=git: `executorch.from = "git"` is not yet supported; use "sdk""#);
        let lists = folder.path().join("runtime/CMakeLists.txt");
        let missing = refused(&[], &|| std::fs::remove_file(&lists).unwrap());
        insta::assert_snapshot!(missing, @"ROOT/runtime/CMakeLists.txt is missing: is the working copy whole?");
    }
}
