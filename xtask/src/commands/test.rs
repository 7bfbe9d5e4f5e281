//! `cargo xtask test`: builds, then runs every check there is, and counts.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::build::{Built, Extras, Selection, build};
use crate::ci::shards::{self, Shard, Unit};
use crate::export::{self, TorchSource};
use crate::package::target::Target;
use crate::process::{Invocation, status};
use crate::standin;
use crate::test_count::{Count, PytestWatcher, Watcher};
use crate::toolchain::rust;
use crate::workspace::cargo;

/// `cargo xtask test`.
#[derive(Debug, Clone, clap::Args)]
pub struct Test {
    #[command(flatten)]
    selection: Selection,
    /// Run only the tests whose names contain this; leaves out the lints
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Leave out formatting, clippy and the documentation
    #[arg(long)]
    no_lint: bool,
    /// Run only the tests of the crates, or of the Python package (default: all; with --filter
    /// --device or --shard those of the crates)
    #[arg(long, value_enum)]
    suite: Option<Suite>,
    /// How much to test beyond what a change is likely to break
    #[arg(long, value_enum, default_value_t = Tier::Quick)]
    tier: Tier,
    /// Run only the tests of one device: `standin` is the Metal device on a stand-in for Metal,
    /// on x86-64 Linux
    #[arg(long, value_name = "DEVICE", conflicts_with = "shard")]
    device: Option<OneDevice>,
    /// With --device standin: make mistakes in the Metal device, one by one, and see that a test
    /// notices each; with --filter those whose names contain it. Takes half an hour
    #[arg(long, requires = "device")]
    faults: bool,
    /// With --device standin: run the models of this folder, one in each folder below it, instead
    /// of the repository's
    #[arg(long, requires = "device", conflicts_with = "faults", value_name = "FOLDER")]
    models: Option<PathBuf>,
    /// With --device standin: optimised and without assertions, as what users get
    #[arg(long, requires = "device", conflicts_with = "faults")]
    release: bool,
    /// Run only a part of the tests, as 1/3; leaves out the lints
    #[arg(long, value_name = "K/N", conflicts_with = "filter")]
    shard: Option<Shard>,
}

/// Whose tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// The crates' and the Python package's.
    All,
    /// The crates'.
    Rust,
    /// The Python package's.
    Python,
}

/// How much to test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Tier {
    /// What a change is likely to break.
    Quick,
    /// Of the Python package, every model in every form.
    Full,
    /// Besides, a release: made twice and compared, installed with all that it needs.
    Release,
}

/// A device whose tests can be run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OneDevice {
    /// The Metal device on the stand-in.
    Standin,
}

/// One check: a command that passes or fails as a whole.
#[derive(Debug)]
struct Lint {
    name: &'static str,
    commands: Vec<Invocation>,
}

/// The time that packages bear which are only tried: tests need no commit.
const TRIED: &str = "1767225600";

/// What runs nowhere but on a Mac.
const NEEDS_A_MAC: &str = "anything on Apple hardware (it needs a Mac)";

