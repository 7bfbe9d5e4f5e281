//! Kernels as functions (MSL 5.1): `void`, not overloaded, not members, not called by others.

use std::collections::HashMap;

use super::outline::{Function, Stage};
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "kernel";

/// Refuses kernels of shapes that Metal does not know, and functions called `main`.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    for function in &source.outline.functions {
        main(source, function, findings);
        if function.stage == Some(Stage::Kernel) {
            shape(source, function, findings);
        }
    }
    overloads(source, findings);
    calls(source, findings);
}

/// Apple: "non-qualified function cannot be called 'main'"; MSL 1.5.4 for all others.
fn main(source: &Source<'_>, function: &Function<'_>, findings: &mut Findings) {
    if function.path == "main" {
        let token = &source.tokens[function.name_at];
        findings.add(RULE, token, "a Metal function cannot be called 'main': rename it");
    }
}

fn shape(source: &Source<'_>, function: &Function<'_>, findings: &mut Findings) {
    let token = &source.tokens[function.name_at];
    if function.record.is_some() {
        let message = format!(
            "a kernel cannot be a member function: move `{}` out of its record",
            function.name
        );
        findings.add(RULE, token, message);
    }
    let before = function.name_at.checked_sub(1).map(|i| &source.tokens[i]);
    // `::` is part of a qualified name; a macro or attribute may stand in between, too.
    if let Some(kind) = before.filter(|t| !t.is("void") && !t.is("]") && !t.is(")") && !t.is("::"))
    {
        // Apple: "invalid return type 'int' for kernel function".
        let message = format!(
            "invalid return type '{}' for kernel function: return void and write to a `device` \
             argument",
            kind.text
        );
        findings.add(RULE, token, message);
    }
    let tail = function.tail.clone().map(|i| &source.tokens[i]);
    if let Some(token) = tail.into_iter().find(|token| token.is("noexcept")) {
        // Functions that are no entry points may have it.
        findings.add(RULE, token, "'noexcept' is not supported on a kernel: leave the word out");
    }
    for parameter in &function.parameters {
        if parameter.clone().any(|i| source.tokens[i].is("...")) && !function.template {
            findings.add(RULE, token, "a kernel cannot take a variable number of arguments");
        }
    }
}

/// MSL 1.5.1: kernels cannot be overloaded.
fn overloads(source: &Source<'_>, findings: &mut Findings) {
    let mut seen: HashMap<&str, &Function<'_>> = HashMap::new();
    for function in &source.outline.functions {
        if function.stage != Some(Stage::Kernel) || function.template || function.body.is_none() {
            continue;
        }
        if let Some(first) = seen.insert(&function.path, function) {
            let line = source.tokens[first.name_at].line;
            let message = format!(
                "kernels cannot be overloaded: `{}` is already defined in line {line}",
                function.path
            );
            findings.add(RULE, &source.tokens[function.name_at], message);
        }
    }
}

/// MSL 5.1: an entry point calls no entry point; nor can any other function.
fn calls(source: &Source<'_>, findings: &mut Findings) {
    let functions = &source.outline.functions;
    let is_kernel = |name: &str| {
        let mut all = functions.iter().filter(|f| f.name == name).peekable();
        all.peek().is_some() && all.all(|f| f.stage == Some(Stage::Kernel))
    };
    for function in functions {
        let Some(body) = &function.body else { continue };
        for at in body.clone() {
            let tokens = source.tokens;
            let called = tokens[at].is_ident()
                && tokens.get(at + 1).is_some_and(|next| next.is("("))
                && [";", "{", "}", ")", "else"].iter().any(|text| tokens[at - 1].is(text));
            if called && is_kernel(tokens[at].text) {
                let message = format!(
                    "a kernel cannot be called: move the work of `{}` into a function without \
                     `kernel`",
                    tokens[at].text
                );
                findings.add(RULE, &tokens[at], message);
            }
        }
    }
}
