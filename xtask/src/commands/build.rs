//! `cargo xtask build`: a preset, from nothing to a stage.

mod reasons;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail, ensure};

use crate::audit::target::Target;
use crate::cmake::CmakeBuild;
use crate::environment::Environment;
use crate::executorch::{Executorch, Sdk, Tree, tree};
use crate::export::{self, TorchSource};
use crate::linkage::Linkage;
use crate::openmp::{self, find::Search};
use crate::package;
use crate::preset::backend::Metal;
use crate::preset::{Preset, Sourced};
use crate::process::Invocation;
use crate::rust_build::RustBuild;
use crate::stage::Stage;
use crate::steps::{Action, BuildLock, Options, Runner, Step};
use crate::toolchain::apple::{self, CrossToolchain};
use crate::toolchain::msl::{self, MslCompiler};
use crate::toolchain::rust::Rust;
use crate::toolchain::{Installer, Memory, cxx, launcher, linux, rust};
use crate::torch::Torch;
use crate::venv::{Lock, Python, Venv, python};
use crate::workspace::Workspace;

/// What to build, for every command that builds.
#[derive(Debug, Clone, clap::Args)]
pub struct Selection {
    /// The preset: the name of a file in presets/
    #[arg(long, default_value = "metal", env = "ETMETAL_PRESET", value_name = "NAME")]
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
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// The packages of `requirements-bench.txt` in the Python environment.
    pub bench: bool,
    /// PyTorch and what exporting a model needs besides.
    pub torch: Option<TorchSource>,
    /// The packages of `requirements-python-tests.txt`.
    pub python_tests: bool,
    /// zig, for its headers of Apple's systems.
    pub zig: bool,
    /// A prefix to install the stage into.
    pub install: Option<PathBuf>,
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
    /// The interpreter that the environment is made with.
    pub base_python: PathBuf,
    /// The C headers of Apple's systems that zig brings, once `Extras::zig` was asked for.
    pub apple_headers: PathBuf,
    /// Whether any step ran.
    pub anything_done: bool,
    /// Who provides the Metal backend.
    pub metal: Sourced<Metal>,
    /// What runs ExecuTorch's own tests, where the preset builds them (`BUILD_TESTS`).
    pub ctest: Option<Invocation>,
}

impl Built {
    /// A program of the Python environment.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.python.with_file_name(name)
    }

    /// Checks that the stage holds `etmetal` and libetmetal.
    ///
    /// # Errors
    /// The preset builds ExecuTorch without them.
    pub fn require_etmetal(&self) -> Result<()> {
        ensure!(
            self.metal.value == Metal::Etmetal,
            "{}: this preset builds ExecuTorch without etmetal (`backend.metal`), and that is what \
             this command runs",
            self.metal.origin
        );
        Ok(())
    }

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
    let environment = Environment::current();
    // Before any tool is started: what is wrong with a preset is told at once.
    let preset = super::preset::resolve(&selection.preset, &selection.define, &environment)?;
    let workspace = Workspace::find()?;
    let tools = Memory::load(workspace.state().join("tools.json"));
    let memory = workspace.state().join("python.json");
    let python = python::find_again(&environment, Installer::detect(), &memory)?;
    let facts = Facts::gather(preset, &workspace, &environment, &tools, python.clone())?;
    let plan = plan(&facts, &extras)?;
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
        reasons::record(&facts, anything_done)?;
        tools.store()?;
    }
    Ok(Built {
        stage: plan.stage,
        python: facts.venv.python(),
        base_python: facts.venv.base().path.clone(),
        apple_headers: facts.venv.apple_headers(),
        rust: facts.rust,
        workspace: facts.workspace,
        anything_done,
        ctest: plan.ctest,
        metal: facts.preset.backend.metal,
    })
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
    /// What builds for an Apple system from elsewhere, where the preset names no compiler.
    toolchain: Option<CrossToolchain>,
    /// Whether Rust's standard library for the target is still to be installed.
    lacks_target: bool,
    /// The target of the build.
    target: Target,
    /// The OpenMP that models find: on Apple systems they look where libetmetal looks.
    openmp: Option<Search>,
    launcher: Option<PathBuf>,
    /// The Python of the PyTorch in use, for ExecuTorch from source.
    torch_python: Option<PathBuf>,
    /// The machine's clang; zig's is provided where there is none.
    clang: Option<MslCompiler>,
}

