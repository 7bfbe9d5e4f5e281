//! What the names in a function stand for: pointers and objects, and in which address space.

use std::collections::HashMap;
use std::ops::Range;

use super::super::lex::{Token, attribute_end, matching, matching_angle};
use super::Source;
use super::outline::Function;
use super::specifiers::{Specifiers, local_record, starts_statement};
use super::words::{components, is_qualifier};

/// What is stored somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored<'a> {
    /// Its address space.
    pub space: &'a str,
    /// Whether it is a vector (not a packed one).
    pub vector: bool,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held<'a> {
    /// A pointer to this, or an array of it.
    Pointer(Stored<'a>),
    /// An object that is no pointer.
    Object(Stored<'a>),
    /// Something that this rule does not know.
    Unknown,
}

/// One declarator: `*p`, `a[4]`, `&r`.
pub(super) struct Declarator<'a> {
    /// Its name.
    pub name: &'a Token<'a>,
    /// What the name stands for.
    pub held: Held<'a>,
    /// Tokens of the initialiser behind `=`.
    pub value: Option<Range<usize>>,
}

/// The declarator in `range` of a declaration that starts with `specifiers`.
fn declarator<'a>(
    tokens: &'a [Token<'a>],
    specifiers: &Specifiers,
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
    let type_words = &tokens[specifiers.type_at..specifiers.declarator];
    let is_auto = type_words.first().is_some_and(|word| word.is("auto") || word.is("decltype"));
    let vector = type_words.iter().any(|word| {
        !word.text.starts_with("packed_") && components(word.text).is_some_and(|n| n > 1)
    }) && !type_words.iter().any(|word| word.is("<"));
    let stored = |space| Stored { space, vector };
    let space = specifiers.space.map(|at| tokens[at].text);
    let held = match (stars, reference, array) {
        _ if is_auto && (stars > 0 || reference) => Held::Unknown,
        (0, false, false) => Held::Object(stored(space.unwrap_or("thread"))),
        (0, false, true) => Held::Pointer(stored(space.unwrap_or("thread"))),
        (0, true, false) => space.map_or(Held::Unknown, |space| Held::Object(stored(space))),
        (1, false, false) => space.map_or(Held::Unknown, |space| Held::Pointer(stored(space))),
        _ => Held::Unknown,
    };
    let equals = (at..range.end).find(|&i| tokens[i].is("="));
    Some(Declarator { name, held, value: equals.map(|i| i + 1..range.end) })
}

/// The declarators of the declaration at `range.start`; none if there is no declaration.
pub(super) fn declarators<'a>(source: &Source<'a>, range: Range<usize>) -> Vec<Declarator<'a>> {
    let tokens = source.tokens;
    let Some(specifiers) = Specifiers::read(tokens, &range) else { return Vec::new() };
    let first = &tokens[specifiers.declarator];
    let begins = first.is_ident() || first.is("*") || first.is("&") || first.is("&&");
    // `a * b;` and `return x;` are no declarations.
    let word = tokens[specifiers.type_at].text;
    if !begins || ["return", "else", "case", "delete", "goto", "throw", "using"].contains(&word) {
        return Vec::new();
    }
    let end = end_of(tokens, specifiers.declarator, range.end, &[";", ":"]);
    let parts = split(tokens, specifiers.declarator..end);
    parts.into_iter().filter_map(|part| declarator(tokens, &specifiers, part)).collect()
}

/// Index of the first of `stops` behind `at` outside brackets.
pub(super) fn end_of(tokens: &[Token<'_>], at: usize, end: usize, stops: &[&str]) -> usize {
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
pub(super) fn split(tokens: &[Token<'_>], range: Range<usize>) -> Vec<Range<usize>> {
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
pub(super) fn globals<'a>(source: &Source<'a>) -> HashMap<&'a str, Held<'a>> {
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

/// The declarator of a function's parameter.
pub(super) fn parameter_declarator<'a>(
    source: &Source<'a>,
    range: &Range<usize>,
) -> Option<Declarator<'a>> {
    let tokens = source.tokens;
    let specifiers = Specifiers::read(&tokens[..range.end], range)?;
    declarator(tokens, &specifiers, specifiers.declarator..range.end)
}

/// Where statements start, records defined in the function left out.
pub(super) fn statements(tokens: &[Token<'_>], body: &Range<usize>) -> Vec<usize> {
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

/// A function's names.
pub(super) struct Scope<'s, 'a> {
    /// The shader.
    pub source: &'s Source<'a>,
    names: HashMap<&'a str, Held<'a>>,
}

impl<'s, 'a> Scope<'s, 'a> {
    /// The names of `function`, whose body is `body`.
    pub(super) fn of(
        source: &'s Source<'a>,
        function: &Function<'a>,
        body: &Range<usize>,
        globals: &HashMap<&'a str, Held<'a>>,
    ) -> Self {
        Scope { source, names: names(source, function, body, globals) }
    }

    /// What the name at `at` stands for; nothing for a member or a qualified name.
    pub(super) fn held(&self, at: usize) -> Option<Held<'a>> {
        let tokens = self.source.tokens;
        let token = tokens.get(at).filter(|token| token.is_ident())?;
        let member = at > 0 && [".", "->", "::"].iter().any(|text| tokens[at - 1].is(text));
        if member { None } else { self.names.get(token.text).copied() }
    }
}
