//! What failed, and whether that is news.
//!
//! [`log`] takes a log apart, [`scan`] finds in it what [`rules`] know, [`junit`] reads results of
//! test runners. [`triage`] gives each failure its class, [`report`] writes them down.

pub mod flaky;
pub mod junit;
pub mod log;
pub mod report;
pub mod rules;
pub mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};

use flaky::Flaky;
use rules::Rules;
use scan::{Found, Outcome};

/// Whether a failure is news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It is: the change has to explain it.
    New,
    /// The base revision fails in the same way: the trunk is broken.
    BrokenTrunk,
    /// It comes and goes: `ci/flaky.toml` knows it, or it passed on a retry.
    Flaky,
    /// A machine, a disk or the network failed.
    Infrastructure,
    /// It was ended from outside.
    Cancelled,
}

impl Class {
    /// All, the most important first.
    pub const ALL: [Self; 5] =
        [Self::New, Self::BrokenTrunk, Self::Flaky, Self::Infrastructure, Self::Cancelled];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::New => "New failures",
            Self::BrokenTrunk => "Also on the base revision",
            Self::Flaky => "Flaky",
            Self::Infrastructure => "Infrastructure",
            Self::Cancelled => "Cancelled",
        }
    }
}

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Its class.
    pub class: Class,
    /// Why that class.
    pub reason: String,
    /// The job.
    pub job: String,
    /// The test; nothing where something else failed.
    pub test: Option<String>,
    /// The rule that found it, as `rustc`.
    pub found_by: String,
    /// The first line of what is wrong.
    pub error: String,
    /// `file:line` in the sources.
    pub place: Option<String>,
    /// The log or results file, with the number of the line.
    pub source: String,
    /// How many further errors the job has.
    pub more: usize,
    /// What the log says there.
    pub excerpt: Vec<String>,
}

/// A file to look at.
#[derive(Debug, Clone)]
pub struct Input {
    /// What people call it.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Input {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { name: path.display().to_string(), bytes })
    }

    fn is_xml(&self) -> bool {
        let bytes = self.bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(&self.bytes);
        bytes.trim_ascii_start().starts_with(b"<")
    }
}

/// What is looked at.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// Logs of the change.
    pub logs: Vec<Input>,
    /// Results of the change, in JUnit's format.
    pub junit: Vec<Input>,
    /// Logs and results of the base revision.
    pub base: Vec<Input>,
}

/// The failures of a change, each with its class, the most important first.
///
/// # Errors
/// A results file is none.
pub fn triage(inputs: &Inputs, flaky: &Flaky) -> Result<Vec<Failure>> {
    let rules = Rules::built_in()?;
    let mut base = BTreeSet::new();
    for input in &inputs.base {
        let inputs = [input.clone()];
        let failures = if input.is_xml() { of_junit(&inputs)? } else { of_logs(&rules, &inputs) };
        let news = failures.iter().filter(|failure| failure.class == Class::New);
        base.extend(news.map(key));
    }
    let mut failures = of_logs(&rules, &inputs.logs);
    failures.extend(of_junit(&inputs.junit)?);
    for failure in failures.iter_mut().filter(|failure| failure.class == Class::New) {
        let Failure { job, test, error, .. } = &*failure;
        let (class, reason) = if let Some(why) = flaky.reason(job, test.as_deref(), error) {
            (Class::Flaky, format!("{}: {why}", flaky::FILE))
        } else if base.contains(&key(failure)) {
            (Class::BrokenTrunk, "the base revision fails in the same way".to_owned())
        } else {
            continue;
        };
        (failure.class, failure.reason) = (class, reason);
    }
    failures.sort_by_key(|failure| failure.class);
    Ok(failures)
}

/// By what a failure is the same as one of the base: a test by its name, anything else by its text
/// without the numbers that change from run to run.
fn key(failure: &Failure) -> String {
    match &failure.test {
        Some(test) => format!("test {test}"),
        None => {
            let file = failure.place.as_deref().and_then(|place| place.split(':').next());
            let without = |c: char| if c.is_ascii_digit() { '#' } else { c };
            let error: String = failure.error.chars().map(without).collect();
            format!("error {} {error}", file.unwrap_or_default())
        }
    }
}

const ON_RETRY: &str = "it passed on a retry";