impl Facts {
    fn gather(
        preset: Preset,
        workspace: &Workspace,
        environment: &Environment,
        tools: &Memory,
        python: Python,
    ) -> Result<Self> {
        let venv = Venv::new(workspace, python);
        let toolchain = match apple::is_cross(&preset) && preset.toolchain.cxx.is_none() {
            true => {
                let linker = apple::find_linker(workspace, environment)?;
                CrossToolchain::new(&preset, workspace, environment, &venv, linker)
            }
            false => None,
        };
        let cxx = match &toolchain {
            Some(toolchain) => toolchain.cxx(),
            None if linux::is_cross(&preset) => {
                linux::find(environment, &preset, Installer::detect())?
            }
            None => cxx::find(environment, preset.toolchain.cxx.as_ref(), Installer::detect())?,
        };
        let rust = Rust::find(workspace, tools)?;
        let lacks_target =
            preset.target != rust.host && rust::target_library(workspace, &preset.target).is_none();
        let target = Target::parse(&preset.target).map_err(anyhow::Error::msg)?;
        let apple = target.platform.is_some();
        Ok(Self {
            environment: environment.clone(),
            openmp: apple.then(|| openmp::find::search(environment, &target, &cxx, &preset.link)),
            cxx,
            target,
            toolchain,
            lacks_target,
            launcher: launcher::find(environment, preset.toolchain.launcher.as_ref())?,
            torch_python: torch_python(environment, &preset),
            clang: msl::find_clang(environment, tools)?.map(MslCompiler::Clang),
            venv,
            workspace: workspace.clone(),
            rust,
            preset,
        })
    }
}

/// The commands that configure this project's CMake build for each of `presets`; nothing for those
/// that are configured in ExecuTorch's own tree.
///
/// # Errors
/// A tool is missing.
pub fn configurations(presets: Vec<Preset>) -> Result<Vec<(Preset, Option<Invocation>)>> {
    let environment = Environment::current();
    let workspace = Workspace::find()?;
    let tools = Memory::load(workspace.state().join("tools.json"));
    let memory = workspace.state().join("python.json");
    let python = python::find_again(&environment, Installer::detect(), &memory)?;
    let configuration = |preset: Preset| {
        if tree::is_from_source(&preset) {
            return Ok((preset, None));
        }
        let facts =
            Facts::gather(preset.clone(), &workspace, &environment, &tools, python.clone())?;
        let steps = plan(&facts, &Extras::default())?.steps;
        let mut actions = steps.into_iter().flat_map(|step| step.actions);
        let command = actions.find_map(|action| match action {
            Action::Run(command) if command.arguments().first()? == "--fresh" => Some(command),
            _ => None,
        });
        Ok((preset, command))
    };
    presets.into_iter().map(configuration).collect()
}

struct Plan {
    steps: Vec<Step>,
    stage: Stage,
    ctest: Option<Invocation>,
}

