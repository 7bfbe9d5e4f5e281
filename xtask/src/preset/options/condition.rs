//! Conditions of `if(…)`, as far as they can be decided without CMake.

use std::fmt;

use super::cmake::Argument;

/// A condition. What this module does not understand is [`Condition::Unknown`], and stays
/// undecided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Always true.
    Always,
    /// Cannot be decided here.
    Unknown,
    /// The variable of this name is true.
    True(String),
    /// There is a variable of this name.
    Defined(String),
    /// Two texts are equal.
    Equal(Operand, Operand),
    /// Not so.
    Not(Box<Condition>),
    /// All of these.
    All(Vec<Condition>),
    /// At least one of these.
    Any(Vec<Condition>),
}

/// A side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand {
    /// The value of a variable.
    Variable(String),
    /// A text.
    Text(String),
}

/// What is known of variables.
pub trait Variables {
    /// The value of `name`: `Some(None)` where it is known not to be set, nothing where that is
    /// not known.
    fn value(&self, name: &str) -> Option<Option<String>>;
}

/// Conditions with more parentheses, `AND` and `OR` than this are not understood.
const DEEPEST: usize = 128;

impl Condition {
    /// The condition of `if(arguments)`.
    pub fn parse(arguments: &[Argument]) -> Self {
        let mut parser = Parser { rest: arguments, depth: 0 };
        match parser.expression() {
            Some(condition) if parser.rest.is_empty() => condition,
            _ => Condition::Unknown,
        }
    }

