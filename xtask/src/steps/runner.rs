//! Runs steps that are out of date, and only those.

use std::collections::{BTreeSet, VecDeque};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};

use super::progress::{Progress, Shown};
use super::stamp::Stamp;
use super::step::{Input, Step};
use crate::diagnostics::{Reader, Summary};

/// How to run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Show what would be done, as shell, on standard output; change nothing.
    pub dry_run: bool,
    /// Let the output of programs through besides logging it.
    pub verbose: bool,
    /// Take every step for out of date.
    pub force: bool,
}

/// Runs steps of one workspace.
#[derive(Debug)]
pub struct Runner {
    state: PathBuf,
    root: PathBuf,
    options: Options,
}

/// Lines of a log that an error shows where no line of it is known to be the reason.
const TAIL: usize = 25;

/// What programs printed, as far as it is kept.
#[derive(Debug, Default)]
struct Output {
    reader: Reader,
    tail: VecDeque<String>,
}

impl Output {
    fn line(&mut self, line: &str) {
        self.reader.line(line);
        self.tail.push_back(line.to_owned());
        if self.tail.len() > TAIL {
            self.tail.pop_front();
        }
    }
}

impl Runner {
    /// A runner that keeps stamps and logs in `state`; `root` is the repository.
    pub fn new(state: PathBuf, root: PathBuf, options: Options) -> Self {
        Self { state, root, options }
    }

    /// Brings every step up to date, in order. True if there was anything to do.
    ///
    /// # Errors
    /// The first step that fails, with the end of its log and its hint; the steps after it did
    /// not run, and it will run again next time.
    pub fn run(&self, steps: &[Step]) -> Result<bool> {
        let progress = Progress::new(steps.len(), self.options.verbose);
        let mut ran: BTreeSet<&str> = BTreeSet::new();
        for (index, step) in steps.iter().enumerate() {
            let now = Stamp::inputs_of(step, &self.root, |key| self.made(key))
                .with_context(|| format!("step \"{}\"", step.name))?;
            let reason = self.reason(step, &now, &ran);
            if self.options.dry_run {
                show(index, steps.len(), step, reason.as_deref());
            }
            let Some(reason) = reason else { continue };
            if self.options.dry_run
                || self.perform(step, now, progress.begin(index, step.name, &reason))?
            {
                ran.insert(&step.key);
            }
        }
        Ok(!ran.is_empty())
    }

    fn reason(&self, step: &Step, now: &Stamp, ran: &BTreeSet<&str>) -> Option<String> {
        if self.options.force {
            return Some("--force".to_owned());
        }
        let last = Stamp::load(&self.stamp_path(&step.key));
        now.stale_since(last.as_ref()).or_else(|| {
            step.inputs.iter().find_map(|input| match input {
                Input::Step(key) if ran.contains(key.as_str()) => {
                    Some(format!("{key} was made anew"))
                }
                Input::Tool(text) => Some((*text).to_owned()),
                _ => None,
            })
        })
    }

