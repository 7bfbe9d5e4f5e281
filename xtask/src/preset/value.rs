//! Values of preset keys, and the kinds they must be of.

use std::fmt;

/// A value as a preset file can write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A list of strings.
    List(Vec<String>),
}

impl Value {
    /// The value as CMake takes it: `ON`, `OFF`, or the text.
    pub fn cmake_text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Bool(true) => "ON".to_owned(),
            Value::Bool(false) => "OFF".to_owned(),
            Value::Integer(number) => number.to_string(),
            Value::List(items) => items.join(";"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Bool(flag) => write!(f, "{flag}"),
            Value::Integer(number) => write!(f, "{number}"),
            Value::List(items) => write!(f, "{items:?}"),
        }
    }
}

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any string.
    Text,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// One of these strings, or a path: a text with a `/` in it.
    ChoiceOrPath(&'static [&'static str]),
    /// A version: numbers with dots, as in `14.0`.
    Version,
    /// A boolean.
    Bool,
    /// A list of strings.
    List,
    /// A CMake option: a boolean, a whole number or a string.
    Option,
}

impl Kind {
    /// Checks `value`.
    ///
    /// # Errors
    /// What was expected and what was found, without the place.
    pub fn check(self, value: &Value) -> Result<(), String> {
        let good = match (self, value) {
            (Kind::Text, Value::Text(_))
            | (Kind::List, Value::List(_))
            | (Kind::Bool, Value::Bool(_))
            | (Kind::Option, Value::Text(_) | Value::Bool(_) | Value::Integer(_)) => true,
            (Kind::Choice(choices), Value::Text(text)) => choices.contains(&text.as_str()),
            (Kind::ChoiceOrPath(choices), Value::Text(text)) => {
                choices.contains(&text.as_str()) || text.contains('/')
            }
            (Kind::Version, Value::Text(text)) => is_version(text),
            _ => false,
        };
        if good {
            Ok(())
        } else {
            Err(format!("expected {self}, found {value}{}", self.hint(value)))
        }
    }

    /// A near choice, for a text that is none.
    fn hint(self, value: &Value) -> String {
        let (Kind::Choice(choices) | Kind::ChoiceOrPath(choices), Value::Text(text)) =
            (self, value)
        else {
            return String::new();
        };
        let names = choices.iter().map(|c| (*c).to_owned());
        super::schema::nearest(text, names)
            .map_or(String::new(), |best| format!("; did you mean {best:?}?"))
    }

    /// Reads the text of `-D key=TEXT`: lists are comma-separated.
    ///
    /// # Errors
    /// As [`Kind::check`].
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let value = match self {
            Kind::Text | Kind::Choice(_) | Kind::ChoiceOrPath(_) | Kind::Version => {
                Value::Text(text.to_owned())
            }
            Kind::List => Value::List(
                text.split(',')
                    .map(str::trim)
                    .filter(|s| !s.is_empty())
                    .map(String::from)
                    .collect(),
            ),
            Kind::Bool | Kind::Option => match flag(text) {
                Some(flag) => Value::Bool(flag),
                None => text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Integer),
            },
        };
        self.check(&value)?;
        Ok(value)
    }
}

/// `on`, `true`, `yes` and their opposites, in any case.
pub fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" => Some(true),
        "off" | "false" | "no" => Some(false),
        _ => None,
    }
}

fn is_version(text: &str) -> bool {
    text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Text => f.write_str("a string"),
            Kind::Version => f.write_str("a version as \"14.0\""),
            Kind::Bool => f.write_str("true or false"),
            Kind::List => f.write_str("a list of strings"),
            Kind::Option => f.write_str("true, false, a whole number or a string"),
            Kind::Choice(choices) => f.write_str(&alternatives(choices)),
            Kind::ChoiceOrPath(choices) => write!(f, "{} or a path", alternatives(choices)),
        }
    }
}

fn alternatives(choices: &[&str]) -> String {
    let quoted: Vec<_> = choices.iter().map(|c| format!("{c:?}")).collect();
    quoted.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_text_becomes_the_kind_of_its_key() {
        assert_eq!(Kind::List.parse("a, b,"), Ok(Value::List(vec!["a".into(), "b".into()])));
        assert_eq!(Kind::Option.parse("ON"), Ok(Value::Bool(true)));
        assert_eq!(Kind::Option.parse("3"), Ok(Value::Integer(3)));
        assert_eq!(Kind::Option.parse("Debug"), Ok(Value::Text("Debug".into())));
        assert_eq!(Kind::Bool.parse("off"), Ok(Value::Bool(false)));
        assert_eq!(
            Kind::Choice(&["sdk", "source"]).parse("sdkk"),
            Err("expected \"sdk\" or \"source\", found \"sdkk\"; did you mean \"sdk\"?".into())
        );
    }

    #[test]
    fn paths_and_versions_have_their_form() {
        let openmp = Kind::ChoiceOrPath(&["auto", "off"]);
        assert_eq!(openmp.parse("/opt/libomp.dylib"), Ok(Value::Text("/opt/libomp.dylib".into())));
        assert_eq!(
            openmp.parse("none"),
            Err("expected \"auto\" or \"off\" or a path, found \"none\"".into())
        );
        assert_eq!(Kind::Version.parse("14.0"), Ok(Value::Text("14.0".into())));
        for wrong in ["", "14.", "macos14", "14.x", "."] {
            assert!(Kind::Version.parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wrong_kind_says_what_was_expected() {
        assert_eq!(
            Kind::List.check(&Value::Bool(true)),
            Err("expected a list of strings, found true".into())
        );
        assert_eq!(Kind::Text.check(&Value::Integer(3)), Err("expected a string, found 3".into()));
        assert_eq!(
            Kind::Bool.parse("maybe"),
            Err("expected true or false, found \"maybe\"".into())
        );
    }

    #[test]
    fn cmake_takes_on_and_off() {
        assert_eq!(Value::Bool(true).cmake_text(), "ON");
        assert_eq!(Value::Bool(false).cmake_text(), "OFF");
        assert_eq!(Value::Integer(1024).cmake_text(), "1024");
        assert_eq!(Value::List(vec!["a".into(), "b".into()]).cmake_text(), "a;b");
    }
}
