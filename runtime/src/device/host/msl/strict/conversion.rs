//! Pointers do not convert from one address space to another (MSL 4), not even by a cast.
//!
//! To the host's C++ all memory is one, so it cannot tell. The rule follows names: it knows the
//! address space of parameters, of local and of program-scope variables, and of plain expressions
//! of them (`p`, `p + i`, `&p[i]`, `&x`). Of anything else it knows nothing and says nothing.

use std::ops::Range;

use super::super::lex::{Token, matching, matching_angle};
use super::names::{
    Held, Scope, declarators, end_of, globals, parameter_declarator, split, statements,
};
use super::outline::Function;
use super::specifiers::starts_statement;
use super::words::is_address_space;
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "conversion";

/// Refuses pointers that change their address space.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    let globals = globals(source);
    for function in &source.outline.functions {
        let Some(body) = &function.body else { continue };
        let scope = Scope::of(source, function, body, &globals);
        declarations(&scope, body, findings);
        for at in body.clone() {
            assignment(&scope, body, at, findings);
            cast(&scope, at, findings);
            call(&scope, at, findings);
        }
    }
}

/// What plain expressions point into.
impl<'a> Scope<'_, 'a> {
    /// The address space that the expression in `range` points into.
    fn points_into(&self, range: &Range<usize>) -> Option<&'a str> {
        let tokens = self.source.tokens;
        let address = tokens.get(range.start)?.is("&");
        let name = range.start + usize::from(address);
        let mut at = name + 1;
        let space = match self.held(name).filter(|_| name < range.end)? {
            Held::Pointer(to) if !address => to.space,
            Held::Pointer(to) => {
                // `&p[i]`
                let open = tokens.get(at).filter(|next| next.is("["))?;
                at = matching(tokens, at).filter(|_| open.is("["))? + 1;
                to.space
            }
            Held::Object(object) if address => object.space,
            _ => return None,
        };
        while address && at + 1 < range.end && tokens[at].is(".") {
            at += 2;
        }
        // Behind it, only what is added to a pointer.
        if at >= range.end {
            return Some(space);
        }
        let sum = tokens[at].is("+");
        let other =
            ["-", "?", ":", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "&", "|", "=", ","];
        let stop = end_of(tokens, at, range.end, &other);
        (sum && stop == range.end).then_some(space)
    }

    /// The address space of the object that the expression in `range` is: `x`, `p[i]`.
    fn lies_in(&self, range: &Range<usize>) -> Option<&'a str> {
        let tokens = self.source.tokens;
        match (self.held(range.start)?, range.len()) {
            (Held::Object(object), 1) => Some(object.space),
            (Held::Pointer(to), 4..) if tokens[range.start + 1].is("[") => {
                let close = matching(tokens, range.start + 1)?;
                (close + 1 == range.end).then_some(to.space)
            }
            _ => None,
        }
    }
}

/// `device float* q = p;` where `p` points elsewhere.
fn declarations(scope: &Scope<'_, '_>, body: &Range<usize>, findings: &mut Findings) {
    let source = scope.source;
    for at in statements(source.tokens, body) {
        for declarator in declarators(source, at..body.end) {
            let (Held::Pointer(to), Some(value)) = (declarator.held, declarator.value) else {
                continue;
            };
            complain_if_moved(scope, declarator.name, to.space, &value, findings);
        }
    }
}

/// `q = p;` where they point into different memory.
fn assignment(scope: &Scope<'_, '_>, body: &Range<usize>, at: usize, findings: &mut Findings) {
    let tokens = scope.source.tokens;
    if !starts_statement(tokens, body, at) || !tokens.get(at + 1).is_some_and(|t| t.is("=")) {
        return;
    }
    if let Some(Held::Pointer(to)) = scope.held(at) {
        let end = end_of(tokens, at + 2, body.end, &[";", ","]);
        complain_if_moved(scope, &tokens[at], to.space, &(at + 2..end), findings);
    }
}

/// Apple: "cannot initialize a variable of type 'device float *' with an lvalue of type
/// 'constant float *'", "assigning ... changes address space of pointer".
fn complain_if_moved(
    scope: &Scope<'_, '_>,
    name: &Token<'_>,
    to: &str,
    value: &Range<usize>,
    findings: &mut Findings,
) {
    if let Some(from) = scope.points_into(value).filter(|from| *from != to) {
        let message = format!(
            "`{}` points to {to} memory and cannot take a pointer to {from} memory: declare it \
             `{from}`",
            name.text
        );
        findings.add(RULE, name, message);
    }
}

