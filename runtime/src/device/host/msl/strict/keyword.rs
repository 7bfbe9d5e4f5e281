//! C++ that Metal does not have at all: MSL 1.5.4 (restrictions) and 2.1 (types).

use super::super::lex::Token;
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "keyword";

/// Words that no valid shader contains, and what to do instead.
const REFUSED: [(&str, &str); 19] = [
    ("goto", "use `break`, `continue`, `return` or a flag"),
    ("asm", "write it in MSL"),
    ("__asm", "write it in MSL"),
    ("__asm__", "write it in MSL"),
    ("register", "leave the word out"),
    ("thread_local", "declare the variable in the function: each thread has its own"),
    ("try", "return an error value"),
    ("catch", "return an error value"),
    ("throw", "return an error value"),
    ("new", "take memory from the kernel's arguments"),
    ("delete", "leave it out: nothing was allocated"),
    ("virtual", "use a template parameter"),
    ("dynamic_cast", "use `static_cast` or a template parameter"),
    ("typeid", "use `is_same`"),
    ("double", "use `float`"),
    ("co_await", "write a loop"),
    ("co_yield", "write a loop"),
    ("co_return", "write a loop"),
    ("wchar_t", "use `char` or `ushort`"),
];

/// Refuses words, types and labels that Metal does not have.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    let own_std = namespace_std(source.tokens);
    for (at, token) in source.tokens.iter().enumerate() {
        if !token.is_ident() {
            continue;
        }
        let before = at.checked_sub(1).map(|i| &source.tokens[i]);
        let after = source.tokens.get(at + 1);
        if before.is_some_and(|t| t.is(".") || t.is("->")) {
            continue;
        }
        if token.text == "long" && !before.is_some_and(|t| t.is("long")) {
            long(token, after, findings);
        } else if token.text == "double" && before.is_some_and(|t| t.is("long")) {
            // Already refused as `long double`.
        } else if token.text == "std" && after.is_some_and(|t| t.is("::")) && !own_std {
            findings.add(RULE, token, "Metal has no namespace `std`: use `metal::`");
        } else if let Some((word, instead)) = REFUSED.iter().find(|(word, _)| *word == token.text) {
            let deleted = *word == "delete" && before.is_some_and(|t| t.is("="));
            if !deleted {
                // Apple: "'goto' is not supported in Metal".
                findings.add(RULE, token, format!("'{word}' is not supported in Metal: {instead}"));
            }
        }
    }
    labels(source, findings);
}

/// `long double` and `long long`. (A `long` of 64 bits is fine.)
fn long(token: &Token<'_>, after: Option<&Token<'_>>, findings: &mut Findings) {
    let (name, instead) = match after {
        Some(next) if next.is("double") => ("long double", "use `float`"),
        Some(next) if next.is("long") => ("long long", "use `long`, which has 64 bits"),
        _ => return,
    };
    findings.add(RULE, token, format!("'{name}' is not supported in Metal: {instead}"));
}

/// Whether the shader defines `namespace std` itself.
fn namespace_std(tokens: &[Token<'_>]) -> bool {
    tokens.windows(2).any(|pair| pair[0].is("namespace") && pair[1].is("std"))
}

/// `name:` at the start of a statement. Apple: "labeled statements are not supported in Metal".
fn labels(source: &Source<'_>, findings: &mut Findings) {
    let bodies = source.outline.functions.iter().filter_map(|f| f.body.clone());
    for window in bodies.flat_map(|body| source.tokens[body].windows(3)) {
        let [before, name, colon] = window else { continue };
        let starts = before.is(";") || before.is("{") || before.is("}");
        let other = ["default", "public", "private", "protected"];
        if starts && name.is_ident() && colon.is(":") && !other.contains(&name.text) {
            findings.add(
                RULE,
                name,
                format!("labeled statements are not supported in Metal: remove `{}:`", name.text),
            );
        }
    }
}
