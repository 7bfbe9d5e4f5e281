//! Counting what `cargo test` ran, from what it writes.

use std::fmt;
use std::process::ExitStatus;

use crate::process::status;

/// Real counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Tests and checks that passed.
    pub passed: u64,
    /// Those that failed, programs that did not come to an end included.
    pub failed: u64,
    /// Tests that say themselves that they are not to be run.
    pub skipped: u64,
}

impl Count {
    /// Adds `other`.
    pub fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// The counts of a line `test result: …`, if it is one.
    fn of_line(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("test result: ")?;
        let (_, counts) = rest.split_once(". ")?;
        let of = |what: &str| {
            counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok())
        };
        Some(Self { passed: of("passed")?, failed: of("failed")?, skipped: of("ignored")? })
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// Reads the lines of one `cargo test`.
#[derive(Debug, Default)]
pub struct Watcher {
    count: Count,
    /// The test program that has begun and not yet told its result.
    open: Option<String>,
    failed: Vec<String>,
}

impl Watcher {
    /// Takes one line of standard output or standard error.
    pub fn line(&mut self, line: &str) {
        let line = console::strip_ansi_codes(line);
        if let Some(count) = Count::of_line(&line) {
            self.count.add(count);
            let name = self.open.take().unwrap_or_default();
            if count.failed > 0 {
                self.failed.push(format!("{} of {name}", tests(count.failed)));
            }
            return;
        }
        let line = line.trim_start();
        let program = line.strip_prefix("Running ").filter(|rest| rest.ends_with(')'));
        let docs = line.strip_prefix("Doc-tests ");
        if let Some(name) = program.or(docs) {
            self.unfinished();
            self.open =
                Some(if docs.is_some() { format!("Doc-tests {name}") } else { name.into() });
        }
    }

    /// A program that began and told no result has crashed: that is a failure.
    fn unfinished(&mut self) {
        if let Some(name) = self.open.take() {
            self.count.failed += 1;
            self.failed.push(format!("{name} ended without a result (it crashed)"));
        }
    }

    /// The counts, once cargo has ended like `ended`. What failed is added to `failures`.
    pub fn finish(mut self, ended: ExitStatus, failures: &mut Vec<String>) -> Count {
        self.unfinished();
        if !ended.success() && self.count.failed == 0 {
            self.count.failed += 1;
            self.failed.push(format!("cargo test ({}): see above", status(ended)));
        }
        failures.append(&mut self.failed);
        self.count
    }
}

/// Reads the lines of one `pytest`.
#[derive(Debug, Default)]
pub struct PytestWatcher {
    result: Option<Count>,
}

impl PytestWatcher {
    /// Takes one line of its output.
    pub fn line(&mut self, line: &str) {
        if let Some(count) = pytest_result(&console::strip_ansi_codes(line)) {
            self.result = Some(count);
        }
    }

