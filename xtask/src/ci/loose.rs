//! The loose equality of GitHub's expressions (`==`), by which includes and excludes match.

use serde_json::Value;

/// The value at `path` inside `value`: an index that leads nowhere gives null, as in an expression.
pub fn at<'a>(value: &'a Value, key: Key<'_>) -> &'a Value {
    match (value, key) {
        (Value::Object(map), Key::Name(name)) => {
            map.iter().find(|(k, _)| same_text(k, name)).map_or(&Value::Null, |(_, v)| v)
        }
        (Value::Array(items), Key::Index(index)) => items.get(index).unwrap_or(&Value::Null),
        _ => &Value::Null,
    }
}

/// One step into a value.
#[derive(Debug, Clone, Copy)]
pub enum Key<'a> {
    /// A property; letter case does not matter.
    Name(&'a str),
    /// A place in a list.
    Index(usize),
}

/// Whether every leaf of `filter` equals what `value` has in its place. What `filter` does not
/// name does not matter, so that an empty object or list matches anything.
pub fn matches(filter: &Value, value: &Value) -> bool {
    match filter {
        Value::Object(map) => map.iter().all(|(k, f)| matches(f, at(value, Key::Name(k)))),
        Value::Array(items) => {
            items.iter().enumerate().all(|(i, f)| matches(f, at(value, Key::Index(i))))
        }
        leaf => equal(leaf, value),
    }
}

/// `left == right`: text without regard to letter case; different kinds as numbers.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(l), Value::String(r)) => same_text(l, r),
        (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => false,
        (l, r) => number(l) == number(r),
    }
}

/// Letter case does not matter.
pub fn same_text(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right)
        || !(left.is_ascii() && right.is_ascii()) && left.to_uppercase() == right.to_uppercase()
}

/// A leaf as a number; NaN (which equals nothing) for text that is none.
fn number(value: &Value) -> f64 {
    match value {
        Value::Null => 0.0,
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Number(n) => n.as_f64().unwrap_or(f64::NAN),
        Value::String(text) => number_of_text(text.trim()),
        Value::Array(_) | Value::Object(_) => f64::NAN,
    }
}

fn number_of_text(text: &str) -> f64 {
    let radix = |digits: &str, radix| {
        u32::from_str_radix(digits, radix).map_or(f64::NAN, |n| f64::from(n.cast_signed()))
    };
    match text {
        "" => 0.0,
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ if text.starts_with("0x") => radix(&text[2..], 16),
        _ if text.starts_with("0o") => radix(&text[2..], 8),
        _ if text.contains(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')) => {
            f64::NAN
        }
        _ => text.parse().unwrap_or(f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn different_kinds_are_compared_as_numbers() {
        for (left, right, same) in [
            (json!("Linux"), json!("linux"), true),
            (json!("1.0"), json!("1"), false),
            (json!("1.0"), json!(1), true),
            (json!(" 0x10 "), json!(16), true),
            (json!("1e1"), json!(10), true),
            (json!("inf"), json!("inf"), true),
            (json!("nan"), json!(0), false),
            (json!(null), json!(0), true),
            (json!(null), json!(""), true),
            (json!(null), json!(false), true),
            (json!(true), json!("1"), true),
            (json!(true), json!("true"), false),
            (json!([]), json!(0), false),
            (json!({}), json!(null), false),
        ] {
            assert_eq!(equal(&left, &right), same, "{left} == {right}");
            assert_eq!(equal(&right, &left), same, "{right} == {left}");
        }
    }
}
