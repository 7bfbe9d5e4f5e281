//! The rules by which lines of logs are understood (`rules.toml`).

use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;
use anyhow::{Context as _, Result};
use regex::Regex;
use serde::Deserialize;

/// What is said of a test where nothing says what is wrong.
pub const FAILED: &str = "it failed";

/// What a line means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// A test failed.
    Test,
    /// What is wrong with a test.
    Detail,
    /// Something else failed.
    Error,
    /// Something failed, and another line says what.
    Summary,
    /// A test passed.
    Passed,
    /// A machine, a disk or the network failed.
    Infrastructure,
    /// It was ended from outside.
    Cancelled,
}

/// Whose failures an infrastructure rule explains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Takes {
    /// All later ones.
    After,
    /// Those few lines away that are no tests.
    #[default]
    Near,
}

/// One rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What people see.
    pub name: String,
    /// What a line that it matches means.
    pub is: Meaning,
    contains: String,
    #[serde(default)]
    pattern: Option<Pattern>,
    /// Whether the message is the next line.
    #[serde(default)]
    pub next: bool,
    /// For infrastructure.
    #[serde(default)]
    pub takes: Takes,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct Pattern(Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(text: String) -> Result<Self, regex::Error> {
        Regex::new(&text).map(Self)
    }
}

/// What a rule found in a line.
#[derive(Debug, Clone, Copy)]
pub struct Match<'r, 'l> {
    /// The rule.
    pub rule: &'r Rule,
    /// The test's name.
    pub name: Option<&'l str>,
    /// `file:line`.
    pub place: Option<&'l str>,
    /// What is wrong: the pattern's part, else the line.
    pub message: &'l str,
}

/// All rules, with one automaton that finds their texts.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    /// Those for tests that passed. Most lines of a log may be such: they are looked for only where
    /// a test failed.
    passing: Vec<Rule>,
    texts: AhoCorasick,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Rule>,
}

impl Rules {
    /// The rules that come with the program.
    ///
    /// # Errors
    /// The file is wrong; a test reads it.
    pub fn built_in() -> Result<Self> {
        let file: File = toml::from_str(include_str!("rules.toml")).context("rules.toml")?;
        let (passing, rules): (Vec<_>, Vec<_>) =
            file.rule.into_iter().partition(|rule| rule.is == Meaning::Passed);
        let texts = AhoCorasick::new(rules.iter().map(|rule| &rule.contains))?;
        Ok(Self { rules, passing, texts })
    }

    /// The test that `line` says has passed.
    pub fn passed<'l>(&self, line: &'l str) -> Option<&'l str> {
        self.passing.iter().find_map(|rule| rule.of_line(line)?.name)
    }

    /// Where in `text`, from `start` on, the next line is that a rule may match.
    pub fn next(&self, text: &[u8], start: usize) -> Option<usize> {
        let input = aho_corasick::Input::new(text).span(start..text.len());
        self.texts.find(input).map(|found| found.start())
    }

    /// The first rule that matches `line`, which has no time stamp and no colours.
    pub fn of_line<'l>(&self, line: &'l str) -> Option<Match<'_, 'l>> {
        let found = self.texts.find_overlapping_iter(line).map(|found| found.pattern().as_usize());
        let candidates: BTreeSet<usize> = found.collect();
        candidates.into_iter().find_map(|index| self.rules[index].of_line(line))
    }
}

impl Rule {
    fn of_line<'l>(&self, line: &'l str) -> Option<Match<'_, 'l>> {
        let whole = line.trim();
        let whole = whole.strip_prefix("##[error]").unwrap_or(whole);
        let Some(Pattern(pattern)) = &self.pattern else {
            return Some(Match { rule: self, name: None, place: None, message: whole });
        };
        let parts = pattern.captures(line)?;
        let part =
            |name| parts.name(name).map(|part| part.as_str()).filter(|part| !part.is_empty());
        let of_test = self.is == Meaning::Test;
        let message = part("message").unwrap_or(if of_test { FAILED } else { whole });
        Some(Match { rule: self, name: part("name"), place: part("place"), message })
    }
}
