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
        match (self, value) {
            (Kind::Text, Value::Text(_)) | (Kind::List, Value::List(_)) => Ok(()),
            (Kind::Option, Value::Text(_) | Value::Bool(_) | Value::Integer(_)) => Ok(()),
            (Kind::Choice(choices), Value::Text(text)) if choices.contains(&text.as_str()) => {
                Ok(())
            }
            _ => Err(format!("expected {self}, found {value}")),
        }
    }

    /// Reads the text of `-D key=TEXT`: lists are comma-separated.
    ///
    /// # Errors
    /// As [`Kind::check`].
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let value = match self {
            Kind::Text | Kind::Choice(_) => Value::Text(text.to_owned()),
            Kind::List => Value::List(
                text.split(',')
                    .map(str::trim)
                    .filter(|s| !s.is_empty())
                    .map(String::from)
                    .collect(),
            ),
            Kind::Option => match text.to_ascii_lowercase().as_str() {
                "on" | "true" | "yes" => Value::Bool(true),
                "off" | "false" | "no" => Value::Bool(false),
                _ => text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Integer),
            },
        };
        self.check(&value)?;
        Ok(value)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Text => f.write_str("a string"),
            Kind::List => f.write_str("a list of strings"),
            Kind::Option => f.write_str("true, false, a whole number or a string"),
            Kind::Choice(choices) => {
                let quoted: Vec<_> = choices.iter().map(|c| format!("{c:?}")).collect();
                write!(f, "{}", quoted.join(" or "))
            }
        }
    }
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
        assert_eq!(
            Kind::Choice(&["sdk", "source"]).parse("sdkk"),
            Err("expected \"sdk\" or \"source\", found \"sdkk\"".into())
        );
    }

    #[test]
    fn a_wrong_kind_says_what_was_expected() {
        assert_eq!(
            Kind::List.check(&Value::Bool(true)),
            Err("expected a list of strings, found true".into())
        );
        assert_eq!(Kind::Text.check(&Value::Integer(3)), Err("expected a string, found 3".into()));
    }
}
