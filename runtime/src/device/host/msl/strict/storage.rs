//! Where variables may live (MSL 4): program scope is `constant`, `threadgroup` variables belong
//! to kernels, other address spaces are for what pointers point at.

use std::ops::Range;

use super::super::lex::Token;
use super::outline::{Function, Variable};
use super::specifiers::{Specifiers, local_record, starts_statement};
use super::words::is_builtin_type;
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "storage";

/// Refuses variables, members and parameters where Metal has no storage for them.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    for variable in &source.outline.variables {
        if variable.member {
            member(source, variable, findings);
        } else {
            program_scope(source, variable, findings);
        }
    }
    for function in &source.outline.functions {
        for parameter in &function.parameters {
            by_value(source, parameter.clone(), findings);
        }
        if let Some(body) = &function.body {
            locals(source, function, body.clone(), findings);
        }
    }
}

/// Apple: "program scope variable must reside in constant address space".
fn program_scope(source: &Source<'_>, variable: &Variable, findings: &mut Findings) {
    let tokens = source.tokens;
    let range = &variable.range;
    let Some(specifiers) = Specifiers::read(tokens, range) else { return };
    if variable.template || !specifiers.is_object(tokens) {
        return;
    }
    let name = &tokens[specifiers.declarator];
    let type_words = &tokens[specifiers.type_at..specifiers.declarator];
    if type_words.iter().any(|token| token.is("sampler")) {
        return;
    }
    let space = specifiers.space.map(|at| tokens[at].text);
    if space != Some("constant") {
        let what = if specifiers.is_extern { "extern" } else { "program scope" };
        findings.add(
            RULE,
            name,
            format!(
                "{what} variable must reside in constant address space: write `constant` before \
                 the type of `{0}`, or pass `{0}` as a kernel argument",
                name.text
            ),
        );
        return;
    }
    let words = &tokens[specifiers.declarator..range.end];
    let initialised = words.iter().any(|token| {
        token.is("=") || token.is("{") || token.is("(") || token.is("function_constant")
    });
    if !initialised && !specifiers.is_extern && is_builtin_type(&tokens[specifiers.type_at]) {
        findings.add(
            RULE,
            name,
            format!(
                "variable in constant address space must be initialized: give `{0}` a value, or \
                 make it a function constant (`constant T {0} [[function_constant(0)]];`)",
                name.text
            ),
        );
    }
}

/// Members: a static one is a program-scope variable, another one lives where its record lives.
fn member(source: &Source<'_>, variable: &Variable, findings: &mut Findings) {
    let tokens = source.tokens;
    let Some(specifiers) = Specifiers::read(tokens, &variable.range) else { return };
    if !specifiers.is_object(tokens) {
        return;
    }
    let name = &tokens[specifiers.declarator];
    match (specifiers.is_static, specifiers.space) {
        (Some(_), None) if is_builtin_type(&tokens[specifiers.type_at]) => findings.add(
            RULE,
            name,
            format!(
                "program scope variable must reside in constant address space: write `static \
                 constant constexpr` for the member `{}`",
                name.text
            ),
        ),
        (None, Some(space)) if tokens[space].text != "thread" => findings.add(
            RULE,
            name,
            format!(
                "field may not be qualified with an address space: leave out `{}`, or make `{}` \
                 a pointer",
                tokens[space].text, name.text
            ),
        ),
        _ => {}
    }
}

/// Apple: "parameter may not be qualified with an address space".
fn by_value(source: &Source<'_>, range: Range<usize>, findings: &mut Findings) {
    let tokens = source.tokens;
    let Some(specifiers) = Specifiers::read(&tokens[..range.end], &range) else { return };
    let Some(space) = specifiers.space.filter(|&at| tokens[at].text != "thread") else { return };
    let name = &tokens[specifiers.declarator];
    let next = tokens[..range.end].get(specifiers.declarator + 1);
    let plain = next.is_none_or(|next| next.is("=") || attribute(tokens, next));
    if name.is_ident() && plain {
        findings.add(
            RULE,
            name,
            format!(
                "parameter may not be qualified with an address space: make `{}` a pointer or \
                 reference, or leave out `{}`",
                name.text, tokens[space].text
            ),
        );
    }
}

fn attribute(tokens: &[Token<'_>], token: &Token<'_>) -> bool {
    let at = tokens.partition_point(|other| other.offset < token.offset);
    token.is("[") && tokens.get(at + 1).is_some_and(|next| next.is("["))
}

/// Variables of a function.
fn locals(
    source: &Source<'_>,
    function: &Function<'_>,
    body: Range<usize>,
    findings: &mut Findings,
) {
    let tokens = source.tokens;
    let mut at = body.start;
    while at < body.end {
        if let Some(behind) = local_record(tokens, at) {
            at = behind;
            continue;
        }
        if starts_statement(tokens, &body, at) {
            local(source, function, at..body.end, findings);
        }
        at += 1;
    }
}

/// The declaration (if it is one) at the start of `range`.
fn local(
    source: &Source<'_>,
    function: &Function<'_>,
    range: Range<usize>,
    findings: &mut Findings,
) {
    let tokens = source.tokens;
    let Some(specifiers) = Specifiers::read(tokens, &range) else { return };
    if let Some(at) = specifiers.is_static {
        // Apple: "variables in function scope cannot be declared static".
        findings.add(
            RULE,
            &tokens[at],
            "variables in function scope cannot be declared static: leave out `static`, or move \
             the variable to program scope as `constant`",
        );
        return;
    }
    let Some(space) = specifiers.space else { return };
    if !specifiers.is_object(tokens) {
        return;
    }
    let name = tokens[specifiers.declarator].text;
    match tokens[space].text {
        "thread" => {}
        "threadgroup" if function.stage.is_none() => findings.add(
            RULE,
            &tokens[space],
            format!(
                "variables in the threadgroup address space cannot be declared in a \
                 non-qualified function: declare `{name}` in the kernel and pass a `threadgroup` \
                 pointer to `{}`",
                function.name
            ),
        ),
        "device" => findings.add(
            RULE,
            &tokens[space],
            format!(
                "automatic variable qualified with an address space: leave out `device`, or make \
                 `{name}` a pointer"
            ),
        ),
        _ => {}
    }
}
