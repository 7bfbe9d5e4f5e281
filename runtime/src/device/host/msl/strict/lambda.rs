//! Lambda expressions: not available before Metal 3.2 (MSL 1.5.4).

use super::super::lex::{Kind, Token, matching};
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "lambda";

/// Refuses lambda expressions: macOS 14 has Metal 3.1.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    for (at, token) in source.tokens.iter().enumerate() {
        if token.is("[") && introduces_lambda(source.tokens, at) {
            // Apple: "lambda expressions are not supported in Metal".
            findings.add(
                RULE,
                token,
                "lambda expressions are not supported in Metal before 3.2: write a function, or \
                 a struct with operator()",
            );
        }
    }
}

/// Whether `[` stands where an expression starts and `](`, `]{` or `]<` follows.
fn introduces_lambda(tokens: &[Token<'_>], at: usize) -> bool {
    let expression = match at.checked_sub(1).map(|i| &tokens[i]) {
        None => false,
        Some(before) => match before.kind {
            Kind::Ident => matches!(before.text, "return" | "case" | "else" | "do"),
            Kind::Punct => !matches!(before.text, ")" | "]" | "[" | ">"),
            _ => false,
        },
    };
    let attribute = tokens.get(at + 1).is_some_and(|next| next.is("["));
    if !expression || attribute {
        return false;
    }
    let behind = matching(tokens, at).and_then(|close| tokens.get(close + 1));
    behind.is_some_and(|next| {
        ["(", "{", "<", "mutable", "->", "constexpr"].iter().any(|text| next.is(text))
    })
}