impl Test {
    /// Builds and checks; the last line is the count. True if everything passed and there was
    /// something to pass.
    ///
    /// # Errors
    /// A tool cannot be started.
    pub fn run(&self) -> Result<bool> {
        let suite = self.suite();
        let alone = self.device.is_some() && (suite == Suite::Rust || self.faults);
        if alone && let Some(tools) = standin::Tools::of_machine()? {
            return self.run_standin(&tools);
        }
        let extras = match suite {
            Suite::Rust => Extras { zig: true, ..Extras::default() },
            Suite::All | Suite::Python => Extras {
                torch: Some(TorchSource::default()),
                python_tests: true,
                ..Extras::default()
            },
        };
        let built = build(&self.selection, extras, false);
        let built = match built.and_then(|built| built.require_etmetal().map(|()| built)) {
            Ok(built) => built,
            Err(error) => {
                eprintln!("error: {error:#}");
                println!("{}", Count { failed: 1, ..Count::default() });
                return Ok(false);
            }
        };
        if alone {
            return self.run_standin(&standin::Tools::of_build(&built));
        }
        let part = self.filter.is_some() || self.device.is_some() || self.shard.is_some();
        let lint = !self.no_lint && !part;
        let mut lints = if lint { lints(&built, suite) } else { Vec::new() };
        if lint && suite == Suite::All {
            lints.push(self.packages(&built));
        }
        let tests = if suite == Suite::Python { Vec::new() } else { self.commands(&built)? };
        let pytest = (suite != Suite::Rust).then(|| self.pytest(&built));
        if self.selection.dry_run {
            let commands = lints.iter().flat_map(|lint| &lint.commands);
            let commands = commands.chain(&tests).chain(&pytest);
            commands.for_each(|command| println!("{command}"));
            return Ok(true);
        }
        let mut failures = Vec::new();
        let mut count = Count::default();
        for lint in &lints {
            count_lint(lint.run()?, &mut count, &mut failures);
        }
        let mut ran = Count::default();
        for tests in &tests {
            ran.add(run_tests(tests, &mut failures)?);
        }
        if let Some(pytest) = &pytest {
            ran.add(run_pytest(pytest, &mut failures)?);
        }
        count.add(ran);
        println!();
        failures.iter().for_each(|failure| println!("failed: {failure}"));
        if !lint {
            println!("not run: formatting, clippy, documentation");
        }
        match suite {
            Suite::All => {}
            Suite::Rust => println!("not run: the tests of the Python package (--suite all)"),
            Suite::Python => println!("not run: the tests of the crates (--suite all)"),
        }
        if suite != Suite::Rust && self.tier == Tier::Quick {
            println!("not run: the Python package's longer tests (--tier full)");
        }
        if self.tier != Tier::Release {
            println!("not run: a release made twice and compared (--tier release)");
        }
        if built.rust.host != rust::APPLE {
            println!("not run: {NEEDS_A_MAC}");
        }
        self.tell(count, ran);
        Ok(count.failed == 0 && ran.passed > 0)
    }

    /// Prints the count, and whether there was anything to count.
    fn tell(&self, count: Count, ran: Count) {
        if ran.passed + ran.failed == 0 {
            println!(
                "no test ran{}",
                self.filter.as_deref().map_or(String::new(), |filter| {
                    format!(": none has `{filter}` in its name")
                })
            );
        }
        println!("{count}");
    }

    /// The tests of the Metal device on the stand-in alone, or its seeded faults.
    fn run_standin(&self, tools: &standin::Tools) -> Result<bool> {
        tools.check_host()?;
        if self.faults {
            return standin::faults::run(tools, self.filter.as_deref());
        }
        let lint = !self.no_lint && self.filter.is_none();
        let clippy = tools.cargo("clippy").args(["--all-targets", "--", "-D", "warnings"]);
        let lint = lint.then(|| Lint { name: "clippy", commands: vec![clippy] });
        let tests = self.standin(tools)?;
        if self.selection.dry_run {
            let lint = lint.iter().flat_map(|lint| &lint.commands);
            lint.chain(&tests).for_each(|command| println!("{command}"));
            return Ok(true);
        }
        let (mut failures, mut count, mut ran) = (Vec::new(), Count::default(), Count::default());
        if let Some(lint) = &lint {
            count_lint(lint.run()?, &mut count, &mut failures);
        }
        for tests in &tests {
            ran.add(run_tests(tests, &mut failures)?);
        }
        count.add(ran);
        println!();
        failures.iter().for_each(|failure| println!("failed: {failure}"));
        println!("not run: all but the Metal device on the stand-in");
        self.tell(count, ran);
        Ok(count.failed == 0 && ran.passed > 0)
    }

    fn suite(&self) -> Suite {
        let part = self.filter.is_some() || self.device.is_some() || self.shard.is_some();
        let default = if part { Suite::Rust } else { Suite::All };
        self.suite.unwrap_or(default)
    }

    /// The packages of this machine, made from the stage and used where they are installed.
    fn packages(&self, built: &Built) -> Lint {
        let root = &built.workspace.root;
        let mut package = cargo(root)
            .args(["xtask", "package", "--preset", &self.selection.preset])
            .args(self.selection.define.iter().flat_map(|define| ["-D", define]))
            .arg("--out")
            .arg(built.workspace.state().join("tried"))
            .env("SOURCE_DATE_EPOCH", TRIED);
        if let Some(own) = Target::of_triple(&built.rust.host) {
            package = package.args(["--target", own.name]);
        }
        let package = match self.tier {
            Tier::Release => package.args(["--verify", "--try", "full"]),
            Tier::Quick | Tier::Full => package.args(["--try", "quick"]),
        };
        Lint { name: "packages, installed and used", commands: vec![package] }
    }

