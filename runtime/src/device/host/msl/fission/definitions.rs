//! What defines, at the start of a loop's body, the variables that the body uses.

use std::collections::HashSet;

use super::Refusal;
use super::statement::names;
use super::steps::{Analysis, Variable};

/// What defines one variable of the threads.
pub(super) enum Definition {
    /// Nothing: all threads share the one that is there.
    There,
    /// Its own statement, done again.
    Again,
    /// This code: its value was kept.
    Kept(String),
    /// It has none.
    Lost,
}

/// Code that defines the variables among `used`, except for `own`, and what these need in turn.
/// `first` gives the code of parameters and threadgroup memory, `of` tells of variables.
///
/// # Errors
/// A variable has no value here.
pub(super) fn definitions<'a, 's>(
    analysis: &Analysis<'a, 's>,
    used: impl Iterator<Item = &'s str>,
    own: &HashSet<&'s str>,
    first: impl Fn(&'s str) -> Option<String>,
    of: impl Fn(&'s str, &Variable<'a, 's>) -> Definition,
) -> Result<String, Refusal> {
    let mut code: Vec<(usize, String)> = Vec::new();
    let mut seen = own.clone();
    let mut todo: Vec<&'s str> = used.collect();
    while let Some(name) = todo.pop() {
        if !seen.insert(name) {
            continue;
        }
        if let Some(text) = first(name) {
            code.push((0, text));
            continue;
        }
        let Some(variable) = analysis.variables.get(name) else { continue };
        let order = variable.order + 1;
        match of(name, variable) {
            Definition::There => {}
            Definition::Again => {
                code.push((order, variable.work.code()));
                todo.extend(names(variable.work.tokens));
            }
            Definition::Kept(text) => code.push((order, text)),
            Definition::Lost => {
                return Err(Refusal::new(format!("{name} is used before it is computed")));
            }
        }
    }
    code.sort();
    Ok(code.into_iter().map(|(_, c)| c).collect::<Vec<_>>().join(" "))
}
