//! How a declaration begins: storage class, address space, type.

use std::ops::Range;

use super::super::lex::{Token, matching};
use super::words::{
    is_address_space, is_builtin_type, is_qualifier, skip_arguments, skip_attribute,
};

/// A declaration's specifiers: what stands before the type's name, and where the type ends.
pub(super) struct Specifiers {
    /// Address space of the declared thing itself or of what it points at.
    pub space: Option<usize>,
    /// `static`, if there.
    pub is_static: Option<usize>,
    /// `extern`, if there.
    pub is_extern: bool,
    /// Token of the type's name.
    pub type_at: usize,
    /// Index behind the type: the first declarator's `*`, `&` or name.
    pub declarator: usize,
}

impl Specifiers {
    /// Reads the specifiers at the start of `range`; `None` if that is no simple declaration.
    pub(super) fn read(tokens: &[Token<'_>], range: &Range<usize>) -> Option<Self> {
        let mut found = Specifiers {
            space: None,
            is_static: None,
            is_extern: false,
            type_at: range.start,
            declarator: range.start,
        };
        let mut i = found.words(tokens, range.start, range.end);
        found.type_at = i;
        if !tokens.get(i)?.is_ident() && !tokens[i].is("::") {
            return None;
        }
        // `unsigned int`, `metal::vec<int, 2>`, `array<float, 4>::type`
        while i < range.end && (tokens[i].is_ident() || tokens[i].is("::")) {
            let arguments = skip_arguments(tokens, i + 1);
            let more = tokens.get(arguments).is_some_and(|next| next.is("::"))
                || tokens[i].is("::")
                || (is_builtin_type(&tokens[i]) && tokens.get(i + 1).is_some_and(is_builtin_type));
            i = arguments;
            if !more {
                break;
            }
        }
        found.declarator = found.words(tokens, i, range.end);
        (found.declarator < range.end).then_some(found)
    }

    /// Takes in qualifiers from `at` on; the index behind them.
    fn words(&mut self, tokens: &[Token<'_>], at: usize, end: usize) -> usize {
        let mut i = at;
        while i < end {
            let token = &tokens[i];
            if let Some(next) = skip_attribute(tokens, i) {
                i = next;
                continue;
            }
            if is_address_space(token) {
                self.space.get_or_insert(i);
            } else if token.is("static") {
                self.is_static = Some(i);
            } else if token.is("extern") {
                self.is_extern = true;
            } else if !is_qualifier(token) {
                break;
            }
            i += 1;
        }
        i
    }

    /// Whether the declared thing is a variable of the type itself (or an array of it): no
    /// pointer, no reference, and a name that ends as declarators do.
    pub(super) fn is_object(&self, tokens: &[Token<'_>]) -> bool {
        let ends = tokens.get(self.declarator + 1).is_none_or(|next| {
            [";", "=", "[", ",", "{", ")", ":", "("].iter().any(|text| next.is(text))
        });
        tokens[self.declarator].is_ident() && ends
    }
}

/// Whether a statement may start at `at` in the function body `body`.
pub(super) fn starts_statement(tokens: &[Token<'_>], body: &Range<usize>, at: usize) -> bool {
    at == body.start
        || [";", "{", "}", ")", "else", "do", ":"].iter().any(|text| tokens[at - 1].is(text))
        || (tokens[at - 1].is("(") && at >= 2 && tokens[at - 2].is("for"))
}

/// Index behind the braces of a record that is defined in a function.
pub(super) fn local_record(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    if !["struct", "class", "union"].iter().any(|word| tokens[at].is(word)) {
        return None;
    }
    let open = (at..tokens.len().min(at + 4)).find(|&i| tokens[i].is("{"))?;
    matching(tokens, open).map(|close| close + 1)
}
