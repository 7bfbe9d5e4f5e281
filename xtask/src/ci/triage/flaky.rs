//! `ci/flaky.toml`: failures that are known to come and go.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use globset::{GlobBuilder, GlobMatcher};
use regex::Regex;
use serde::Deserialize;
use toml::value::Datetime;

/// Where the file is, from the repository's root.
pub const FILE: &str = "ci/flaky.toml";

/// The whole file.
#[derive(Debug, Clone, Default)]
pub struct Flaky {
    rules: Vec<Rule>,
    /// Rules whose time is over, in words.
    pub expired: Vec<String>,
}

#[derive(Debug, Clone)]
struct Rule {
    test: Option<GlobMatcher>,
    job: Option<GlobMatcher>,
    message: Option<Regex>,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Written>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    test: Option<String>,
    job: Option<String>,
    message: Option<String>,
    reason: String,
    until: Datetime,
}

impl Flaky {
    /// The rules of the repository at `root`, on the day `today`.
    ///
    /// # Errors
    /// The file cannot be read or is wrong.
    pub fn read(root: &Path, today: time::Date) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE)).with_context(|| FILE.to_owned())?;
        Self::parse(&text, today)
    }

    /// The rules in `text`.
    ///
    /// # Errors
    /// The text is wrong.
    pub fn parse(text: &str, today: time::Date) -> Result<Self> {
        let file: File = toml::from_str(text).with_context(|| FILE.to_owned())?;
        let mut flaky = Self::default();
        for (index, written) in file.rule.into_iter().enumerate() {
            let place = || format!("{FILE}: rule {}", index + 1);
            let (rule, until) = written.rule().with_context(place)?;
            if until < today {
                flaky.expired.push(format!("{} ended on {until}: {}", place(), rule.reason));
            } else {
                flaky.rules.push(rule);
            }
        }
        Ok(flaky)
    }

    /// Why the failure of `test` in `job` with `message` is not news.
    pub fn reason(&self, job: &str, test: Option<&str>, message: &str) -> Option<&str> {
        let rule = self.rules.iter().find(|rule| {
            rule.job.as_ref().is_none_or(|glob| glob.is_match(job))
                && rule.test.as_ref().is_none_or(|glob| test.is_some_and(|t| glob.is_match(t)))
                && rule.message.as_ref().is_none_or(|regex| regex.is_match(message))
        });
        rule.map(|rule| rule.reason.as_str())
    }
}

impl Written {
    fn rule(self) -> Result<(Rule, time::Date)> {
        ensure!(
            self.test.is_some() || self.message.is_some(),
            "give `test` or `message`: a rule for everything would hide everything"
        );
        ensure!(!self.reason.trim().is_empty(), "give a reason");
        let date = self.until.date.context("`until` is a day, as 2027-01-31")?;
        let month = time::Month::try_from(date.month)?;
        let until = time::Date::from_calendar_date(i32::from(date.year), month, date.day)?;
        let glob = |text: Option<String>| {
            let glob = text.map(|text| GlobBuilder::new(&text).build()).transpose();
            glob.map(|glob| glob.map(|glob| glob.compile_matcher()))
        };
        let rule = Rule {
            test: glob(self.test)?,
            job: glob(self.job)?,
            message: self.message.map(|text| Regex::new(&text)).transpose()?,
            reason: self.reason,
        };
        Ok((rule, until))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn day(day: u8) -> time::Date {
        time::Date::from_calendar_date(2026, time::Month::November, day).unwrap()
    }

    const RULES: &str = r#"
        [[rule]]
        test = "stream::*::waits_*"
        job = "unit/*"
        reason = "waits for a clock"
        until = 2026-11-30
        [[rule]]
        message = "(?i)port \\d+ is in use"
        reason = "the port is chosen by chance"
        until = 2026-11-10
    "#;

    #[test]
    fn rules_match_by_test_job_and_message_until_their_day() {
        let flaky = Flaky::parse(RULES, day(10)).unwrap();
        let waits = Some("stream::tests::waits_long");
        assert_eq!(flaky.reason("unit/mac", waits, "x"), Some("waits for a clock"));
        assert_eq!(flaky.reason("test/mac", waits, "x"), None);
        assert_eq!(flaky.reason("unit/mac", None, "x"), None);
        assert!(flaky.reason("a", None, "Port 80 is in use").is_some());
        let later = Flaky::parse(RULES, day(11)).unwrap();
        assert_eq!(later.reason("a", None, "Port 80 is in use"), None);
        assert_eq!(
            later.expired,
            ["ci/flaky.toml: rule 2 ended on 2026-11-10: the port is chosen by chance"]
        );
    }

    #[test]
    fn rules_that_would_hide_too_much_or_never_end_are_refused() {
        let fault = |text: &str| format!("{:#}", Flaky::parse(text, day(1)).unwrap_err());
        let all = fault("[[rule]]\njob = \"*\"\nreason = \"x\"\nuntil = 2027-01-01");
        assert!(all.contains("rule 1: give `test` or `message`"), "{all}");
        assert!(fault("[[rule]]\ntest = \"x\"\nreason = \"x\"").contains("until"));
        assert!(
            fault("[[rule]]\ntest = \"x\"\nreason = \" \"\nuntil = 2027-01-01").contains("reason")
        );
        let clock = fault("[[rule]]\ntest = \"x\"\nreason = \"x\"\nuntil = 10:00:00");
        assert!(clock.contains("is a day"), "{clock}");
    }

    #[test]
    fn the_rules_of_the_repository_are_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        Flaky::read(root, day(1)).unwrap();
    }
}
