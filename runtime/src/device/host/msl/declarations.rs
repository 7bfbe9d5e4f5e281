//! The declarations of a shader that say `kernel`.

use std::ops::Range;

use super::diagnostics::Diagnostic;
use super::lex::{Kind, Token, attribute_end, matching, matching_angle};

/// A declaration that says `kernel`.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// Tokens, with the final `;` or without the body.
    pub tokens: Range<usize>,
    /// Whether a body follows.
    pub has_body: bool,
    /// The enclosing namespaces, as `a::b::`.
    pub scope: String,
}

/// Finds the declarations of kernels: definitions, templates, instantiations.
///
/// # Errors
/// Brackets do not match.
pub(crate) fn kernel_declarations(tokens: &[Token<'_>]) -> Result<Vec<Declaration>, Diagnostic> {
    let mut scan = Scan { tokens, scopes: Vec::new(), declarations: Vec::new() };
    scan.run()?;
    Ok(scan.declarations)
}

/// Walks the declarations of namespace scope.
struct Scan<'t, 's> {
    tokens: &'t [Token<'s>],
    scopes: Vec<String>,
    declarations: Vec<Declaration>,
}

impl Scan<'_, '_> {
    fn run(&mut self) -> Result<(), Diagnostic> {
        let mut at = 0;
        while at < self.tokens.len() {
            at = self.step(at)?;
        }
        Ok(())
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|t| t.is(text))
    }

    /// Handles what starts at `at`; gives the index behind it.
    fn step(&mut self, at: usize) -> Result<usize, Diagnostic> {
        let token = &self.tokens[at];
        if token.is("}") {
            if self.scopes.pop().is_none() {
                return Err(Diagnostic::at(token, "this } closes nothing"));
            }
            return Ok(at + 1);
        }
        if token.is(";") {
            return Ok(at + 1);
        }
        let namespace =
            token.is("namespace") || (token.is("inline") && self.is(at + 1, "namespace"));
        let linkage = token.is("extern")
            && self.tokens.get(at + 1).is_some_and(|t| t.kind == Kind::Str)
            && self.is(at + 2, "{");
        if linkage {
            self.scopes.push(String::new());
            return Ok(at + 3);
        }
        if namespace {
            let open = (at..self.tokens.len()).find(|&i| self.is(i, "{") || self.is(i, ";"));
            if let Some(open) = open.filter(|&i| self.is(i, "{")) {
                let names = self.tokens[at..open].iter().filter(|t| {
                    (t.is_ident() && !t.is("namespace") && !t.is("inline")) || t.is("::")
                });
                let name: String = names.map(|t| t.text).collect();
                self.scopes.push(if name.is_empty() { name } else { name + "::" });
                return Ok(open + 1);
            }
        }
        self.declaration(at)
    }

    /// Reads one declaration up to its `;` or the end of its body.
    fn declaration(&mut self, start: usize) -> Result<usize, Diagnostic> {
        let mut at = start;
        let mut is_kernel = false;
        let mut continues_after_body = false;
        while let Some(token) = self.tokens.get(at) {
            if token.is(";") {
                self.note(is_kernel, start..at + 1, false);
                return Ok(at + 1);
            }
            if token.is("{") {
                let end = self.close(at)?;
                if !continues_after_body {
                    self.note(is_kernel, start..at, true);
                    return Ok(end + 1);
                }
                at = end + 1;
                continue;
            }
            if token.is("}") {
                // The end of a scope without a `;`: leave it to `step`.
                return if at == start { Ok(at + 1) } else { Ok(at) };
            }
            if let Some(end) = attribute_end(self.tokens, at) {
                is_kernel |= self.tokens[at + 2].is("kernel");
                at = end + 1;
                continue;
            }
            match token.text {
                "kernel" => is_kernel = true,
                "struct" | "class" | "union" | "enum" | "=" => continues_after_body = true,
                "(" | "[" => at = self.close(at)?,
                "template" if self.is(at + 1, "<") => {
                    at = matching_angle(self.tokens, at + 1)
                        .ok_or_else(|| Diagnostic::at(token, "the template's < is not closed"))?;
                }
                _ => {}
            }
            at += 1;
        }
        Ok(at)
    }

    fn close(&self, open: usize) -> Result<usize, Diagnostic> {
        matching(self.tokens, open).ok_or_else(|| {
            let token = &self.tokens[open];
            Diagnostic::at(token, format!("the {} is not closed", token.text))
        })
    }

    fn note(&mut self, is_kernel: bool, tokens: Range<usize>, has_body: bool) {
        if is_kernel {
            let scope = self.scopes.concat();
            self.declarations.push(Declaration { tokens, has_body, scope });
        }
    }
}
