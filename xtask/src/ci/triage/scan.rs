//! What a job's log says: the tests and steps that failed, and what stopped it.

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, Input};

use super::log::Section;
use super::rules::{FAILED, Match, Meaning, Rules, Takes};

/// Lines away that a fault of the network explains.
const NEAR: usize = 25;

/// Lines that are kept of what went wrong.
const EXCERPT: usize = 12;

/// What was found in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The rule's name.
    pub rule: String,
    /// The test, where it is one.
    pub test: Option<String>,
    /// `file:line`.
    pub place: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The number of the line in the file, from 1.
    pub line: usize,
    /// That line and the next ones.
    pub excerpt: Vec<String>,
}

/// What a job came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Tests that failed.
    pub tests: Vec<Found>,
    /// The first thing beside tests that failed, and how many more there are.
    pub error: Option<(Found, usize)>,
    /// What the machine, the disk or the network did.
    pub infrastructure: Option<Found>,
    /// That it was ended from outside.
    pub cancelled: Option<Found>,
}

/// Everything found, line by line.
#[derive(Debug, Default)]
struct Lines {
    tests: Vec<Found>,
    details: Vec<Found>,
    errors: Vec<Found>,
    summaries: Vec<Found>,
    infrastructure: Vec<(Found, Takes)>,
    cancelled: Vec<Found>,
}

/// Reads the log of a job.
pub fn scan(rules: &Rules, section: &Section<'_>) -> Outcome {
    if section.bytes.trim_ascii().is_empty() {
        let found = Found::without_line("no log", "the log is empty");
        return Outcome { infrastructure: Some(found), ..Outcome::default() };
    }
    if passed(section.bytes) {
        return Outcome::default();
    }
    let lines = read(rules, section);
    if lines.is_empty() && is_cut(section.bytes) {
        let found = Found::without_line("no log", "the log ends before the job does");
        return Outcome { infrastructure: Some(found), ..Outcome::default() };
    }
    lines.judge()
}

/// Those of `tests` that passed, each with the number of the last line that says so.
pub fn passed_tests(
    rules: &Rules,
    section: &Section<'_>,
    tests: &BTreeSet<String>,
) -> BTreeMap<String, usize> {
    let mut passed = BTreeMap::new();
    let Ok(names) = AhoCorasick::new(tests) else { return passed };
    let (mut position, mut counted, mut number) = (0, 0, section.first_line);
    while let Some(hit) = names.find(Input::new(section.bytes).span(position..section.bytes.len()))
    {
        let (start, end) = section.line_around(hit.start());
        number += section.lines_between(counted, start);
        (counted, position) = (start, end);
        let text = section.text(start, end);
        if let Some(name) = rules.passed(&text).filter(|name| tests.contains(*name)) {
            passed.insert(name.to_owned(), number);
        }
    }
    passed
}

/// Whether the log itself says that the job passed: whatever it has of errors was expected.
fn passed(bytes: &[u8]) -> bool {
    let has = |text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
    let of_github = has("##[group]");
    of_github && has("Cleaning up orphan processes") && !has("##[error]")
        || memchr::memmem::rfind(bytes, b"\nJob succeeded").is_some()
        || memchr::memmem::rfind(bytes, b" Job succeeded").is_some()
}

/// Whether a log of GitHub lacks its end.
fn is_cut(bytes: &[u8]) -> bool {
    let has = |text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
    has("##[group]") && !has("##[error]") && !has("Cleaning up orphan processes")
}

fn read(rules: &Rules, section: &Section<'_>) -> Lines {
    let mut lines = Lines::default();
    let (mut position, mut counted, mut number) = (0, 0, section.first_line);
    while let Some(hit) = rules.next(section.bytes, position) {
        let (start, end) = section.line_around(hit);
        number += section.lines_between(counted, start);
        (counted, position) = (start, end);
        let text = section.text(start, end);
        if let Some(found) = rules.of_line(&text) {
            lines.add(section, &found, number, end);
        }
    }
    lines
}

impl Found {
    fn without_line(rule: &str, message: &str) -> Self {
        Self {
            rule: rule.to_owned(),
            test: None,
            place: None,
            message: message.to_owned(),
            line: 1,
            excerpt: Vec::new(),
        }
    }

    fn new(section: &Section<'_>, found: &Match<'_, '_>, line: usize, end: usize) -> Self {
        let (start, _) = section.line_around(end);
        let following = || section.after(end).map(|text| text.trim_end().to_owned());
        let own = found.message.trim();
        let next = || following().take(4).find(|text| !text.trim().is_empty());
        let wants_next = found.rule.next && (own.is_empty() || own.ends_with(':'));
        let message = if wants_next { next() } else { None };
        let mut excerpt = vec![section.text(start, end).trim_end().to_owned()];
        excerpt.extend(following().take(EXCERPT - 1));
        // rustc says where on the line below.
        let below = || following().next()?.trim_start().strip_prefix("--> ").map(str::to_owned);
        Self {
            rule: found.rule.name.clone(),
            test: found.name.map(str::to_owned),
            place: found.place.map(str::to_owned).or_else(below),
            message: message.as_deref().unwrap_or(own).trim().to_owned(),
            line,
            excerpt,
        }
    }
}