/// Apple: "C-style cast from 'int *' to 'device int *' converts between mismatching address
/// spaces", "reinterpret_cast from 'int *' to 'device int *' is not allowed".
fn cast(scope: &Scope<'_, '_>, at: usize, findings: &mut Findings) {
    let tokens = scope.source.tokens;
    let token = &tokens[at];
    let (inside, operand) = if token.is("(") {
        let Some(close) = matching(tokens, at) else { return };
        let end = if tokens.get(close + 1).is_some_and(|next| next.is("&")) { 3 } else { 2 };
        // The operand must end with the name: `(T*)p;`, not `(T*)p[1]`.
        let ends = tokens
            .get(close + end)
            .is_some_and(|next| [";", ",", ")", "+"].iter().any(|text| next.is(text)));
        if !ends {
            return;
        }
        (at + 1..close, close + 1..close + end)
    } else if token.is("reinterpret_cast") || token.is("static_cast") {
        if !tokens.get(at + 1).is_some_and(|next| next.is("<")) {
            return;
        }
        let Some(close) = matching_angle(tokens, at + 1) else { return };
        let Some(end) = matching(tokens, close + 1).filter(|_| tokens[close + 1].is("(")) else {
            return;
        };
        (at + 2..close, close + 2..end)
    } else {
        return;
    };
    let words = &tokens[inside];
    let pointer = words.last().is_some_and(|last| last.is("*"))
        && words.iter().filter(|word| word.is("*")).count() == 1;
    let plain = words
        .iter()
        .all(|word| word.is_ident() || ["*", "::", "<", ">", ","].iter().any(|text| word.is(text)));
    let Some(to) = words.iter().find(|word| is_address_space(word)) else { return };
    if !pointer || !plain {
        return;
    }
    if let Some(from) = scope.points_into(&operand).filter(|from| *from != to.text) {
        let message = format!(
            "cast from a pointer to {from} memory to one to {} memory: the address space cannot \
             be cast; cast to `{from}` or copy the values",
            to.text
        );
        findings.add(RULE, token, message);
    }
}

/// A call none of whose candidates takes a pointer to that memory. Apple: "no matching function
/// for call to 'f'".
fn call(scope: &Scope<'_, '_>, at: usize, findings: &mut Findings) {
    let tokens = scope.source.tokens;
    let token = &tokens[at];
    let opens = tokens.get(at + 1).is_some_and(|next| next.is("("));
    let member = at > 0 && (tokens[at - 1].is(".") || tokens[at - 1].is("->"));
    if !token.is_ident() || !opens || member || scope.held(at).is_some() {
        return;
    }
    let Some(candidates) = scope.source.outline.by_name.get(token.text) else { return };
    let Some(close) = matching(tokens, at + 1) else { return };
    for (position, argument) in split(tokens, at + 2..close).into_iter().enumerate() {
        let mut wanted = Vec::new();
        let fits = candidates.iter().any(|&index| {
            let function = &scope.source.outline.functions[index];
            takes(scope, function, position, &argument, &mut wanted)
        });
        if let (false, Some((wanted, from))) = (fits, wanted.first()) {
            let message = format!(
                "no matching function for call to '{}': its argument {} is in {wanted} memory, \
                 this one in {from} memory; overload it or copy the value",
                token.text,
                position + 1
            );
            findings.add(RULE, &tokens[argument.start], message);
        }
    }
}

/// Whether `function` takes `argument` at `position`, as far as one can tell. If not, notes the
/// address spaces that it wants and that it would get.
fn takes<'a>(
    scope: &Scope<'_, 'a>,
    function: &Function<'a>,
    position: usize,
    argument: &Range<usize>,
    wanted: &mut Vec<(&'a str, &'a str)>,
) -> bool {
    let source = scope.source;
    let Some(range) = function.parameters.get(position) else { return true };
    let Some(declarator) = parameter_declarator(source, range) else { return true };
    let tokens = &source.tokens[range.clone()];
    let reference = tokens.iter().any(|token| token.is("&"));
    let (to, from) = match declarator.held {
        Held::Pointer(to) => (to.space, scope.points_into(argument)),
        // A reference to const may take a copy.
        Held::Object(to) if reference && !tokens.iter().any(|token| token.is("const")) => {
            (to.space, scope.lies_in(argument))
        }
        _ => return true,
    };
    match from {
        Some(from) if from != to => {
            wanted.push((to, from));
            false
        }
        _ => true,
    }
}
