//! Loop fission: a synchronising kernel as loops over the threads of a threadgroup.
//!
//! The body of the kernel is split where its threads wait for each other. What stands between two
//! such places, a *phase*, is a vectorised loop over the threads; values that a later phase needs
//! are kept in arrays; what all threads of a group compute alike is computed once; and an
//! operation of the whole group (`c10::metal::threadgroup_sum` and its kin) is performed once on
//! the array of its operands. That is one of the orders in which the threads of a GPU may run, at
//! a hundredth of the cost of fibers.
//!
//! 1. [`statement`] takes the body apart, [`hoist`] what it does at once in several steps,
//!    [`effects`] tells what each statement writes and reads.
//! 2. [`analyse`] makes a list of [`steps`] of it, or says why not.
//! 3. Loops over more elements than there are threads ([`loops`]) become one loop over all of them
//!    where [`gathering`] allows it; costly values of elements are kept for later ones ([`reuse`]).
//! 4. [`emit`] writes the steps as C++ for `include/fission.h`: the phases of one threadgroup, with
//!    the [`operations`] between them and the loops of [`gather`]; and where it [`pays`] those of
//!    neighbouring threadgroups ([`columns`]).
//!
//! Whatever is not understood for certain is refused: the kernel then runs on fibers, as it does
//! for a launch of another shape than its code asks for, which its entry finds out.

use std::collections::HashSet;
use std::fmt;

use super::kernels::KernelInfo;
use super::lex::{Token, lex, matching};

mod analyse;
mod builtins;
mod collective;
mod columns;
mod definitions;
mod effects;
mod emit;
mod gather;
mod gathering;
mod hoist;
mod loops;
mod operations;
mod pays;
mod reuse;
mod simd;
mod statement;
mod steps;

/// Why a kernel is left to fibers, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(String);

impl Refusal {
    fn new(why: impl Into<String>) -> Refusal {
        Refusal(why.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How the loops of a kernel run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Over the threads of one threadgroup.
    Rows,
    /// Over neighbouring threadgroups, where the memory of one is strided.
    Columns,
}

/// What became of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its threads do not wait for each other: there is nothing to split.
    Whole,
    /// It runs as loops, where the launch is one that they are for.
    Split(Shape),
    /// It runs on fibers, for this reason.
    Refused(String),
}

/// A kernel as loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fission {
    /// C++ to stand behind the shader: the function of one threadgroup, that of some, and `loops`.
    pub code: String,
    pub shape: Shape,
}

/// Splits a kernel of the rewritten shader `text`.
///
/// # Errors
/// Why it is left to fibers.
pub(crate) fn split(text: &str, kernel: &KernelInfo) -> Result<Fission, Refusal> {
    if kernel.function.contains("::") || kernel.function.contains('<') {
        return Err(Refusal::new("a template, or in a namespace"));
    }
    let tokens = lex(text).map_err(|d| Refusal::new(d.message))?;
    let (_, body) = definition(&tokens, &kernel.function).ok_or_else(undefined)?;
    let own = super::waiting::function_names(&tokens);
    refuse_names_of_metal(body, &own)?;
    let Some(simpler) = hoist::hoist(body, &own)? else {
        return split_tokens(&tokens, kernel, &own);
    };
    let (Some(first), Some(last)) = (body.first(), body.last()) else { return Err(undefined()) };
    let text = [&text[..first.offset], &simpler, &text[last.end()..]].concat();
    let tokens = lex(&text).map_err(|d| Refusal::new(d.message))?;
    split_tokens(&tokens, kernel, &own)
}

/// Refuses a body that calls functions of the shader by names that are taken for those of Metal's:
/// of these it is known what they do.
fn refuse_names_of_metal(body: &[Token<'_>], own: &HashSet<&str>) -> Result<(), Refusal> {
    let known = |name| effects::is_pure_function(name) || analyse::is_cheap_function(name);
    let mut before = None;
    for token in body {
        let unqualified = before.replace(token.text) != Some("::");
        if unqualified && own.contains(token.text) && known(token.text) {
            let why = format!("the shader has a function {} of its own", token.text);
            return Err(Refusal::new(why));
        }
    }
    Ok(())
}

fn undefined() -> Refusal {
    Refusal::new("its definition is not found")
}

/// As `split`, of a body without what [`hoist`] takes apart; `own` names the shader's functions.
fn split_tokens(
    tokens: &[Token<'_>],
    kernel: &KernelInfo,
    own: &HashSet<&str>,
) -> Result<Fission, Refusal> {
    let (parameters, body) = definition(tokens, &kernel.function).ok_or_else(undefined)?;
    if body.iter().chain(parameters).any(|t| t.text.starts_with("msl_")) {
        return Err(Refusal::new("a name that starts with msl_"));
    }
    let builtins = builtins::Builtins::new(kernel, parameters)?;
    let synchronising = super::waiting::synchronising_names(tokens);
    let functions = analyse::Functions { own, synchronising: &synchronising };
    let analysis = steps::Analysis::new(kernel, builtins, body, functions)?;
    emit::emit(kernel, &analysis)
}

/// The tokens of a function's parameters and of its body, without the brackets.
fn definition<'a, 's>(
    tokens: &'a [Token<'s>],
    function: &str,
) -> Option<(&'a [Token<'s>], &'a [Token<'s>])> {
    (2..tokens.len()).find_map(|open| {
        let named =
            tokens[open].is("(") && tokens[open - 1].is(function) && tokens[open - 2].is("void");
        let close = if named { matching(tokens, open)? } else { return None };
        let body = tokens.get(close + 1).filter(|t| t.is("{")).map(|_| close + 1)?;
        let end = matching(tokens, body)?;
        Some((&tokens[open + 1..close], &tokens[body + 1..end]))
    })
}