    /// Not this.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Condition::Unknown => Condition::Unknown,
            Condition::Not(inner) => *inner,
            other => Condition::Not(Box::new(other)),
        }
    }

    /// All of `conditions`, in the shortest form.
    pub fn all(conditions: Vec<Condition>) -> Self {
        let mut flat = Vec::new();
        for condition in conditions {
            match condition {
                Condition::Always => {}
                Condition::All(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Condition::Always,
            1 => flat.remove(0),
            _ => Condition::All(flat),
        }
    }

    /// Whether it holds; nothing where that cannot be known.
    pub fn holds(&self, variables: &dyn Variables) -> Option<bool> {
        match self {
            Condition::Always => Some(true),
            Condition::Unknown => None,
            Condition::True(name) => {
                Some(variables.value(name)?.is_some_and(|text| is_true(&text)))
            }
            Condition::Defined(name) => Some(variables.value(name)?.is_some()),
            Condition::Equal(a, b) => Some(a.text(variables)? == b.text(variables)?),
            Condition::Not(inner) => Some(!inner.holds(variables)?),
            Condition::All(inner) => decide(inner, variables, false),
            Condition::Any(inner) => decide(inner, variables, true),
        }
    }
}

/// `decisive` if one of `inner` is so, its opposite if all are, else unknown.
fn decide(inner: &[Condition], variables: &dyn Variables, decisive: bool) -> Option<bool> {
    let mut known = Some(!decisive);
    for condition in inner {
        match condition.holds(variables) {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => known = None,
        }
    }
    known
}

impl Operand {
    fn text(&self, variables: &dyn Variables) -> Option<String> {
        match self {
            Operand::Text(text) => Some(text.clone()),
            Operand::Variable(name) => Some(variables.value(name)?.unwrap_or_default()),
        }
    }

    fn parse(argument: &Argument) -> Option<Self> {
        let text = argument.text.as_str();
        if let Some(name) = reference(text) {
            return Some(Operand::Variable(name.to_owned()));
        }
        if text.contains("${") || text.contains("$ENV{") {
            return None;
        }
        // Without quotes CMake takes the variable of that name, where there is one: which there
        // are is known only for names of these forms.
        let known = ["_", "EXECUTORCH_", "CMAKE_"].iter().any(|start| text.starts_with(start));
        Some(match known && !argument.quoted && is_plain_name(text) {
            true => Operand::Variable(text.to_owned()),
            false => Operand::Text(text.to_owned()),
        })
    }
}

/// The name in `${name}`, where that is all of the text.
pub fn reference(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    is_plain_name(name).then_some(name)
}

fn is_plain_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether CMake takes `text` for true. Where it would look for a variable of that name, any text
/// counts as true: what options mean is that something is given.
pub fn is_true(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let wrong = ["", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"];
    !wrong.contains(&upper.as_str()) && !upper.ends_with("-NOTFOUND")
}

struct Parser<'a> {
    rest: &'a [Argument],
    depth: usize,
}

impl Parser<'_> {
    fn keyword(&self, at: usize) -> Option<&str> {
        self.rest.get(at).filter(|a| !a.quoted).map(|a| a.text.as_str())
    }

    /// `AND` and `OR` have the same rank for CMake and go from left to right.
    fn expression(&mut self) -> Option<Condition> {
        let mut left = self.term()?;
        loop {
            let all = match self.keyword(0) {
                Some("AND") => true,
                Some("OR") => false,
                _ => return Some(left),
            };
            self.rest = &self.rest[1..];
            let right = self.term()?;
            self.depth += 1;
            if self.depth > DEEPEST {
                return None;
            }
            left = match all {
                true => Condition::All(joined(left, right, |c| match c {
                    Condition::All(inner) => Ok(inner),
                    other => Err(other),
                })),
                false => Condition::Any(joined(left, right, |c| match c {
                    Condition::Any(inner) => Ok(inner),
                    other => Err(other),
                })),
            };
        }
    }

    fn term(&mut self) -> Option<Condition> {
        let mut negated = false;
        while self.keyword(0) == Some("NOT") {
            negated = !negated;
            self.rest = &self.rest[1..];
        }
        let condition = match self.keyword(0) {
            Some("(") => self.parenthesis()?,
            Some("DEFINED") => {
                let name = self.keyword(1).filter(|name| is_plain_name(name));
                let condition = name.map_or(Condition::Unknown, |n| Condition::Defined(n.into()));
                self.rest = self.rest.get(2..)?;
                condition
            }
            _ => self.test()?,
        };
        Some(if negated { condition.negated() } else { condition })
    }

    fn parenthesis(&mut self) -> Option<Condition> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        self.rest = &self.rest[1..];
        let inner = self.expression()?;
        if self.keyword(0) != Some(")") {
            return None;
        }
        self.rest = &self.rest[1..];
        Some(inner)
    }

    /// A variable or constant, or a test of one or two arguments.
    fn test(&mut self) -> Option<Condition> {
        let first = self.rest.first()?;
        if self.ends(1) {
            let condition = constant(first);
            self.rest = &self.rest[1..];
            return Some(condition);
        }
        if self.ends(2) {
            // EXISTS, TARGET, COMMAND, …
            self.rest = &self.rest[2..];
            return Some(Condition::Unknown);
        }
        if !self.ends(3) {
            return None;
        }
        let condition = match (self.keyword(1), Operand::parse(first)) {
            (Some("STREQUAL"), Some(left)) => Operand::parse(&self.rest[2])
                .map_or(Condition::Unknown, |right| Condition::Equal(left, right)),
            _ => Condition::Unknown,
        };
        self.rest = &self.rest[3..];
        Some(condition)
    }

    /// Whether a test ends before the argument `at`.
    fn ends(&self, at: usize) -> bool {
        at >= self.rest.len() || matches!(self.keyword(at), Some("AND" | "OR" | ")"))
    }
}

/// Both conditions in one list; those that are such a list themselves, by their items.
fn joined(
    left: Condition,
    right: Condition,
    items: impl Fn(Condition) -> Result<Vec<Condition>, Condition>,
) -> Vec<Condition> {
    let list = |condition| items(condition).unwrap_or_else(|single| vec![single]);
    let mut all = list(left);
    all.extend(list(right));
    all
}