impl Lines {
    fn is_empty(&self) -> bool {
        self.tests.is_empty()
            && self.errors.is_empty()
            && self.summaries.is_empty()
            && self.infrastructure.is_empty()
            && self.cancelled.is_empty()
    }

    fn add(&mut self, section: &Section<'_>, found: &Match<'_, '_>, line: usize, end: usize) {
        let new = || Found::new(section, found, line, end);
        match found.rule.is {
            Meaning::Passed => {}
            Meaning::Test => {
                let name = found.name;
                match self.tests.iter_mut().find(|test| test.test.as_deref() == name) {
                    None => self.tests.push(new()),
                    // A later line may say what the first did not.
                    Some(test) if test.message == FAILED => test.message = new().message,
                    Some(_) => {}
                }
            }
            Meaning::Detail => self.details.push(new()),
            Meaning::Error => self.errors.push(new()),
            Meaning::Summary => self.summaries.push(new()),
            Meaning::Infrastructure => self.infrastructure.push((new(), found.rule.takes)),
            Meaning::Cancelled => self.cancelled.push(new()),
        }
    }

    fn judge(mut self) -> Outcome {
        self.tell_tests_what_is_wrong();
        self.drop_errors_of_tests();
        let mut outcome = Outcome { tests: self.tests, ..Outcome::default() };
        let mut errors = self.errors;
        let failed = !outcome.tests.is_empty() || !errors.is_empty() || !self.summaries.is_empty();
        for (found, takes) in self.infrastructure {
            let before = outcome.tests.len() + errors.len();
            match takes {
                Takes::After => {
                    outcome.tests.retain(|test| test.line < found.line);
                    errors.retain(|error| error.line < found.line);
                }
                Takes::Near => errors.retain(|error| error.line.abs_diff(found.line) > NEAR),
            }
            let took = before > outcome.tests.len() + errors.len();
            let alone = before == 0 && failed;
            let is_better = |other: &Found| other.message.starts_with("warning: ");
            let wanted = outcome.infrastructure.as_ref().is_none_or(is_better);
            if wanted && (took || alone || takes == Takes::After) {
                outcome.infrastructure = Some(found);
            }
        }
        if let Some(found) = self.cancelled.into_iter().next() {
            errors.retain(|error| !is_of_cancelling(error, &found));
            let alone = outcome.tests.is_empty() && errors.is_empty();
            if alone && outcome.infrastructure.is_none() {
                outcome.cancelled = Some(found);
            }
        }
        let unexplained = outcome.tests.is_empty()
            && errors.is_empty()
            && outcome.infrastructure.is_none()
            && outcome.cancelled.is_none();
        if unexplained {
            errors.extend(self.summaries.into_iter().take(1));
        }
        let more = errors.len().saturating_sub(1);
        outcome.error = errors.into_iter().next().map(|first| (first, more));
        outcome
    }

    /// Gives each test its panic; a panic of no test is an error by itself, if nothing else is.
    fn tell_tests_what_is_wrong(&mut self) {
        for detail in std::mem::take(&mut self.details) {
            let name = detail.test.clone().unwrap_or_default();
            let is_its = |test: &Found| {
                let test = test.test.as_deref().unwrap_or_default();
                test == name || test.rsplit(' ').next() == Some(name.as_str())
            };
            match self.tests.iter().position(is_its) {
                Some(index) => {
                    let test = self.tests[index].test.clone();
                    self.tests[index] = Found { test, ..detail };
                }
                None if self.tests.is_empty() && self.errors.is_empty() => {
                    self.errors.push(Found { test: None, ..detail });
                }
                None => {}
            }
        }
    }

    /// What stands between a failed test and the next summary is what the test wrote.
    fn drop_errors_of_tests(&mut self) {
        let of_test = |error: &Found| {
            self.tests.iter().any(|test| {
                let end = self.summaries.iter().map(|s| s.line).find(|line| *line > test.line);
                error.line >= test.line && end.is_none_or(|end| error.line < end)
            })
        };
        let errors = std::mem::take(&mut self.errors);
        self.errors = errors.into_iter().filter(|error| !of_test(error)).collect();
    }
}

/// Whether `error` is only that a program was told to end.
fn is_of_cancelling(error: &Found, cancelled: &Found) -> bool {
    let words = ["SIGTERM", "SIGINT", "signal: 15", "signal: 2", "Terminated", "KeyboardInterrupt"];
    error.line > cancelled.line
        || error.line + NEAR > cancelled.line
            && words.iter().any(|word| error.message.contains(word))
}
