//! Pointers do not convert from one address space to another (MSL 4), not even by a cast.
//!
//! To the host's C++ all memory is one, so it cannot tell. The rule follows names: it knows the
//! address space of parameters, of local and of program-scope variables, and of plain expressions
//! of them (`p`, `p + i`, `&p[i]`, `&x`). Of anything else it knows nothing and says nothing.

use std::collections::HashMap;
use std::ops::Range;

use super::super::lex::{Token, attribute_end, matching, matching_angle};
use super::outline::Function;
use super::specifiers::{Specifiers, local_record, starts_statement};
use super::words::{is_address_space, is_qualifier};
use super::{Findings, Source};

/// The rule's name in messages.
const RULE: &str = "conversion";

/// Refuses pointers that change their address space.
pub(super) fn check(source: &Source<'_>, findings: &mut Findings) {
    let globals = globals(source);
    for function in &source.outline.functions {
        let Some(body) = &function.body else { continue };
        let names = names(source, function, body, &globals);
        let scope = Scope { source, names };
        declarations(&scope, body, findings);
        for at in body.clone() {
            assignment(&scope, body, at, findings);
            cast(&scope, at, findings);
            call(&scope, at, findings);
        }
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held<'a> {
    /// A pointer into this address space, or an array in it.
    Pointer(&'a str),
    /// An object in this address space that is no pointer.
    Object(&'a str),
    /// Something that this rule does not know.
    Unknown,
}

/// A function's names and what they stand for.
struct Scope<'s, 'a> {
    source: &'s Source<'a>,
    names: HashMap<&'a str, Held<'a>>,
}

/// One declarator: `*p`, `a[4]`, `&r`.
struct Declarator<'a> {
    name: &'a Token<'a>,
    held: Held<'a>,
    /// Tokens of the initialiser behind `=`.
    value: Option<Range<usize>>,
}

/// The declarator in `range` of a declaration with address space `space` (none written: `None`).
fn declarator<'a>(
    tokens: &'a [Token<'a>],
    space: Option<&'a str>,
    is_auto: bool,
    range: Range<usize>,
) -> Option<Declarator<'a>> {
    let mut stars = 0;
    let mut reference = false;
    let mut at = range.start;
    while at < range.end {
        let token = &tokens[at];
        if token.is("*") {
            stars += 1;
        } else if token.is("&") || token.is("&&") {
            reference = true;
        } else if !is_qualifier(token) {
            break;
        }
        at += 1;
    }
    let name = tokens[..range.end].get(at).filter(|token| token.is_ident())?;
    let array = tokens[..range.end].get(at + 1).is_some_and(|next| next.is("["))
        && attribute_end(tokens, at + 1).is_none();
    let held = match (stars, reference, array) {
        _ if is_auto && (stars > 0 || reference) => Held::Unknown,
        (0, false, false) => Held::Object(space.unwrap_or("thread")),
        (0, false, true) => Held::Pointer(space.unwrap_or("thread")),
        (0, true, false) => space.map_or(Held::Unknown, Held::Object),
        (1, false, false) => space.map_or(Held::Unknown, Held::Pointer),
        _ => Held::Unknown,
    };
    let equals = (at..range.end).find(|&i| tokens[i].is("="));
    Some(Declarator { name, held, value: equals.map(|i| i + 1..range.end) })
}

/// The declarators of the declaration at `range.start`; none if there is no declaration.
fn declarators<'a>(source: &Source<'a>, range: Range<usize>) -> Vec<Declarator<'a>> {
    let tokens = source.tokens;
    let Some(specifiers) = Specifiers::read(tokens, &range) else { return Vec::new() };
    let first = &tokens[specifiers.declarator];
    let begins = first.is_ident() || first.is("*") || first.is("&") || first.is("&&");
    // `a * b;` and `return x;` are no declarations.
    let word = tokens[specifiers.type_at].text;
    if !begins || ["return", "else", "case", "delete", "goto", "throw", "using"].contains(&word) {
        return Vec::new();
    }
    let is_auto = word == "auto" || word == "decltype";
    let space = specifiers.space.map(|at| tokens[at].text);
    let end = end_of(tokens, specifiers.declarator, range.end, &[";", ":"]);
    let parts = split(tokens, specifiers.declarator..end);
    parts.into_iter().filter_map(|part| declarator(tokens, space, is_auto, part)).collect()
}

