//! ExecuTorch's CMake options: which there are, of what type, and which need or exclude each
//! other. CMake itself tells only the first fault, and late; with this they are all known before
//! it starts.
//!
//! The facts come from `tools/cmake/preset/default.cmake` of the source in use
//! ([`default_cmake`]), or from the recorded table of a version ([`recorded`]).

pub mod cmake;
pub mod condition;
pub mod default_cmake;
pub mod recorded;

use std::collections::{BTreeMap, BTreeSet};

use condition::{Condition, Variables, is_true};

/// The type of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionKind {
    /// On or off.
    Bool,
    /// A text or number; one of these, where there are any.
    Text(Vec<String>),
    /// Not known: the option is read somewhere but nowhere defined.
    Any,
}

/// A value under a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// When.
    pub when: Condition,
    /// The value; nothing where CMake computes it.
    pub value: Option<String>,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionDefinition {
    /// Its type.
    pub kind: OptionKind,
    /// What it is when nobody sets it: the last case that holds counts.
    pub default: Vec<Case>,
    /// The line of its definition.
    pub line: Option<usize>,
}

/// What a rule asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// The others have to be on too.
    Requires,
    /// The others must not be on too.
    Conflicts,
}

/// What has to hold when an option is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it asks for.
    pub kind: RuleKind,
    /// The option that has to be on for the rule to count.
    pub option: String,
    /// The options that it is about.
    pub others: Vec<String>,
    /// When the rule counts at all.
    pub when: Condition,
    /// The line of the rule.
    pub line: Option<usize>,
}

/// A rule that is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What the rule asks for.
    pub kind: RuleKind,
    /// The option that is on.
    pub option: String,
    /// Whose requirement `option` is, where it is on only because of that.
    pub because_of: Option<String>,
    /// The other option.
    pub other: String,
    /// The line of the rule in `default.cmake`, where it was read from there.
    pub line: Option<usize>,
}

/// Every option and rule. Names are without the prefix `EXECUTORCH_`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionSchema {
    /// The options.
    pub options: BTreeMap<String, OptionDefinition>,
    /// The rules, in the order in which CMake checks them.
    pub rules: Vec<Rule>,
}

/// Values of options under the variables that CMake sets itself.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Options that are set, as CMake's texts.
    pub options: BTreeMap<String, String>,
    /// CMake's own variables, as `CMAKE_BUILD_TYPE`; nothing for those that are not set.
    pub variables: BTreeMap<String, Option<String>>,
}

impl OptionSchema {
    fn add(&mut self, name: &str, kind: OptionKind, default: Vec<Case>, line: Option<usize>) {
        let definition = OptionDefinition { kind, default, line };
        self.options.entry(name.to_owned()).or_insert(definition);
    }

    /// The value of the option `name`, where it is known.
    pub fn value(&self, name: &str, given: &Given) -> Option<String> {
        match (Values { schema: self, given, depth: 0 }).option(name) {
            Some(Some(text)) => Some(text),
            _ => None,
        }
    }

    /// Every broken rule. What a rule requires is taken for set from there on, so that what it
    /// requires in turn is told too.
    pub fn violations(&self, given: &Given) -> Vec<Violation> {
        let mut given = given.clone();
        let mut because: BTreeMap<String, String> = BTreeMap::new();
        let mut found = Vec::new();
        let mut told = BTreeSet::new();
        // Each round sets at least one more option, or is the last.
        for _ in 0..=self.options.len() {
            let before = given.options.clone();
            for rule in &self.rules {
                self.check(rule, &mut given, &mut because, &mut found, &mut told);
            }
            if given.options == before {
                break;
            }
        }
        found
    }

    fn check(
        &self,
        rule: &Rule,
        given: &mut Given,
        because: &mut BTreeMap<String, String>,
        found: &mut Vec<Violation>,
        told: &mut BTreeSet<(String, String)>,
    ) {
        let holds = rule.when.holds(&Values { schema: self, given, depth: 0 });
        let on = |name: &str, given: &Given| self.value(name, given).map(|text| is_true(&text));
        if holds != Some(true) || on(&rule.option, given) != Some(true) {
            return;
        }
        for other in &rule.others {
            let wrong = match rule.kind {
                RuleKind::Requires => on(other, given) == Some(false),
                RuleKind::Conflicts => on(other, given) == Some(true),
            };
            if !wrong || !told.insert((rule.option.clone(), other.clone())) {
                continue;
            }
            found.push(Violation {
                kind: rule.kind,
                option: rule.option.clone(),
                because_of: because.get(&rule.option).cloned(),
                other: other.clone(),
                line: rule.line,
            });
            if rule.kind == RuleKind::Requires {
                given.options.insert(other.clone(), "ON".to_owned());
                let root = because.get(&rule.option).unwrap_or(&rule.option).clone();
                because.insert(other.clone(), root);
            }
        }
    }
}