fn constant(argument: &Argument) -> Condition {
    let text = argument.text.as_str();
    let name = reference(text).unwrap_or(text);
    match text.to_ascii_uppercase().as_str() {
        "ON" | "TRUE" | "YES" | "Y" | "1" => Condition::Always,
        "OFF" | "FALSE" | "NO" | "N" | "0" => Condition::Always.negated(),
        _ if is_plain_name(name) && !argument.quoted => Condition::True(name.to_owned()),
        _ => Condition::Unknown,
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Variable(name) => write!(f, "\"${{{name}}}\""),
            Operand::Text(text) => {
                write!(f, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
        }
    }
}

impl fmt::Display for Condition {
    /// In CMake's language, so that it can be read again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, inner: &[Condition], word: &str| {
            for (index, condition) in inner.iter().enumerate() {
                if index > 0 {
                    write!(f, " {word} ")?;
                }
                match condition {
                    Condition::All(_) | Condition::Any(_) => write!(f, "({condition})")?,
                    _ => write!(f, "{condition}")?,
                }
            }
            Ok(())
        };
        match self {
            Condition::Always => f.write_str("TRUE"),
            Condition::Unknown => f.write_str("EXISTS unknown"),
            Condition::True(name) => f.write_str(name),
            Condition::Defined(name) => write!(f, "DEFINED {name}"),
            Condition::Equal(a, b) => write!(f, "{a} STREQUAL {b}"),
            Condition::Not(inner) => match inner.as_ref() {
                Condition::All(_) | Condition::Any(_) => write!(f, "NOT ({inner})"),
                _ => write!(f, "NOT {inner}"),
            },
            Condition::All(inner) => list(f, inner, "AND"),
            Condition::Any(inner) => list(f, inner, "OR"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::options::cmake;

    struct Known;

    impl Variables for Known {
        fn value(&self, name: &str) -> Option<Option<String>> {
            match name {
                "ON_" => Some(Some("ON".into())),
                "OFF_" => Some(Some("OFF".into())),
                "CMAKE_BUILD_TYPE" => Some(Some("Debug".into())),
                "NONE" => Some(None),
                _ => None,
            }
        }
    }

    fn parse(text: &str) -> Condition {
        Condition::parse(&cmake::parse(&format!("if({text})")).unwrap()[0].arguments)
    }

    #[test]
    fn conditions_are_decided_where_everything_is_known() {
        let cases = [
            ("ON_", Some(true)),
            ("NOT OFF_ AND ON_", Some(true)),
            ("ON_ OR OFF_ AND OFF_", Some(false)), // from left to right
            ("ON_ OR (OFF_ AND OFF_)", Some(true)),
            ("UNKNOWN_", None),
            ("UNKNOWN_ AND OFF_", Some(false)),
            ("UNKNOWN_ OR ON_", Some(true)),
            ("NOT UNKNOWN_", None),
            ("NONE", Some(false)),
            ("DEFINED NONE OR DEFINED ON_", Some(true)),
            ("CMAKE_BUILD_TYPE STREQUAL \"Debug\"", Some(true)),
            ("NOT \"${CMAKE_BUILD_TYPE}\" STREQUAL Debug", Some(false)),
            ("ON_ AND \"${SDK_NAME}\" STREQUAL \"iphoneos\"", None),
            ("OFF_ AND \"${SDK_NAME}\" STREQUAL \"iphoneos\"", Some(false)),
            ("EXISTS /x AND OFF_", Some(false)),
            ("(OFF_ OR EXISTS /x) AND (OFF_)", Some(false)),
            ("ON_ \"B\"", None),
            ("X MATCHES \"a\"", None),
            ("X VERSION_LESS 3 OR 1", Some(true)),
            ("(ON_ ON_ ON_)", None),
            ("", None),
            ("AND", None),
            ("${ON_}", Some(true)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).holds(&Known), expected, "{text}: {:?}", parse(text));
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for text in [
            "NOT A AND NOT B",
            "A OR (B AND NOT C)",
            "NOT (A OR B)",
            "NOT CMAKE_BUILD_TYPE STREQUAL \"Debug\"",
            "\"${SDK_NAME}\" STREQUAL \"iphoneos\" OR DEFINED X",
            "A OR B AND C",
            "(A OR EXISTS x) AND B",
            "EXISTS x AND A",
        ] {
            let condition = parse(text);
            assert_eq!(parse(&condition.to_string()), condition, "{text} -> {condition}");
        }
    }

    #[test]
    fn deep_conditions_are_not_understood() {
        let deep = format!("{}A{}", "(".repeat(10_000), ")".repeat(10_000));
        assert_eq!(parse(&deep), Condition::Unknown);
        let alternating = format!("A{}", " AND B OR C".repeat(10_000));
        assert_eq!(parse(&alternating), Condition::Unknown);
    }
}
