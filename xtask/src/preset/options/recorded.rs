//! Options of released versions, recorded as facts: for the SDK, which does not bring
//! `default.cmake` along, and for source that is not fetched yet.
//!
//! `cargo xtask preset record CHECKOUT` writes such a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::condition::Condition;
use super::{Case, OptionKind, OptionSchema, Rule, RuleKind, cmake};

/// The recorded tables, the newest first.
const TABLES: &[(&str, &str)] = &[("1.5.1", include_str!("recorded/1.5.1.toml"))];

/// What is recorded of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The version.
    pub version: String,
    /// The commits and tags that have these options.
    pub revisions: Vec<String>,
    /// Its options.
    pub schema: OptionSchema,
    /// What the official SDK was built with and offers to C++ programs, by triple.
    pub sdk: BTreeMap<String, BTreeMap<String, String>>,
}

/// The versions there are tables of, the newest first.
pub fn versions() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(version, _)| *version)
}

/// The table of `version`, or of the newest where that has none or none is asked for.
pub fn table(version: Option<&str>) -> Recorded {
    let exact = TABLES.iter().find(|(known, _)| Some(*known) == version);
    let (version, text) = exact.unwrap_or(&TABLES[0]);
    read(version, text).expect("a test reads every recorded table")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    revisions: Vec<String>,
    options: BTreeMap<String, FileOption>,
    #[serde(default)]
    rule: Vec<FileRule>,
    #[serde(default)]
    sdk: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileOption {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    choices: Vec<String>,
    #[serde(default)]
    default: Option<FileDefault>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FileDefault {
    One(String),
    Cases(Vec<FileCase>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCase {
    when: String,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    on: String,
    #[serde(default)]
    requires: Vec<String>,
    #[serde(default)]
    conflicts: Vec<String>,
    #[serde(default)]
    when: Option<String>,
}

/// Reads a recorded table.
///
/// # Errors
/// It has not the form of one.
pub fn read(version: &str, text: &str) -> Result<Recorded> {
    let file: File = toml::from_str(text).context("the recorded table is not in form")?;
    let mut schema = OptionSchema::default();
    for (name, option) in file.options {
        let kind = match option.kind.as_str() {
            "BOOL" => OptionKind::Bool,
            "STRING" => OptionKind::Text(option.choices),
            _ => OptionKind::Any,
        };
        let default = match option.default {
            None => vec![Case { when: Condition::Always, value: None }],
            Some(FileDefault::One(value)) => {
                vec![Case { when: Condition::Always, value: Some(value) }]
            }
            Some(FileDefault::Cases(cases)) => cases
                .into_iter()
                .map(|case| Ok(Case { when: condition(&case.when)?, value: case.value }))
                .collect::<Result<_>>()?,
        };
        let default = if kind == OptionKind::Any { Vec::new() } else { default };
        schema.add(&name, kind, default, None);
    }
    for rule in file.rule {
        let when = rule.when.as_deref().map_or(Ok(Condition::Always), condition)?;
        let (kind, others) = match rule.requires.is_empty() {
            false => (RuleKind::Requires, rule.requires),
            true => (RuleKind::Conflicts, rule.conflicts),
        };
        schema.rules.push(Rule { kind, option: rule.on, others, when, line: None });
    }
    let (version, revisions) = (version.to_owned(), file.revisions);
    Ok(Recorded { version, revisions, schema, sdk: file.sdk })
}

fn condition(text: &str) -> Result<Condition> {
    let commands = cmake::parse(&format!("if({text})")).context("a condition is not in form")?;
    Ok(commands.first().map_or(Condition::Always, |c| Condition::parse(&c.arguments)))
}

impl OptionSchema {
    /// The options and rules as a recorded table has them.
    pub fn to_toml(&self) -> String {
        let mut text = "[options]\n".to_owned();
        for (name, option) in &self.options {
            let kind = match &option.kind {
                OptionKind::Bool => "type = \"BOOL\"".to_owned(),
                OptionKind::Text(choices) if choices.is_empty() => "type = \"STRING\"".to_owned(),
                OptionKind::Text(choices) => {
                    format!("type = \"STRING\", choices = {}", list(choices))
                }
                OptionKind::Any => "type = \"ANY\"".to_owned(),
            };
            let _ = writeln!(text, "{name} = {{ {kind}{} }}", default(&option.default));
        }
        for rule in &self.rules {
            let verb = match rule.kind {
                RuleKind::Requires => "requires",
                RuleKind::Conflicts => "conflicts",
            };
            let _ = write!(
                text,
                "\n[[rule]]\non = {:?}\n{verb} = {}\n",
                rule.option,
                list(&rule.others)
            );
            if rule.when != Condition::Always {
                let _ = writeln!(text, "when = {}", quoted(&rule.when.to_string()));
            }
        }
        text
    }
}

fn default(cases: &[Case]) -> String {
    let value = |value: &Option<String>, key: &str| {
        value.as_ref().map_or(String::new(), |text| format!(", {key} = {}", quoted(text)))
    };
    match cases {
        [] => String::new(),
        [Case { when: Condition::Always, value: one }] => value(one, "default"),
        cases => {
            let case = |case: &Case| {
                format!(
                    "{{ when = {}{} }}",
                    quoted(&case.when.to_string()),
                    value(&case.value, "value")
                )
            };
            let cases: Vec<_> = cases.iter().map(case).collect();
            format!(", default = [{}]", cases.join(", "))
        }
    }
}

/// A TOML string: literal, where it can be.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn list(items: &[String]) -> String {
    let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_table_is_in_form_and_says_the_same_when_written() {
        for (version, text) in TABLES {
            let table = read(version, text).unwrap();
            assert_eq!(read(version, &table.schema.to_toml()).unwrap().schema, table.schema);
            assert!(table.sdk.contains_key("aarch64-apple-darwin"));
            for name in table.sdk.values().flat_map(BTreeMap::keys) {
                assert!(table.schema.options.contains_key(name), "{name}");
            }
            for rule in &table.schema.rules {
                for name in rule.others.iter().chain([&rule.option]) {
                    assert!(table.schema.options.contains_key(name), "{name}");
                }
            }
        }
    }

    #[test]
    fn facts_of_the_newest_table() {
        let table = table(None);
        let metal = table.schema.rules.iter().find(|rule| rule.option == "BUILD_METAL").unwrap();
        assert_eq!(metal.others, ["BUILD_EXTENSION_TENSOR"]);
        assert_eq!(
            table.schema.options["FLATBUFFERS_MAX_ALIGNMENT"].kind,
            OptionKind::Text(vec![])
        );
        assert_eq!(
            table.schema.options["PAL_DEFAULT"].kind,
            OptionKind::Text(vec!["posix".into(), "minimal".into(), "android".into()])
        );
    }
}
