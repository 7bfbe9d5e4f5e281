//! Every pointer and reference names the address space of what it points at (MSL 4).
//!
//! Of `device float**` and `device float*&` only the inner pointer needs one: what is outside is
//! in the thread's memory, and Metal knows.

use super::super::lex::Token;
use super::words::{
    is_address_space, is_builtin_type, is_qualifier, skip_arguments, skip_attribute,
};
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "address-space";

/// Tokens of an attribute before a type beyond which nothing is looked for.
const LONGEST_ATTRIBUTE: usize = 16;

/// Refuses pointers and references without an address space, or with two.
///
/// Looks at pointers to scalars, vectors, `void` and the shader's own records: `float *` is a
/// pointer wherever it stands. A pointer to a template parameter may have got its address space
/// with the argument.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    let tokens = source.tokens;
    for at in 0..tokens.len() {
        let Some(behind) = type_end(source, at) else { continue };
        let mut spaces = spaces_before(tokens, at);
        let mut i = behind;
        while let Some(token) = tokens.get(i) {
            if is_address_space(token) {
                spaces.push(i);
            } else if token.is("*") || token.is("&") || token.is("&&") {
                judge(source, &tokens[at], i, &spaces, findings);
                break;
            } else if !is_qualifier(token) && !["signed", "unsigned", "int"].contains(&token.text) {
                break;
            }
            i += 1;
        }
    }
}

/// Complains about the `*` or `&` at `at`, whose pointee has the address spaces at `spaces`.
fn judge(
    source: &Source<'_>,
    pointee: &Token<'_>,
    at: usize,
    spaces: &[usize],
    findings: &mut Findings,
) {
    let token = &source.tokens[at];
    if spaces.is_empty() {
        // Apple: "pointer type must have explicit address space qualifier".
        let kind = if token.is("*") { "pointer" } else { "reference" };
        let message = format!(
            "{kind} type must have explicit address space qualifier: write `device`, \
             `constant`, `threadgroup` or `thread` before `{}`",
            pointee.text
        );
        findings.add(RULE, token, message);
        return;
    }
    // `thread` beside another one is harmless.
    let mut named = spaces.iter().map(|&i| &source.tokens[i]).filter(|t| !t.is("thread"));
    if let (Some(first), Some(last)) = (named.next(), named.next_back())
        && first.text != last.text
    {
        let message = format!(
            "multiple address spaces specified for type: keep `{}` or `{}`",
            first.text, last.text
        );
        findings.add(RULE, last, message);
    }
}

/// Index behind the type whose name is at `at`; `None` if no type that this rule knows is there.
fn type_end(source: &Source<'_>, at: usize) -> Option<usize> {
    let tokens = source.tokens;
    let token = &tokens[at];
    let before = at.checked_sub(1).map(|i| &tokens[i]);
    if before.is_some_and(|t| t.is(".") || t.is("->")) {
        return None;
    }
    if is_builtin_type(token) {
        let qualified = before.is_some_and(|t| t.is("::"));
        let ours = at < 2 || tokens[at - 2].is("metal") || !tokens[at - 2].is_ident();
        return (!qualified || ours).then_some(at + 1);
    }
    let record = token.is_ident() && source.outline.records.contains(token.text);
    if !record || before.is_some_and(|t| t.is("::") || t.is("typename") || t.is("operator")) {
        return None;
    }
    let behind = skip_arguments(tokens, at + 1);
    // `S * x` could multiply a variable that hides the record; a declaration ends otherwise.
    let declares = tokens.get(behind + 1).is_some_and(|name| {
        name.is_ident()
            && tokens
                .get(behind + 2)
                .is_some_and(|next| [")", ",", "=", ";", "{", "["].iter().any(|text| next.is(text)))
    });
    let starts = before.is_some_and(|t| {
        is_qualifier(t) || ["(", ",", ";", "{", "}", "]"].iter().any(|text| t.is(text))
    });
    (declares && starts).then_some(behind)
}

/// The address spaces among the words before the type name at `at`.
fn spaces_before(tokens: &[Token<'_>], at: usize) -> Vec<usize> {
    let mut spaces = Vec::new();
    let mut i = at;
    while let Some(before) = i.checked_sub(1) {
        let token = &tokens[before];
        if is_address_space(token) {
            spaces.push(before);
        } else if token.is(")") || token.is("]") {
            // `coherent(device) float`, `[[maybe_unused]] float`
            let near = before.saturating_sub(LONGEST_ATTRIBUTE)..before;
            match near.rev().find(|&k| skip_attribute(tokens, k) == Some(i)) {
                Some(start) => {
                    i = start;
                    continue;
                }
                None => break,
            }
        } else if !is_qualifier(token)
            && !["::", "metal", "unsigned", "signed", "long", "short"].contains(&token.text)
        {
            break;
        }
        i = before;
    }
    spaces.reverse();
    spaces
}