    /// Does the step; false if it left everything as it was before.
    fn perform(&self, step: &Step, now: Stamp, shown: Shown) -> Result<bool> {
        let log = self.state.join("logs").join(format!("{}.log", step.key));
        // Without the stamp an interrupted step counts as not made.
        let stamp = self.stamp_path(&step.key);
        let last = Stamp::load(&stamp);
        match std::fs::remove_file(&stamp) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("cannot remove {}", stamp.display()));
            }
            _ => {}
        }
        let mut output = Output::default();
        let made = self.actions(step, &log, &shown, &mut output).and_then(|()| now.succeeded(step));
        let summary = std::mem::take(&mut output.reader).finish();
        match made {
            Ok(made) => {
                shown.done(summary.warning_text(&self.shown(&log)));
                let asked = step.inputs.iter().any(|input| matches!(input, Input::Tool(_)));
                let made = if asked { made.unless_same(last.clone()) } else { made };
                made.store(&stamp)?;
                Ok(Some(made) != last)
            }
            Err(error) => {
                shown.failed();
                Err(self.failure(step, &error, &log, &output.tail, &summary))
            }
        }
    }

    /// `path` as it is shown to people.
    fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }

    fn actions(&self, step: &Step, log: &Path, shown: &Shown, output: &mut Output) -> Result<()> {
        let context = || format!("cannot write the log {}", log.display());
        std::fs::create_dir_all(log.parent().context("a log lies in a folder")?)
            .with_context(context)?;
        let mut file = std::fs::File::create(log).with_context(context)?;
        for action in &step.actions {
            writeln!(file, "$ {action}").with_context(context)?;
            if self.options.verbose {
                eprintln!("$ {action}");
            }
            action.perform(&mut |line| {
                writeln!(file, "{line}").with_context(context)?;
                if self.options.verbose {
                    eprintln!("{line}");
                }
                shown.line(line);
                output.line(line);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn failure(
        &self,
        step: &Step,
        error: &anyhow::Error,
        log: &Path,
        tail: &VecDeque<String>,
        summary: &Summary,
    ) -> anyhow::Error {
        let mut text = format!("step \"{}\" failed: {error:#}", step.name);
        let log = self.shown(log);
        if let Some(errors) = summary.error_text(&log) {
            text += &format!("\n{errors}");
        } else if !tail.is_empty() && !self.options.verbose {
            text += &format!("\n--- the end of {log}");
            for line in tail {
                text += &format!("\n  | {line}");
            }
            text += "\n---";
        }
        if !step.hint.is_empty() {
            text += &format!("\nWhat to do: {}", step.hint);
        }
        anyhow!(text)
    }

    /// When the step `key` was last made; 0 where it is not.
    fn made(&self, key: &str) -> u128 {
        Stamp::load(&self.stamp_path(key)).map_or(0, |stamp| stamp.made())
    }

    fn stamp_path(&self, key: &str) -> PathBuf {
        self.state.join("stamps").join(format!("{key}.json"))
    }
}

/// Prints a step as shell.
fn show(index: usize, total: usize, step: &Step, reason: Option<&str>) {
    // Whoever reads may stop early, as `head` does.
    let _ = writeln!(std::io::stdout(), "{}", render(index, total, step, reason));
}

/// A step as shell, with its reason as a comment.
pub fn render(index: usize, total: usize, step: &Step, reason: Option<&str>) -> String {
    let head = format!("# [{}/{total}] {}", index + 1, step.name);
    match reason {
        None => format!("{head}: up to date"),
        Some(reason) => step
            .actions
            .iter()
            .fold(format!("{head} ({reason})"), |text, action| format!("{text}\n{action}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Invocation;
    use crate::steps::Action;

    struct Bench {
        folder: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            let bench = Self { folder: tempfile::tempdir().unwrap() };
            std::fs::write(bench.at("in"), "1").unwrap();
            bench
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        /// A step that appends its name to `trace` and makes a file of its name.
        fn step(&self, name: &'static str, script: &str, inputs: Vec<Input>) -> Step {
            let script = format!("echo {name} >> trace; echo {name} > {name}; {script}");
            Step {
                name,
                key: name.to_owned(),
                inputs,
                actions: vec![Action::Run(
                    Invocation::new("sh").args(["-ec", &script]).cwd(self.folder.path()),
                )],
                outputs: vec![self.at(name).into()],
                hint: "try harder".into(),
            }
        }

        fn steps(&self, script: &str) -> Vec<Step> {
            vec![
                self.step("a", "", vec![Input::Path(self.at("in"))]),
                self.step("b", script, vec![Input::Step("a".into())]),
                self.step("c", "", Vec::new()),
            ]
        }

        fn run(&self, steps: &[Step], options: Options) -> Result<bool> {
            let _ = std::fs::remove_file(self.at("trace"));
            Runner::new(self.at("state"), self.folder.path().to_owned(), options).run(steps)
        }

        fn trace(&self) -> String {
            let text = std::fs::read_to_string(self.at("trace")).unwrap_or_default();
            text.split_whitespace().collect()
        }
    }

    #[test]
    fn only_what_changed_and_what_hangs_on_it_runs_again() {
        let bench = Bench::new();
        let steps = bench.steps("");
        assert!(bench.run(&steps, Options::default()).unwrap());
        assert_eq!(bench.trace(), "abc");
        assert!(!bench.run(&steps, Options::default()).unwrap());
        assert_eq!(bench.trace(), "");
        std::fs::write(bench.at("in"), "2").unwrap();
        bench.run(&steps, Options::default()).unwrap();
        assert_eq!(bench.trace(), "ab");
        bench.run(&steps, Options { force: true, ..Options::default() }).unwrap();
        assert_eq!(bench.trace(), "abc");
    }

    #[test]
    fn a_tool_that_knows_its_own_inputs_runs_each_time_and_tells_by_what_it_leaves() {
        let bench = Bench::new();
        let mut steps = bench.steps("");
        let Action::Run(copy) = &mut steps[0].actions[0] else { unreachable!() };
        *copy = Invocation::new("sh")
            .args(["-ec", "echo a >> trace; cmp -s in a || cp in a"])
            .cwd(bench.folder.path());
        steps[0].inputs = vec![Input::Tool("the tool looks for changes")];
        assert!(bench.run(&steps, Options::default()).unwrap());
        assert_eq!(bench.trace(), "abc");
        assert!(!bench.run(&steps, Options::default()).unwrap(), "it left all as it was");
        assert_eq!(bench.trace(), "a");
        std::fs::write(bench.at("in"), "2").unwrap();
        assert!(bench.run(&steps, Options::default()).unwrap());
        assert_eq!(bench.trace(), "ab");
    }

    #[test]
    fn a_dry_run_changes_nothing() {
        let bench = Bench::new();
        let dry = Options { dry_run: true, ..Options::default() };
        assert!(bench.run(&bench.steps(""), dry).unwrap());
        assert_eq!(bench.trace(), "");
        assert!(!bench.at("state").exists());
    }

    #[test]
    fn a_failure_shows_command_log_and_hint_and_is_tried_again() {
        let bench = Bench::new();
        let error = bench
            .run(&bench.steps("echo some words; echo last words >&2; exit 7"), Options::default())
            .unwrap_err()
            .to_string();
        let place = bench.folder.path().display().to_string();
        insta::assert_snapshot!(error.replace(&place, "ROOT"), @r#"
        step "b" failed: `cd ROOT && sh -ec 'echo b >> trace; echo b > b; echo some words; echo last words >&2; exit 7'` failed (exit status 7)
        --- the end of state/logs/b.log
          | some words
          | last words
        ---
        What to do: try harder
        "#);
        assert_eq!(bench.trace(), "ab", "what comes after a failure does not run");
        let log = std::fs::read_to_string(bench.at("state/logs/b.log")).unwrap();
        assert!(log.ends_with("some words\nlast words\n"), "{log}");
        assert!(bench.run(&bench.steps("exit 7"), Options::default()).is_err());
        bench.run(&bench.steps(""), Options::default()).unwrap();
        assert_eq!(bench.trace(), "bc", "a was made before");
    }

    #[test]
    fn a_failure_shows_the_errors_among_many_lines() {
        let bench = Bench::new();
        let script = "echo 'a.cpp:3:5: error: no such thing'; seq 100; exit 1";
        let error = bench.run(&bench.steps(script), Options::default()).unwrap_err().to_string();
        let (_, shown) = error.split_once('\n').unwrap();
        insta::assert_snapshot!(shown, @"
        the compiler says:
          | a.cpp:3:5: no such thing
        The whole output is in state/logs/b.log
        What to do: try harder
        ");
    }

    #[test]
    fn an_interrupted_step_is_made_anew() {
        let bench = Bench::new();
        bench.run(&bench.steps(""), Options::default()).unwrap();
        assert!(bench.run(&bench.steps("kill -9 $$"), Options::default()).is_err());
        assert!(bench.at("b").exists(), "it left its file");
        bench.run(&bench.steps(""), Options::default()).unwrap();
        assert_eq!(bench.trace(), "b");
    }

    #[test]
    fn a_stop_between_two_steps_loses_nothing() {
        let bench = Bench::new();
        let steps = bench.steps("");
        bench.run(&steps, Options::default()).unwrap();
        std::fs::write(bench.at("in"), "2").unwrap();
        bench.run(&steps[..1], Options::default()).unwrap();
        assert_eq!(bench.trace(), "a");
        bench.run(&steps, Options::default()).unwrap();
        assert_eq!(bench.trace(), "b", "b knows that it was made from an older a");
    }

    #[test]
    fn steps_are_shown_as_shell_with_the_reason() {
        let bench = Bench::new();
        let step = bench.step("a", "", Vec::new());
        assert_eq!(render(0, 2, &step, None), "# [1/2] a: up to date");
        let shown = render(0, 2, &step, Some("not made yet"));
        assert!(shown.starts_with("# [1/2] a (not made yet)\ncd "), "{shown}");
    }
}