    /// The counts, once pytest has ended like `ended`. What failed is added to `failures`.
    pub fn finish(self, ended: ExitStatus, failures: &mut Vec<String>) -> Count {
        let mut count = self.result.unwrap_or_default();
        if count.failed > 0 {
            failures.push(format!("{} of the Python package", tests(count.failed)));
        } else if self.result.is_none() || !(ended.success() || ended.code() == Some(NO_TESTS)) {
            count.failed += 1;
            failures.push(format!("pytest ({}): see above", status(ended)));
        }
        count
    }
}

/// pytest's exit code where it ran no test.
const NO_TESTS: i32 = 5;

/// The counts of pytest's last line, as `== 1 failed, 2 passed, 3 deselected in 4.05s ==`.
fn pytest_result(line: &str) -> Option<Count> {
    let line = line.trim_matches(['=', ' ']);
    let (counts, time) = line.rsplit_once(" in ")?;
    let seconds = time.split(' ').next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    let mut count = Count::default();
    for part in counts.split(", ") {
        if part == "no tests ran" {
            continue;
        }
        let (number, what) = part.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match what {
            "passed" | "xpassed" => count.passed += number,
            "failed" | "error" | "errors" => count.failed += number,
            "skipped" | "xfailed" => count.skipped += number,
            "deselected" | "warning" | "warnings" | "rerun" => {}
            _ => return None,
        }
    }
    Some(count)
}

fn tests(count: u64) -> String {
    if count == 1 { "1 test".to_owned() } else { format!("{count} tests") }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    const PASSING: &str = "\
   Compiling etmetal v0.1.0
     Running unittests src/lib.rs (target/checked/deps/etmetal-1)
running 3 tests
test a ... ok
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.67s
     Running tests/models.rs (target/checked/deps/models-1)
test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 5 filtered out; finished in 9s
   Doc-tests etmetal
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    fn count(text: &str, code: i32) -> (String, Vec<String>) {
        let mut watcher = Watcher::default();
        text.lines().for_each(|line| watcher.line(line));
        let mut failures = Vec::new();
        let count = watcher.finish(ExitStatus::from_raw(code << 8), &mut failures);
        (count.to_string(), failures)
    }

    #[test]
    fn results_of_all_programs_are_summed() {
        assert_eq!(count(PASSING, 0), ("43 passed, 0 failed, 1 skipped".into(), vec![]));
        assert_eq!(count("", 0), ("0 passed, 0 failed".into(), vec![]));
    }

    #[test]
    fn colours_do_not_hide_a_result() {
        let text = concat!(
            "\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m tests/a.rs (target/a-1)\n",
            "test result: \u{1b}[31mFAILED\u{1b}[0m. 1 passed; 2 failed; 0 ignored; 0 measured; 0 \
             filtered out; finished in 0.1s\n",
        );
        assert_eq!(
            count(text, 101),
            ("1 passed, 2 failed".into(), vec!["2 tests of tests/a.rs (target/a-1)".into()])
        );
    }

    #[test]
    fn a_program_that_crashes_counts_as_a_failure_and_the_rest_is_counted() {
        let text = PASSING.replace("test result: ok. 40 passed", "Segmentation fault 40 passed");
        assert_eq!(
            count(&text, 101),
            (
                "3 passed, 1 failed, 1 skipped".into(),
                vec![
                    "tests/models.rs (target/checked/deps/models-1) ended without a result (it \
                     crashed)"
                        .into()
                ]
            )
        );
    }

    #[test]
    fn a_compilation_that_fails_counts_as_a_failure() {
        let text = "error[E0425]: cannot find value `x` in this scope\n";
        assert_eq!(
            count(text, 101),
            ("0 passed, 1 failed".into(), vec!["cargo test (exit status 101): see above".into()])
        );
    }

    fn pytest(text: &str, code: i32) -> (String, Vec<String>) {
        let mut watcher = PytestWatcher::default();
        text.lines().for_each(|line| watcher.line(line));
        let mut failures = Vec::new();
        let count = watcher.finish(ExitStatus::from_raw(code << 8), &mut failures);
        (count.to_string(), failures)
    }

    #[test]
    fn results_of_pytest_are_counted() {
        let line =
            "\u{1b}[32m====== 40 passed, 1 skipped, 86 deselected in 133.39s (0:02:13) =====";
        assert_eq!(pytest(line, 0), ("40 passed, 0 failed, 1 skipped".into(), vec![]));
        let line = "=== 2 failed, 3 passed, 1 error in 0.52s ===";
        assert_eq!(
            pytest(line, 1),
            ("3 passed, 3 failed".into(), vec!["3 tests of the Python package".into()])
        );
        let none = "=== no tests ran in 0.01s ===";
        assert_eq!(pytest(none, 5), ("0 passed, 0 failed".into(), vec![]));
        let deselected = "=== 9 deselected in 0.01s ===";
        assert_eq!(pytest(deselected, 5), ("0 passed, 0 failed".into(), vec![]));
    }

    #[test]
    fn a_pytest_that_tells_no_result_has_failed() {
        let failed = |status| {
            ("0 passed, 1 failed".to_owned(), vec![format!("pytest ({status}): see above")])
        };
        assert_eq!(pytest("ImportError: pytest\n", 1), failed("exit status 1"));
        assert_eq!(pytest("40 passed in the end\n", 0), failed("exit status 0"));
        let (count, _) = pytest("=== 4 passed in 1.00s ===\nSegmentation fault", 139);
        assert_eq!(count, "4 passed, 1 failed");
    }

    #[test]
    fn lines_that_only_look_like_results_are_not_counted() {
        assert_eq!(Count::of_line("test result_is_right ... ok"), None);
        assert_eq!(Count::of_line("test result: ok"), None);
        assert_eq!(count("Running out of words\n", 0), ("0 passed, 0 failed".into(), vec![]));
    }
}