    /// Two processes: exporting is the work of one core.
    fn pytest(&self, built: &Built) -> Invocation {
        let tier = match self.tier {
            Tier::Quick => "quick",
            Tier::Full | Tier::Release => "full",
        };
        let pytest = export::python(&built.workspace, &built.python, &built.stage.library())
            .cwd(built.workspace.root.join("python"))
            .args(["-m", "pytest", "-n", "2", "-p", "no:cacheprovider", "--tier", tier])
            .arg(format!("--color={}", if console::colors_enabled() { "yes" } else { "no" }));
        match &self.filter {
            Some(filter) => pytest.args(["-k", filter.as_str()]),
            None => pytest,
        }
    }

    /// The commands that run the tests.
    fn commands(&self, built: &Built) -> Result<Vec<Invocation>> {
        let tools = standin::Tools::of_build(built);
        if self.device.is_some() {
            tools.check_host()?;
            return Ok(self.standin(&tools)?.into());
        }
        let mut all = self.tests(built)?;
        // Of shards, the first has them.
        let mine = self.shard.is_none_or(|shard| shard.index == 1);
        if tools.check_host().is_ok() && mine {
            all.extend(self.standin(&tools)?);
        }
        Ok(all)
    }

    /// The tests of the Metal device on the stand-in for Metal, as the newest system that the
    /// device tells apart, and as an older one. They are a build of their own:
    /// `runtime/standin/README.md` says why.
    fn standin(&self, tools: &standin::Tools) -> Result<[Invocation; 2]> {
        let mut tests = tools.cargo("test").arg("--no-fail-fast").env("CARGO_TERM_COLOR", color());
        if self.release {
            tests = tests.arg("--release");
        }
        if let Some(filter) = &self.filter {
            tests = tests.arg(filter);
        }
        if let Some(models) = &self.models {
            let folder = std::path::absolute(models)?;
            ensure!(folder.is_dir(), "--models: {} is no folder", folder.display());
            tests = tests.env("ETMETAL_STANDIN_MODELS", folder);
        }
        // With objects that live until their pool ends, however they are returned.
        let old = tests
            .clone()
            .env("ETMETAL_STANDIN_MACOS", standin::OLD_MACOS)
            .env("ETMETAL_STANDIN_NO_RV", "1");
        Ok([tests, old])
    }

    /// The tests run as users run the code, optimised, but with assertions and overflow checks:
    /// the profile `checked`.
    fn tests(&self, built: &Built) -> Result<Vec<Invocation>> {
        let tests = cargo(&built.workspace.root)
            .args(["test", "--workspace", "--profile", "checked", "--no-fail-fast"])
            .env("ETMETAL_STAGE", built.stage.root())
            .env("ETMETAL_PYTHON", &built.python)
            // For tests that build: with another interpreter the environment would be made anew.
            .env("ETMETAL_BASE_PYTHON", &built.base_python)
            .env("PATH", built.path())
            .env("CARGO_TERM_COLOR", color());
        if let Some(shard) = self.shard {
            let units = shards::units_of(&built.workspace.root, shard)?;
            // cargo runs the documentation's examples only by themselves.
            let (docs, others): (Vec<_>, Vec<_>) =
                units.iter().partition(|unit| **unit == Unit::Documentation);
            let parts = [others, docs].into_iter().filter(|units| !units.is_empty());
            let part = |units: Vec<&Unit>| {
                tests.clone().args(units.iter().flat_map(|unit| unit.arguments()))
            };
            return Ok(parts.map(part).collect());
        }
        Ok(vec![match &self.filter {
            Some(filter) => tests.arg(filter),
            None => tests,
        }])
    }
}

/// Output goes through a pipe, so that cargo cannot see the terminal by itself.
fn color() -> &'static str {
    if console::colors_enabled() { "always" } else { "never" }
}

/// The clang that compiles shaders for the host device, if it is one.
fn shader_clang(built: &Built) -> Option<PathBuf> {
    let file = built.stage.root().join("lib/etmetal/msl-compiler");
    let text = std::fs::read_to_string(file).ok()?;
    let program = PathBuf::from(text.lines().next()?);
    program.file_name()?.to_str()?.contains("clang").then_some(program)
}

