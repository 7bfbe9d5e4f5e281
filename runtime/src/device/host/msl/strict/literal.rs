//! Forms of numbers (MSL 2.1): `1.0`, `1.0f`, `1.0h`, `1.0bf` are; `1.0L`, `1h` are not.

use super::super::lex::Kind;
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "literal";

/// Refuses `long double` literals and whole numbers with a suffix of floating-point numbers.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    for token in source.tokens.iter().filter(|token| token.kind == Kind::Number) {
        let text = token.text;
        if text.starts_with("0x") || text.starts_with("0X") || text.starts_with("0b") {
            continue;
        }
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let suffix = &text[digits.len()..];
        // `1e5` has its exponent in `digits`; `1e` is clang's to refuse.
        let whole = digits.bytes().all(|b| b.is_ascii_digit() || b == b'\'');
        match suffix {
            "l" | "L" if !whole => findings.add(
                RULE,
                token,
                format!("'long double' is not supported in Metal: write `{digits}`, a float"),
            ),
            "f" | "F" | "h" | "H" | "bf" | "BF" if whole => findings.add(
                RULE,
                token,
                format!(
                    "invalid suffix '{suffix}' on integer constant: write `{digits}.0{suffix}`"
                ),
            ),
            _ => {}
        }
    }
}
