//! What Apple's Metal compiler refuses, refused here too.
//!
//! The host device compiles MSL with an ordinary C++ compiler, for which much is legal that no
//! Mac accepts: `double`, pointers without an address space, mutable globals, `goto`. A shader
//! that works here must work there, so each such construct is an error, with Apple's words where
//! they are known. What clang with our headers already refuses (undefined names, writes to
//! `constant`, conversions) is left to it.
//!
//! Every rule stands alone in a file and reads the [`Source`]. A rule refuses only what is
//! certain: where a template parameter or an unknown name leaves doubt, it is silent.
//!
//! "MSL" with a section number means the *Metal Shading Language Specification*, version 3.1.

mod binding;
mod conversion;
mod element;
mod entry;
mod input;
mod keyword;
mod lambda;
mod literal;
mod names;
mod outline;
mod pointer;
mod specifiers;
mod storage;
#[cfg(test)]
mod table;
mod twins;
mod words;

use super::diagnostics::Diagnostic;
use super::lex::{Kind, Token};
use outline::Outline;
pub(crate) use twins::twins;

/// Preprocessed MSL as the rules see it.
struct Source<'a> {
    tokens: &'a [Token<'a>],
    outline: Outline<'a>,
}

/// What the rules found.
#[derive(Default)]
struct Findings {
    list: Vec<Diagnostic>,
}

impl Findings {
    /// Notes that `rule` refuses the code at `token`; `message` says what Metal objects to and
    /// what to write instead.
    fn add(&mut self, rule: &str, token: &Token<'_>, message: impl std::fmt::Display) {
        self.list.push(Diagnostic::at(token, format!("{message} [metal:{rule}]")));
    }
}

/// Every rule, in no particular order.
const RULES: [fn(&Source<'_>, &mut Findings); 10] = [
    keyword::check,
    literal::check,
    lambda::check,
    pointer::check,
    storage::check,
    conversion::check,
    element::check,
    entry::check,
    binding::check,
    input::check,
];

/// Checks the tokens of preprocessed MSL against the rules.
///
/// # Errors
/// Everything that Apple's compiler would refuse, by line and column of the MSL source. Where a
/// bracket is missing there is nothing to check: no compiler takes that.
pub(crate) fn check(tokens: &[Token<'_>]) -> Result<(), Vec<Diagnostic>> {
    if !is_balanced(tokens) {
        return Ok(());
    }
    let source = Source { tokens, outline: Outline::of(tokens) };
    let mut findings = Findings::default();
    for rule in RULES {
        rule(&source, &mut findings);
    }
    let mut list = findings.list;
    list.sort_by(|a, b| (a.line, a.column, &a.message).cmp(&(b.line, b.column, &b.message)));
    list.dedup();
    if list.is_empty() { Ok(()) } else { Err(list) }
}

/// Whether every bracket has its counterpart.
fn is_balanced(tokens: &[Token<'_>]) -> bool {
    let mut open = Vec::new();
    for token in tokens.iter().filter(|token| token.kind == Kind::Punct) {
        match token.text {
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" => open.push("}"),
            ")" | "]" | "}" if open.pop() != Some(token.text) => return false,
            _ => {}
        }
    }
    open.is_empty()
}