fn lints(built: &Built, suite: Suite) -> Vec<Lint> {
    let cargo = || cargo(&built.workspace.root).env("CARGO_TERM_COLOR", color());
    let clippy = || cargo().args(["clippy", "--workspace", "--all-targets"]);
    let deny = ["--", "-D", "warnings"];
    let render = cargo().args(["xtask", "ci", "render", "--check"]);
    let mut lints = vec![
        Lint { name: "workflows", commands: vec![render] },
        Lint { name: "formatting", commands: vec![cargo().args(["fmt", "--all", "--check"])] },
        Lint { name: "clippy", commands: vec![clippy().args(deny)] },
    ];
    if built.rust.host != rust::APPLE {
        let library = || cargo().args(["clippy", "--package", "etmetal", "--lib"]);
        for (name, target, command) in [
            ("clippy for aarch64-apple-darwin", rust::APPLE, clippy()),
            ("clippy for x86_64-apple-darwin", "x86_64-apple-darwin", library()),
            ("clippy for aarch64-apple-ios", "aarch64-apple-ios", library()),
        ] {
            let mut commands = Vec::new();
            if rust::target_library(&built.workspace, target).is_none() {
                let add = Invocation::new("rustup").args(["target", "add", target]);
                commands.push(add.cwd(&built.workspace.root));
            }
            let mut command = command.args(["--target", target]).args(deny);
            // Dependencies compile C, and Objective-C, which gcc cannot.
            if let Some(clang) = shader_clang(built) {
                let target = target.replace('-', "_");
                command = command.env(&format!("CC_{target}"), clang);
                // Where no SDK is named, Xcode is asked for one.
                if std::env::var_os("SDKROOT").is_none() {
                    let headers = format!("-isystem '{}'", built.apple_headers.display());
                    command = command
                        .env("SDKROOT", "/usr")
                        .env("CC_SHELL_ESCAPED_FLAGS", "1")
                        .env(&format!("CFLAGS_{target}"), headers);
                }
            }
            commands.push(command);
            lints.push(Lint { name, commands });
        }
    }
    let doc = cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    lints.push(Lint { name: "documentation", commands: vec![doc] });
    if let Some(ctest) = &built.ctest {
        lints.push(Lint { name: "ExecuTorch's own tests", commands: vec![ctest.clone()] });
    }
    if suite == Suite::Python {
        lints.clear();
    }
    if suite != Suite::Rust {
        let ruff = || Invocation::new(built.tool("ruff")).cwd(built.workspace.root.join("python"));
        let commands = vec![
            ruff().args(["format", "--check", "--no-cache"]),
            ruff().args(["check", "--no-cache"]),
        ];
        lints.push(Lint { name: "ruff", commands });
    }
    lints
}

impl Lint {
    /// Runs the commands up to the first that fails; gives back what failed.
    fn run(&self) -> Result<Option<String>> {
        println!("== {}", self.name);
        for command in &self.commands {
            let ended = command.run_lines(|line| {
                println!("{line}");
                Ok(())
            })?;
            if !ended.success() {
                let name = self.name;
                return Ok(Some(format!("{name}: `{command}` ({})", status(ended))));
            }
        }
        Ok(None)
    }
}

/// Counts what came of a check.
fn count_lint(failure: Option<String>, count: &mut Count, failures: &mut Vec<String>) {
    match failure {
        None => count.passed += 1,
        Some(failure) => {
            count.failed += 1;
            failures.push(failure);
        }
    }
}

fn run_pytest(pytest: &Invocation, failures: &mut Vec<String>) -> Result<Count> {
    println!("== tests of the Python package");
    let mut watcher = PytestWatcher::default();
    let ended = pytest.run_lines(|line| {
        println!("{line}");
        watcher.line(line);
        Ok(())
    })?;
    Ok(watcher.finish(ended, failures))
}

fn run_tests(tests: &Invocation, failures: &mut Vec<String>) -> Result<Count> {
    println!("== tests");
    let mut watcher = Watcher::default();
    let ended = tests.run_lines(|line| {
        println!("{line}");
        watcher.line(line);
        Ok(())
    })?;
    Ok(watcher.finish(ended, failures))
}