/// The failures in logs. A test that failed and then passed, in the same log or in that of a later
/// attempt of its job, passed on a retry.
fn of_logs(rules: &Rules, inputs: &[Input]) -> Vec<Failure> {
    let texts: Vec<_> = inputs.iter().map(|input| log::without_colors(&input.bytes)).collect();
    let mut scanned = Vec::new();
    for (input, text) in inputs.iter().zip(&texts) {
        for section in log::sections(text) {
            let job = section.job.map(str::to_owned).or_else(|| log::job_name(text));
            let job = job.unwrap_or_else(|| job_of_file(&input.name));
            scanned.push((input.name.as_str(), job, section, scan::scan(rules, &section)));
        }
    }
    let mut failed = BTreeMap::<String, BTreeSet<String>>::new();
    for (_, job, _, outcome) in &scanned {
        let tests = outcome.tests.iter().filter_map(|test| test.test.clone());
        failed.entry(job.clone()).or_default().extend(tests);
    }
    let mut failures: Vec<Failure> = Vec::new();
    for (source, job, section, outcome) in scanned {
        let tests = &failed[&job];
        let passed = if tests.is_empty() {
            BTreeMap::new()
        } else {
            scan::passed_tests(rules, &section, tests)
        };
        for earlier in failures.iter_mut().filter(|failure| failure.job == job) {
            let retried = earlier.test.as_ref().is_some_and(|test| passed.contains_key(test));
            if retried && earlier.class == Class::New {
                (earlier.class, earlier.reason) = (Class::Flaky, ON_RETRY.to_owned());
            }
        }
        let known: BTreeSet<_> = failures
            .iter()
            .filter(|failure| failure.job == job)
            .filter_map(|failure| failure.test.clone())
            .collect();
        let new = of_outcome(source, &job, outcome, &passed).into_iter();
        failures.extend(new.filter(|f| f.test.as_ref().is_none_or(|test| !known.contains(test))));
    }
    failures
}

/// The job that a file is of: its name without ending and attempt.
fn job_of_file(name: &str) -> String {
    let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let without_number = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    let attempts = ["-attempt-", "-retry-", "-rerun-", "_attempt_", "_retry_", "_rerun_"];
    match attempts.iter().find_map(|attempt| without_number.strip_suffix(attempt)) {
        Some(job) if without_number.len() < stem.len() => job.to_owned(),
        _ => stem,
    }
}

fn of_outcome(
    source: &str,
    job: &str,
    outcome: Outcome,
    passed: &BTreeMap<String, usize>,
) -> Vec<Failure> {
    let failure = |found: Found, class, reason: &str, more| Failure {
        class,
        reason: reason.to_owned(),
        job: job.to_owned(),
        test: found.test,
        found_by: found.rule,
        error: found.message,
        place: found.place,
        source: format!("{source}:{}", found.line),
        more,
        excerpt: found.excerpt,
    };
    let new = |found, more| failure(found, Class::New, "nothing explains it", more);
    let mut failures = Vec::new();
    for test in outcome.tests {
        let passed = test.test.as_ref().and_then(|name| passed.get(name));
        failures.push(if passed.is_some_and(|line| *line > test.line) {
            failure(test, Class::Flaky, ON_RETRY, 0)
        } else {
            new(test, 0)
        });
    }
    failures.extend(outcome.error.map(|(error, more)| new(error, more)));
    if let Some(found) = outcome.infrastructure {
        let reason = found.rule.clone();
        failures.push(failure(found, Class::Infrastructure, &reason, 0));
    }
    if let Some(found) = outcome.cancelled {
        failures.push(failure(found, Class::Cancelled, "it was ended from outside", 0));
    }
    failures
}

/// The failures in results, in the order of the files. What decides is how a test of a job ended:
/// some runners write each try, and the tries before the last without what was wrong.
fn of_junit(inputs: &[Input]) -> Result<Vec<Failure>> {
    let mut failures = BTreeMap::<(String, String), Failure>::new();
    for input in inputs {
        let text = String::from_utf8_lossy(&input.bytes);
        let job = job_of_file(&input.name);
        let cases =
            junit::read(text.trim_start_matches('\u{feff}')).with_context(|| input.name.clone())?;
        for case in cases {
            let key = (job.clone(), case.name.clone());
            let earlier = failures.get_mut(&key);
            let (class, error) = match (case.failure, earlier) {
                (Some(message), _) => (Class::New, message),
                (None, Some(earlier)) if !case.skipped => (Class::Flaky, earlier.error.clone()),
                (None, None) if case.passed_on_retry => {
                    (Class::Flaky, "it failed at first".to_owned())
                }
                (None, _) => continue,
            };
            let reason = if class == Class::New { "nothing explains it" } else { ON_RETRY };
            let failure = Failure {
                class,
                reason: reason.to_owned(),
                job: job.clone(),
                test: Some(case.name),
                found_by: "JUnit".to_owned(),
                error,
                place: None,
                source: input.name.clone(),
                more: 0,
                excerpt: Vec::new(),
            };
            failures.insert(key, failure);
        }
    }
    Ok(failures.into_values().collect())
}

#[cfg(test)]
mod tests;
