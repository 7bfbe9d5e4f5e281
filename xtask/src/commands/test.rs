//! `cargo xtask test`: builds, then runs every check there is, and counts.

use anyhow::Result;

use super::build::{Built, Extras, Selection, build};
use crate::ci::shards::{self, Shard, Unit};
use crate::process::{Invocation, status};
use crate::test_count::{Count, Watcher};
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
    /// Run only a part of the tests, as 1/3; leaves out the lints
    #[arg(long, value_name = "K/N", conflicts_with = "filter")]
    shard: Option<Shard>,
}

/// One check: a command that passes or fails as a whole.
#[derive(Debug)]
struct Lint {
    name: &'static str,
    commands: Vec<Invocation>,
}

/// What runs nowhere but on a Mac.
const NEEDS_A_MAC: &str = "anything on Apple hardware (it needs a Mac)";

impl Test {
    /// Builds and checks; the last line is the count. True if everything passed and there was
    /// something to pass.
    ///
    /// # Errors
    /// A tool cannot be started.
    pub fn run(&self) -> Result<bool> {
        let built = build(&self.selection, Extras::default(), false);
        let built = match built.and_then(|built| built.require_etmetal().map(|()| built)) {
            Ok(built) => built,
            Err(error) => {
                eprintln!("error: {error:#}");
                println!("{}", Count { failed: 1, ..Count::default() });
                return Ok(false);
            }
        };
        let lint = !self.no_lint && self.filter.is_none() && self.shard.is_none();
        let lints = if lint { lints(&built) } else { Vec::new() };
        let tests = self.tests(&built)?;
        if self.selection.dry_run {
            let commands = lints.iter().flat_map(|lint| &lint.commands).chain(&tests);
            commands.for_each(|command| println!("{command}"));
            return Ok(true);
        }
        let mut failures = Vec::new();
        let mut count = Count::default();
        for lint in &lints {
            match lint.run()? {
                None => count.passed += 1,
                Some(failure) => {
                    count.failed += 1;
                    failures.push(failure);
                }
            }
        }
        let mut ran = Count::default();
        for tests in &tests {
            ran.add(run_tests(tests, &mut failures)?);
        }
        count.add(ran);
        println!();
        failures.iter().for_each(|failure| println!("failed: {failure}"));
        if !lint {
            println!("not run: formatting, clippy, documentation");
        }
        if built.rust.host != rust::APPLE {
            println!("not run: {NEEDS_A_MAC}");
        }
        if ran.passed + ran.failed == 0 {
            println!(
                "no test ran{}",
                self.filter.as_deref().map_or(String::new(), |filter| {
                    format!(": none has `{filter}` in its name")
                })
            );
        }
        println!("{count}");
        Ok(count.failed == 0 && ran.passed > 0)
    }

    /// The tests run as users run the code, optimised, but with assertions and overflow checks:
    /// the profile `checked`.
    fn tests(&self, built: &Built) -> Result<Vec<Invocation>> {
        let tests = cargo(&built.workspace.root)
            .args(["test", "--workspace", "--profile", "checked", "--no-fail-fast"])
            .env("ETMETAL_STAGE", built.stage.root())
            .env("ETMETAL_PYTHON", &built.python)
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

fn lints(built: &Built) -> Vec<Lint> {
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
        let mut commands = Vec::new();
        if rust::target_library(&built.workspace, rust::APPLE).is_none() {
            let add = Invocation::new("rustup").args(["target", "add", rust::APPLE]);
            commands.push(add.cwd(&built.workspace.root));
        }
        commands.push(clippy().args(["--target", rust::APPLE]).args(deny));
        lints.push(Lint { name: "clippy for aarch64-apple-darwin", commands });
    }
    let doc = cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    lints.push(Lint { name: "documentation", commands: vec![doc] });
    if let Some(ctest) = &built.ctest {
        lints.push(Lint { name: "ExecuTorch's own tests", commands: vec![ctest.clone()] });
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
