//! Which kernels wait for other threads, found by name.

use std::collections::HashSet;

use super::lex::{Token, matching};
use super::rewrite::FIBER_OPERATIONS;

/// Names of functions that let threads wait for each other, directly or through what they call.
///
/// A name is synchronising if the body of any function of that name mentions a synchronising
/// name. `operator()` counts for its class, `using X = ...` for X. Threadgroup variables need the
/// fibers' arena, so mentioning `threadgroup` in a body counts, too.
pub(crate) fn synchronising_names<'s>(tokens: &[Token<'s>]) -> HashSet<&'s str> {
    let bodies = bodies(tokens);
    let mut names: HashSet<&str> = HashSet::new();
    loop {
        let before = names.len();
        for (name, mentioned) in &bodies {
            if mentioned.iter().any(|m| names.contains(m) || is_synchronising_word(m)) {
                names.insert(name);
            }
        }
        if names.len() == before {
            return names;
        }
    }
}

/// Names of the functions that the shader defines.
pub(crate) fn function_names<'s>(tokens: &[Token<'s>]) -> HashSet<&'s str> {
    bodies(tokens).into_iter().map(|(name, _)| name).collect()
}

/// Whether MSL's own function of this name lets threads wait for each other.
pub(crate) fn is_synchronising_word(word: &str) -> bool {
    // The operations of `collective.h`, which stand in the text once it is rewritten.
    let of_fibers = word.strip_prefix("fiber_");
    of_fibers.is_some_and(|operation| FIBER_OPERATIONS.contains(&operation))
        || matches!(word, "threadgroup" | "threadgroup_barrier" | "make_filled_simdgroup_matrix")
        || is_simd_function(word)
}

fn is_simd_function(word: &str) -> bool {
    const FAMILIES: [&str; 14] = [
        "sum",
        "product",
        "max",
        "min",
        "and",
        "or",
        "xor",
        "any",
        "all",
        "is_first",
        "ballot",
        "barrier",
        "multiply",
        "multiply_accumulate",
    ];
    const PREFIXES: [&str; 4] = ["prefix_", "shuffle", "broadcast", "active_threads_mask"];
    ["simd_", "quad_", "simdgroup_"].iter().filter_map(|p| word.strip_prefix(p)).any(|rest| {
        FAMILIES.contains(&rest)
            || PREFIXES.iter().any(|p| rest.starts_with(p))
            || matches!(rest, "load" | "store" | "matrix")
            || rest.ends_with("8x8")
    })
}

/// For each function (and alias): the words of its parameters and body.
fn bodies<'s>(tokens: &[Token<'s>]) -> Vec<(&'s str, HashSet<&'s str>)> {
    let mut found = Vec::new();
    let mut classes: Vec<(usize, &str)> = Vec::new();
    let words = |range: &[Token<'s>]| -> HashSet<&'s str> {
        range.iter().filter(|t| t.is_ident()).map(|t| t.text).collect()
    };
    for (at, token) in tokens.iter().enumerate() {
        classes.retain(|&(end, _)| at < end);
        if token.is("using") && tokens.get(at + 2).is_some_and(|t| t.is("=")) {
            let end = (at..tokens.len()).find(|&i| tokens[i].is(";")).unwrap_or(tokens.len());
            found.push((tokens[at + 1].text, words(&tokens[at + 3..end])));
        }
        if !token.is("{") {
            continue;
        }
        let Some(end) = matching(tokens, at) else { continue };
        if let Some(class) = class_name(tokens, at) {
            classes.push((end, class));
        } else if let Some((name, open)) = function_name(tokens, at) {
            let name = if name == "operator" { classes.last().map(|c| c.1) } else { Some(name) };
            if let Some(name) = name {
                // Parameters count except for their address spaces: a pointer to threadgroup
                // memory alone does not make a function wait.
                let mut mentioned = words(&tokens[open..at]);
                mentioned.remove("threadgroup");
                mentioned.extend(words(&tokens[at..end]));
                found.push((name, mentioned));
            }
        }
    }
    found
}

/// The name of the class whose body opens at `open`.
fn class_name<'s>(tokens: &[Token<'s>], open: usize) -> Option<&'s str> {
    let start = (0..open).rev().find(|&i| {
        tokens[i].is(";") || tokens[i].is("{") || tokens[i].is("}") || tokens[i].is(")")
    });
    let head = &tokens[start.map_or(0, |i| i + 1)..open];
    let keyword = head.iter().rposition(|t| t.is("struct") || t.is("class") || t.is("union"))?;
    head.get(keyword + 1).filter(|t| t.is_ident()).map(|t| t.text)
}

/// The name of the function whose body opens at `open`, and where its parameters open.
fn function_name<'s>(tokens: &[Token<'s>], open: usize) -> Option<(&'s str, usize)> {
    let mut at = open.checked_sub(1)?;
    while tokens[at].is_ident()
        && matches!(
            tokens[at].text,
            "const" | "thread" | "device" | "constant" | "threadgroup" | "noexcept" | "volatile"
        )
    {
        at = at.checked_sub(1)?;
    }
    if !tokens[at].is(")") {
        return None;
    }
    let mut depth = 0;
    let parameters = (0..=at).rev().find(|&i| {
        depth += i32::from(tokens[i].is(")")) - i32::from(tokens[i].is("("));
        depth == 0
    })?;
    let before = parameters.checked_sub(1)?;
    let name = &tokens[before];
    if name.is_ident() {
        let control =
            matches!(name.text, "if" | "for" | "while" | "switch" | "catch" | "constexpr");
        return (!control).then_some((name.text, parameters));
    }
    // `operator()(...)`, `operator+(...)`
    let operator = (before.saturating_sub(3)..=before).rev().find(|&i| tokens[i].is("operator"));
    operator.map(|_| ("operator", parameters))
}