fn plan(facts: &Facts, extras: &Extras) -> Result<Plan> {
    let lock = |name| Lock::load(&facts.workspace, name);
    let sdk_lock = lock("sdk")?;
    let executorch = Executorch::new(&facts.preset, &facts.workspace, &facts.venv, &sdk_lock)?;
    let mut needed = ["cmake", "ninja"].map(|name| facts.venv.program(name)).to_vec();
    needed.extend(Sdk::at(&facts.venv, &facts.preset.host).files());
    let mut steps = vec![facts.venv.make_step(&sdk_lock, needed)];
    if let Executorch::Tree(tree) = &executorch {
        check_torch(facts)?;
        steps.extend(tree.fetch_step());
    }
    if let Executorch::Sdk(sdk) = &executorch {
        steps.extend(sdk.fetch_step());
    }
    let has_etmetal = facts.preset.backend.metal.value == Metal::Etmetal;
    let is_cross = apple::is_cross(&facts.preset) || linux::is_cross(&facts.preset);
    let msl = match &facts.clang {
        // What is for another machine finds its compiler there.
        _ if !has_etmetal || is_cross => None,
        Some(clang) => Some(clang.clone()),
        None => Some(MslCompiler::Zig(facts.venv.zig())),
    };
    let uses_zig = matches!(msl, Some(MslCompiler::Zig(_)));
    if uses_zig || facts.toolchain.is_some() || extras.torch.is_some() || extras.zig {
        let zig = facts.venv.zig_step(&lock("zig")?);
        let toolchain = facts.toolchain.as_ref().map(|toolchain| toolchain.step(&zig));
        steps.extend([zig].into_iter().chain(toolchain));
    }
    if extras.bench {
        let numpy = facts.venv.site_packages().join("numpy/__init__.py");
        steps.push(facts.venv.add_step("numpy", &lock("bench")?, vec![numpy]));
    }
    if let Some(torch) = &extras.torch {
        steps.extend(export::steps(&facts.workspace, &facts.venv, torch, &facts.cxx)?);
    }
    if extras.python_tests {
        let tools = ["pytest", "ruff"].map(|name| facts.venv.program(name));
        steps.push(facts.venv.add_step("pytest and ruff", &lock("python-tests")?, tools.into()));
    }
    let rust = RustBuild {
        workspace: &facts.workspace,
        preset: &facts.preset,
        rust: &facts.rust,
        environment: &facts.environment,
        cxx: &facts.cxx,
        launcher: facts.launcher.as_deref(),
        toolchain: facts.toolchain.as_ref(),
        lacks_target: facts.lacks_target,
    };
    let openmp_rpaths = facts.openmp.as_ref().map(Search::rpaths).unwrap_or_default();
    let linkage = Linkage::new(&facts.target, &facts.preset, &openmp_rpaths);
    let cmake = CmakeBuild {
        linkage: &linkage,
        rust: &rust,
        venv: &facts.venv,
        executorch: &executorch,
        cxx: &facts.cxx,
        launcher: facts.launcher.as_deref(),
        torch_python: facts.torch_python.as_deref(),
    };
    cmake.check()?;
    apple::check_sysroot(&facts.preset, &facts.environment)?;
    let stage = Stage::new(cmake.stage());
    steps.extend(has_etmetal.then(|| rust.step()));
    let msl = msl.as_ref();
    steps.extend([cmake.configure_step()?, cmake.compile_step(), stage.step(&cmake, msl)]);
    let archive = facts.preset.package.archive;
    steps.extend(archive.map(|archive| package::step(&cmake, &stage, archive)));
    let prefix = extras.install.as_ref();
    steps.extend(prefix.map(|prefix| stage.install_step(&cmake, prefix)));
    let ctest = tree::has_tests(&facts.preset).then(|| {
        facts.venv.run("ctest").args(["--output-on-failure", "--test-dir"]).arg(cmake.folder())
    });
    Ok(Plan { steps, stage, ctest })
}

/// The Python of the PyTorch in use, where ExecuTorch's own build may want it.
fn torch_python(environment: &Environment, preset: &Preset) -> Option<PathBuf> {
    if !tree::is_from_source(preset) {
        return None;
    }
    let active = environment.get("VIRTUAL_ENV").map(|v| PathBuf::from(v).join("bin/python"));
    let python = active.filter(|path| path.exists()).or_else(|| environment.which("python3"))?;
    let torch = Torch::of(&python)?;
    // ExecuTorch's own Metal backend is compiled against the C ABI that models call.
    let upstream = preset.backend.metal.value == Metal::Upstream;
    (!upstream || torch.aoti_headers().is_some()).then_some(python)
}

/// Refuses options that need PyTorch where there is none: CMake would find that out late.
fn check_torch(facts: &Facts) -> Result<()> {
    let Some(option) = Tree::needs_torch(&facts.preset) else { return Ok(()) };
    if facts.torch_python.is_some() {
        return Ok(());
    }
    let how = match facts.preset.executorch.options.get(option) {
        Some(set) => format!("{}: `{option}` is on", set.origin),
        None => format!("`{option}` is on (ExecuTorch's default, or for `backend.metal`)"),
    };
    bail!(
        "{how}, which needs PyTorch's Python modules and headers, and no PyTorch is found (or \
         one without AOTInductor's headers). Activate the environment that has it (VIRTUAL_ENV, else `python3` is asked), or set \
         `{option} = false` under [executorch.options]"
    )
}

#[cfg(test)]
mod tests;
