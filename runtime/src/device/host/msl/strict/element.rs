//! A component of a vector has no address (MSL 2.2): no pointer or reference to `v.x`.

use std::ops::Range;

use super::super::lex::matching;
use super::names::{Held, Scope, globals, parameter_declarator, split};
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "element";

/// Functions of the standard library whose second argument is written to.
const WRITING: [&str; 3] = ["modf", "frexp", "sincos"];

/// Refuses pointers and writable references to components of vectors.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    let globals = globals(source);
    for function in &source.outline.functions {
        let Some(body) = &function.body else { continue };
        let scope = Scope::of(source, function, body, &globals);
        for at in body.clone() {
            address(&scope, at, body.end, findings);
            call(&scope, at, findings);
        }
    }
}

/// Index behind the vector component at `at`: `v.x`, `v[i]`, `p[i].x`; `None` if none is there.
fn component_end(scope: &Scope<'_, '_>, at: usize) -> Option<usize> {
    let tokens = scope.source.tokens;
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.is(text));
    let mut behind = at + 1;
    match scope.held(at)? {
        Held::Pointer(to) if to.vector && is(behind, "[") => {
            behind = matching(tokens, behind)? + 1;
        }
        Held::Object(object) if object.vector => {}
        _ => return None,
    }
    if is(behind, "[") {
        return Some(matching(tokens, behind)? + 1);
    }
    let letters = ["x", "y", "z", "w", "r", "g", "b", "a"];
    let component = tokens.get(behind + 1).is_some_and(|token| letters.contains(&token.text));
    (is(behind, ".") && component).then_some(behind + 2)
}

/// clang: "address of vector element requested".
fn address(scope: &Scope<'_, '_>, at: usize, end: usize, findings: &mut Findings) {
    let tokens = scope.source.tokens;
    let unary = ["(", ",", "=", "{", "[", "return", "?", ":", ";"];
    if !tokens[at].is("&") || !unary.iter().any(|text| tokens[at - 1].is(text)) {
        return;
    }
    if component_end(scope, at + 1).is_some_and(|behind| behind <= end) {
        let message = format!(
            "address of vector element requested: copy the component of `{}` to a variable",
            tokens[at + 1].text
        );
        findings.add(RULE, &tokens[at], message);
    }
}

/// clang: "non-const reference cannot bind to vector element".
fn call(scope: &Scope<'_, '_>, at: usize, findings: &mut Findings) {
    let tokens = scope.source.tokens;
    let token = &tokens[at];
    let member = at > 0 && (tokens[at - 1].is(".") || tokens[at - 1].is("->"));
    let opens = tokens.get(at + 1).is_some_and(|next| next.is("("));
    if !token.is_ident() || !opens || member || scope.held(at).is_some() {
        return;
    }
    let Some(close) = matching(tokens, at + 1) else { return };
    for (position, argument) in split(tokens, at + 2..close).into_iter().enumerate() {
        if component_end(scope, argument.start) == Some(argument.end)
            && writes(scope, token.text, position)
        {
            let message = format!(
                "non-const reference cannot bind to vector element: give `{}` a variable and \
                 copy it to the component of `{}`",
                token.text, tokens[argument.start].text
            );
            findings.add(RULE, &tokens[argument.start], message);
        }
    }
}

/// Whether every function of that name takes a writable reference at `position`.
fn writes(scope: &Scope<'_, '_>, name: &str, position: usize) -> bool {
    let outline = &scope.source.outline;
    match outline.by_name.get(name) {
        None => WRITING.contains(&name) && position == 1,
        Some(candidates) => candidates.iter().all(|&index| {
            let parameter = outline.functions[index].parameters.get(position);
            parameter.is_some_and(|range| is_writable_reference(scope.source, range))
        }),
    }
}

fn is_writable_reference(source: &Source<'_>, range: &Range<usize>) -> bool {
    let tokens = &source.tokens[range.clone()];
    let named = parameter_declarator(source, range);
    matches!(named.map(|d| d.held), Some(Held::Object(_)))
        && tokens.iter().any(|token| token.is("&"))
        && !tokens.iter().any(|token| token.is("const") || token.is("constant"))
}