/// Looks variables up: options by what is given or their defaults, others by what CMake sets.
struct Values<'a> {
    schema: &'a OptionSchema,
    given: &'a Given,
    depth: usize,
}

/// Defaults that depend on defaults deeper than this stay unknown: they go in a circle.
const DEEPEST: usize = 16;

impl Values<'_> {
    /// `Some(None)` where it is known not to be set.
    fn option(&self, name: &str) -> Option<Option<String>> {
        if let Some(text) = self.given.options.get(name) {
            return Some(Some(text.clone()));
        }
        let Some(definition) = self.schema.options.get(name) else { return Some(None) };
        if self.depth == DEEPEST {
            return None;
        }
        let inner = Values { depth: self.depth + 1, ..*self };
        for case in definition.default.iter().rev() {
            if case.when.holds(&inner)? {
                return case.value.clone().map(Some);
            }
        }
        Some(None)
    }
}

impl Variables for Values<'_> {
    fn value(&self, name: &str) -> Option<Option<String>> {
        match name.strip_prefix(crate::preset::executorch::PREFIX) {
            Some(option) => self.option(option),
            None => self.given.variables.get(name).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = concat!(
        "define_overridable_option(EXECUTORCH_APP \"\" BOOL OFF)\n",
        "define_overridable_option(EXECUTORCH_MODULE \"\" BOOL OFF)\n",
        "define_overridable_option(EXECUTORCH_TENSOR \"\" BOOL OFF)\n",
        "define_overridable_option(EXECUTORCH_LOADER \"\" BOOL ON)\n",
        "define_overridable_option(EXECUTORCH_BARE \"\" BOOL OFF)\n",
        "set(_pool ON)\nif(EXECUTORCH_BARE)\nset(_pool OFF)\nendif()\n",
        "define_overridable_option(EXECUTORCH_POOL \"\" BOOL ${_pool})\n",
        "check_required_options_on(IF_ON EXECUTORCH_MODULE REQUIRES EXECUTORCH_TENSOR ",
        "EXECUTORCH_LOADER)\n",
        "check_required_options_on(IF_ON EXECUTORCH_APP REQUIRES EXECUTORCH_MODULE)\n",
        "check_conflicting_options_on(IF_ON EXECUTORCH_BARE CONFLICTS_WITH EXECUTORCH_POOL)\n",
        "if(APPLE)\n",
        "check_required_options_on(IF_ON EXECUTORCH_LOADER REQUIRES EXECUTORCH_POOL)\nendif()\n",
    );

    fn shown(options: &[(&str, &str)], apple: Option<&str>) -> String {
        let schema = default_cmake::read(TEXT).unwrap();
        let own = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        let given = Given {
            options: options.iter().map(own).collect(),
            variables: [("APPLE".to_owned(), apple.map(String::from))].into(),
        };
        let line = |v: &Violation| {
            let because = v.because_of.as_ref().map_or(String::new(), |b| format!(" (for {b})"));
            format!("{} {:?} {}{because}\n", v.option, v.kind, v.other)
        };
        schema.violations(&given).iter().map(line).collect()
    }

    #[test]
    fn requirements_are_followed_to_the_end() {
        insta::assert_snapshot!(shown(&[("APP", "ON"), ("LOADER", "OFF")], None), @"
        APP Requires MODULE
        MODULE Requires TENSOR (for APP)
        MODULE Requires LOADER (for APP)
        ");
    }

    #[test]
    fn defaults_follow_the_options_that_they_depend_on() {
        assert_eq!(shown(&[("BARE", "ON")], None), "", "the default of POOL goes off with it");
        assert_eq!(shown(&[("BARE", "ON"), ("POOL", "1")], None), "BARE Conflicts POOL\n");
        assert_eq!(shown(&[("POOL", "OFF")], None), "");
        assert_eq!(shown(&[("POOL", "OFF")], Some("1")), "LOADER Requires POOL\n");
    }

    #[test]
    fn defaults_that_go_in_a_circle_stay_unknown() {
        let text = concat!(
            "if(EXECUTORCH_B)\nset(_a ON)\nendif()\n",
            "define_overridable_option(EXECUTORCH_A \"\" BOOL ${_a})\n",
            "if(EXECUTORCH_A)\nset(_b ON)\nendif()\n",
            "define_overridable_option(EXECUTORCH_B \"\" BOOL ${_b})\n",
        );
        let schema = default_cmake::read(text).unwrap();
        assert_eq!(schema.value("A", &Given::default()), None);
    }
}
