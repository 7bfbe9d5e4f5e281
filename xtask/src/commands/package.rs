//! `cargo xtask package`: makes a release, and reads one back.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::build::{Extras, Selection, build};
use crate::environment::Environment;
use crate::export::TorchSource;
use crate::package::catalogue::Catalogue;
use crate::package::choice::{Choice, choose};
use crate::package::epoch::Epoch;
use crate::package::make::{Made, Staged, make};
use crate::package::reproduce::Second;
use crate::package::sources::Sources;
use crate::package::target::Target;
use crate::package::trial::{Extent, Trial};
use crate::package::verify::{self, Options};
use crate::package::{compare, dist, sign, size, sums, xcframework};
use crate::rust_build::cargo_home;
use crate::stage::Stage;
use crate::toolchain::rust::{self, Rust};
use crate::toolchain::{Installer, Memory, apple, linux};
use crate::workspace::Workspace;

/// `cargo xtask package`.
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Package {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    selection: Selection,
    /// For what, as `linux-x86_64` or `macos-arm64`; more than one as often as given (default: what
    /// the preset says in `package.targets`)
    #[arg(long, value_name = "TARGET", value_parser = Target::named)]
    target: Vec<&'static Target>,
    /// Fail where something that the preset lists cannot be built here, instead of leaving it out
    /// (what --target names has to be built in any case)
    #[arg(long)]
    complete: bool,
    /// Make everything a second time in another folder, under another umask, locale, time zone and
    /// user, and compare
    #[arg(long)]
    verify: bool,
    /// Install what was made for this machine in fresh places, and use it there, with the torch and
    /// numpy that `cargo xtask export` brings
    #[arg(long, value_enum, value_name = "EXTENT")]
    r#try: Option<Extent>,
    /// Where to (default: dist in the repository)
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The members.json of an earlier release, to tell what grew
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Sign SHA256SUMS with this secret key of minisign or cosign
    #[arg(long, env = "ETMETAL_SIGNING_KEY", value_name = "FILE")]
    sign: Option<PathBuf>,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum What {
    /// Check a file of a release, or all in a folder: hashes, members, linkage, provenance
    Verify(Verify),
}

/// `cargo xtask package verify`.
#[derive(Debug, Clone, clap::Args)]
struct Verify {
    /// The file, SHA256SUMS or the folder
    path: PathBuf,
    /// The public key of minisign or cosign that SHA256SUMS has to be signed with
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl Package {
    /// Makes or verifies; true if nothing is wrong.
    ///
    /// # Errors
    /// What failed, and what to do.
    pub fn run(&self) -> Result<bool> {
        match &self.what {
            Some(What::Verify(verify)) => verify.run(),
            None => self.make(),
        }
    }

    fn make(&self) -> Result<bool> {
        let environment = Environment::current();
        let workspace = Workspace::find()?;
        let out = self.out.clone().unwrap_or_else(|| workspace.root.join("dist"));
        let out = std::path::absolute(out)?;
        let before = self.before.as_deref().map(read_catalogue).transpose()?;
        self.check(&workspace, &out, &environment)?;
        let machine = machine(&workspace)?;
        let choice = self.choose(&workspace, &environment, &machine)?;
        if self.r#try.is_some() {
            own(&choice.targets, &machine)?;
        }
        let stages = self.stages(&choice.targets, &machine, &environment)?;
        if self.selection.dry_run {
            return Ok(true);
        }
        let mut made = make(&workspace, &stages, &environment, &mut |line| eprintln!("{line}"))?;
        let budgets = stages[0].preset.package.budgets()?;
        let sizes = size::report(&made.catalogue, &budgets, before.as_ref());
        print!("{}", sizes.table);
        if !sizes.too_large.is_empty() {
            bail!(
                "{}\nMake it smaller, or raise the budget in [package] of the preset. Nothing was \
                 put in place",
                sizes.too_large.join("\n")
            );
        }
        if self.verify && !self.is_made_again(&workspace, &made, &choice, &environment)? {
            return Ok(false);
        }
        if let Some(key) = &self.sign {
            let (name, bytes) = sign::sign(&made.files[sums::NAME], key, &environment)?;
            made.files.insert(name, bytes);
        }
        dist::publish(&out, &made.files)?;
        if let Some(extent) = self.r#try {
            try_out(&workspace, &stages, &made, &out, extent)?;
        }
        println!("made: {} ({} files)", workspace.shown(&out), made.files.len());
        choice.left_out.iter().for_each(|line| println!("left out: {line}"));
        if let Some(missing) = xcframework::missing(&choice.targets) {
            println!("note: {missing}");
        }
        Ok(true)
    }

    /// Checks what would stop the making in the end, before it begins: it takes its time.
    fn check(&self, workspace: &Workspace, out: &Path, environment: &Environment) -> Result<()> {
        let sources = Sources::of(&workspace.root);
        Epoch::find(environment, &sources)?;
        if let Some(key) = &self.sign {
            sign::check_key(key, environment)?;
        }
        if self.selection.dry_run {
            return Ok(());
        }
        if let Some(first) = sources.changed.first() {
            let more = match sources.changed.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            eprintln!(
                "note: not the sources of a commit: {first}{more} changed. The provenance says so, \
                 and the commit alone does not make the same again"
            );
        }
        dist::check(out)
    }

    /// What is made: what --target names, else what of the preset's list can be built here. Found
    /// out before anything is built, which takes its time.
    fn choose(
        &self,
        workspace: &Workspace,
        environment: &Environment,
        machine: &str,
    ) -> Result<Choice> {
        let named = !self.target.is_empty();
        let listed = match named {
            true => self.target.clone(),
            false => {
                let (preset, define) = (&self.selection.preset, &self.selection.define);
                super::preset::resolve(preset, define, environment)?.package.targets(machine)?
            }
        };
        if self.selection.dry_run {
            return Ok(Choice { targets: listed, left_out: Vec::new() });
        }
        let choice = choose(&listed, named || self.complete, &mut |target| {
            self.lacking(target, workspace, environment, machine)
        })?;
        choice.left_out.iter().for_each(|line| eprintln!("left out: {line}"));
        Ok(choice)
    }

    /// Why `target` cannot be built here, after trying to get what it needs.
    ///
    /// # Errors
    /// The preset is wrong.
    fn lacking(
        &self,
        target: &Target,
        workspace: &Workspace,
        environment: &Environment,
        machine: &str,
    ) -> Result<Option<String>> {
        let preset = match target.preset(&self.selection.preset, machine) {
            Ok(preset) => super::preset::resolve(preset, &self.selection.define, environment)?,
            Err(impossible) => return Ok(Some(format!("{impossible:#}"))),
        };
        let provide = || -> Result<()> {
            rust::provide(workspace, target.triple)?;
            if linux::is_cross(&preset) {
                linux::find(environment, &preset, Installer::detect())?;
            } else if apple::is_cross(&preset) && preset.toolchain.cxx.is_none() {
                apple::find_linker(workspace, environment)?;
            }
            Ok(())
        };
        Ok(provide().err().map(|missing| format!("{missing:#}")))
    }

    /// Builds a stage for each target.
    fn stages(
        &self,
        targets: &[&'static Target],
        machine: &str,
        environment: &Environment,
    ) -> Result<Vec<Staged>> {
        let resolve =
            |preset: &str, define: &[String]| super::preset::resolve(preset, define, environment);
        let mut stages = Vec::new();
        for target in targets {
            let preset = target.preset(&self.selection.preset, machine)?;
            let mut selection = Selection { preset: preset.to_owned(), ..self.selection.clone() };
            if target.is_apple() {
                // A release names no folder of the machine that made it, not that of OpenMP either.
                selection.define.push("link.openmp=off".into());
            }
            // ExecuTorch's Python runtime needs torch, even to run a model.
            let is_tried = self.r#try.is_some() && target.triple == machine;
            let torch = is_tried.then(TorchSource::default);
            let built = build(&selection, Extras { torch, ..Extras::default() }, false)
                .with_context(|| format!("cannot build for {}", target.name))?;
            built.require_etmetal()?;
            stages.push(Staged {
                target,
                preset: resolve(preset, &selection.define)?,
                stage: built.stage.root().to_owned(),
                python: built.python,
            });
        }
        Ok(stages)
    }

    /// Makes everything a second time; whether it is the same.
    fn is_made_again(
        &self,
        workspace: &Workspace,
        made: &Made,
        choice: &Choice,
        environment: &Environment,
    ) -> Result<bool> {
        eprintln!("making it a second time elsewhere");
        let second = Second::prepare(workspace, environment)?;
        let verbose = self.selection.verbose;
        let files = second.make(&self.arguments(&choice.targets), made.epoch, &mut |line| {
            if verbose {
                eprintln!("  {line}");
            }
        })?;
        let around = second.circumstances(environment);
        let lines = compare::compare(&made.files, &files, made.epoch, &around);
        lines.iter().for_each(|line| println!("DIFFERENT {line}"));
        for name in made.files.keys().filter(|name| files.get(*name) == made.files.get(*name)) {
            println!("IDENTICAL {name}");
        }
        if !lines.is_empty() {
            println!("nothing was put in place");
        }
        Ok(lines.is_empty())
    }

    /// The arguments that make the same, without those that say where to and what to do with it.
    fn arguments(&self, targets: &[&'static Target]) -> Vec<String> {
        let mut arguments = vec!["--preset".to_owned(), self.selection.preset.clone()];
        for define in &self.selection.define {
            arguments.extend(["-D".to_owned(), define.clone()]);
        }
        for target in targets {
            arguments.extend(["--target".to_owned(), target.name.to_owned()]);
        }
        arguments
    }
}

impl Verify {
    fn run(&self) -> Result<bool> {
        let environment = Environment::current();
        let workspace = Workspace::find().ok().map(|workspace| workspace.root);
        let options = Options {
            key: self.key.clone(),
            private_folders: workspace.into_iter().chain(cargo_home(&environment)).collect(),
        };
        let verdict = verify::verify(&self.path, &options, &environment)?;
        verdict.good.iter().for_each(|line| println!("good: {line}"));
        verdict.faults.iter().for_each(|line| println!("WRONG: {line}"));
        match verdict.faults.len() {
            0 => println!("verified: {}", self.path.display()),
            1 => println!("not verified: {}: 1 fault", self.path.display()),
            count => println!("not verified: {}: {count} faults", self.path.display()),
        }
        Ok(verdict.faults.is_empty())
    }
}

/// The triple of this machine.
fn machine(workspace: &Workspace) -> Result<String> {
    let tools = Memory::load(workspace.state().join("tools.json"));
    Ok(Rust::find(workspace, &tools)?.host)
}

/// Tries what was made for this machine.
fn try_out(
    workspace: &Workspace,
    stages: &[Staged],
    made: &Made,
    out: &Path,
    extent: Extent,
) -> Result<()> {
    let targets: Vec<_> = stages.iter().map(|staged| staged.target).collect();
    let target = own(&targets, &crate::preset::machine::triple())?;
    let staged = stages.iter().find(|staged| staged.target == target).expect("one of them");
    let trial = Trial {
        workspace,
        release: out,
        catalogue: &made.catalogue,
        epoch: made.epoch,
        target: staged.target,
        python: &staged.python,
        msl_compiler: &Stage::new(staged.stage.clone()).msl_compiler(),
        extent,
    };
    trial.run(&mut |line| println!("tried: {line}"))
}

/// That of `targets` which is this machine's.
///
/// # Errors
/// None is.
fn own(targets: &[&'static Target], machine: &str) -> Result<&'static Target> {
    let own = targets.iter().find(|target| target.triple == machine).copied();
    own.with_context(|| {
        format!("--try uses what is made for this machine ({machine}), and nothing is")
    })
}

fn read_catalogue(path: &Path) -> Result<Catalogue> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Catalogue::parse(&bytes).with_context(|| format!("{}: this is no members.json", path.display()))
}