/// Index of the first of `stops` behind `at` outside brackets.
fn end_of(tokens: &[Token<'_>], at: usize, end: usize, stops: &[&str]) -> usize {
    let mut i = at;
    while i < end {
        let token = &tokens[i];
        if stops.iter().any(|stop| token.is(stop)) || [")", "]", "}"].iter().any(|t| token.is(t)) {
            return i;
        }
        i = match token.text {
            "(" | "[" | "{" => matching(tokens, i).map_or(end, |close| close + 1),
            _ => i + 1,
        };
    }
    end
}

/// The parts of `range` between commas.
fn split(tokens: &[Token<'_>], range: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    let mut at = range.start;
    while at < range.end {
        let angle = tokens[at].is("<") && at > 0 && tokens[at - 1].is_ident();
        if angle && let Some(close) = matching_angle(tokens, at) {
            at = close + 1;
            continue;
        }
        let stop = end_of(tokens, at, range.end, &[",", "<"]);
        if stop < range.end && tokens[stop].is("<") {
            at = if stop == at { stop + 1 } else { stop };
            continue;
        }
        if start < stop {
            parts.push(start..stop);
        }
        start = stop + 1;
        at = start;
    }
    if start < range.end {
        parts.push(start..range.end);
    }
    parts
}

/// Program-scope arrays and constants.
fn globals<'a>(source: &Source<'a>) -> HashMap<&'a str, Held<'a>> {
    let mut names = HashMap::new();
    for variable in source.outline.variables.iter().filter(|variable| !variable.member) {
        for declarator in declarators(source, variable.range.clone()) {
            note(&mut names, declarator.name.text, declarator.held);
        }
    }
    names
}

/// Notes a name; one with two meanings is unknown.
fn note<'a>(names: &mut HashMap<&'a str, Held<'a>>, name: &'a str, held: Held<'a>) {
    names
        .entry(name)
        .and_modify(|old| {
            if *old != held {
                *old = Held::Unknown
            }
        })
        .or_insert(held);
}

/// All names of a function: parameters, locals, and globals that no local hides.
fn names<'a>(
    source: &Source<'a>,
    function: &Function<'a>,
    body: &Range<usize>,
    globals: &HashMap<&'a str, Held<'a>>,
) -> HashMap<&'a str, Held<'a>> {
    let tokens = source.tokens;
    let mut names = HashMap::new();
    for parameter in &function.parameters {
        if let Some(declarator) = parameter_declarator(source, parameter) {
            note(&mut names, declarator.name.text, declarator.held);
        }
    }
    for at in statements(tokens, body) {
        for declarator in declarators(source, at..body.end) {
            note(&mut names, declarator.name.text, declarator.held);
        }
        // `auto [a, b] = f();`
        if tokens[at].is("auto") && tokens.get(at + 1).is_some_and(|next| next.is("[")) {
            let close = matching(tokens, at + 1).unwrap_or(at);
            for token in tokens[at..close].iter().filter(|token| token.is_ident()) {
                note(&mut names, token.text, Held::Unknown);
            }
        }
    }
    for (name, held) in globals {
        names.entry(name).or_insert(*held);
    }
    names
}

fn parameter_declarator<'a>(source: &Source<'a>, range: &Range<usize>) -> Option<Declarator<'a>> {
    let tokens = source.tokens;
    let specifiers = Specifiers::read(&tokens[..range.end], range)?;
    let space = specifiers.space.map(|at| tokens[at].text);
    let is_auto = tokens[specifiers.type_at].is("auto");
    declarator(tokens, space, is_auto, specifiers.declarator..range.end)
}

/// Where statements start, records defined in the function left out.
fn statements(tokens: &[Token<'_>], body: &Range<usize>) -> Vec<usize> {
    let mut list = Vec::new();
    let mut at = body.start;
    while at < body.end {
        if let Some(behind) = local_record(tokens, at) {
            at = behind;
            continue;
        }
        if starts_statement(tokens, body, at) {
            list.push(at);
        }
        at += 1;
    }
    list
}

impl<'a> Scope<'_, 'a> {
    /// What the name at `at` stands for; nothing for a member or a qualified name.
    fn held(&self, at: usize) -> Option<Held<'a>> {
        let tokens = self.source.tokens;
        let token = tokens.get(at).filter(|token| token.is_ident())?;
        let member = at > 0 && [".", "->", "::"].iter().any(|text| tokens[at - 1].is(text));
        if member { None } else { self.names.get(token.text).copied() }
    }

    /// The address space that the expression in `range` points into.
    fn points_into(&self, range: &Range<usize>) -> Option<&'a str> {
        let tokens = self.source.tokens;
        let address = tokens.get(range.start)?.is("&");
        let name = range.start + usize::from(address);
        let mut at = name + 1;
        let space = match self.held(name).filter(|_| name < range.end)? {
            Held::Pointer(space) if !address => space,
            Held::Pointer(space) => {
                // `&p[i]`
                let open = tokens.get(at).filter(|next| next.is("["))?;
                at = matching(tokens, at).filter(|_| open.is("["))? + 1;
                space
            }
            Held::Object(space) if address => space,
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
            (Held::Object(space), 1) => Some(space),
            (Held::Pointer(space), 4..) if tokens[range.start + 1].is("[") => {
                let close = matching(tokens, range.start + 1)?;
                (close + 1 == range.end).then_some(space)
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
            complain_if_moved(scope, declarator.name, to, &value, findings);
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
        complain_if_moved(scope, &tokens[at], to, &(at + 2..end), findings);
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
        Held::Pointer(to) => (to, scope.points_into(argument)),
        // A reference to const may take a copy.
        Held::Object(to) if reference && !tokens.iter().any(|token| token.is("const")) => {
            (to, scope.lies_in(argument))
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
