//! Tokens of preprocessed MSL.
//!
//! The input is the preprocessor's output: no comments, no directives but line markers
//! (`# 12 "name"`), from which each token knows its line in the source as it was given.
//! Whitespace is not a token; the text between two tokens can be had by their offsets.

use std::ops::Range;

use super::diagnostics::Diagnostic;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or a keyword.
    Ident,
    /// A number with its suffix: `0x1F`, `1.5e-3f`, `2h`, `1.0bf`.
    Number,
    /// A string literal with its quotes.
    Str,
    /// A character literal with its quotes.
    Char,
    /// An operator or other punctuation.
    ///
    /// `>` is always a token of its own (`>>` is two), so that template argument lists close;
    /// `[[` is two tokens, too (see [`attribute_end`]).
    Punct,
}

/// One token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'s> {
    /// What it is.
    pub kind: Kind,
    /// Its spelling.
    pub text: &'s str,
    /// Byte offset of the spelling in the preprocessed text.
    pub offset: usize,
    /// Line of the MSL source, from 1.
    pub line: u32,
    /// Column in that line, from 1; exact unless a macro was expanded earlier in the line.
    pub column: u32,
}

impl Token<'_> {
    /// Whether this is the punctuation or the word `text`.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text && matches!(self.kind, Kind::Ident | Kind::Punct)
    }

    /// Whether this is an identifier or keyword.
    pub(crate) fn is_ident(&self) -> bool {
        self.kind == Kind::Ident
    }

    /// Byte offset just behind the spelling.
    pub(crate) fn end(&self) -> usize {
        self.offset + self.text.len()
    }
}

/// Operators of more than one character, longest first.
const OPERATORS: [&str; 22] = [
    "<<=", "...", "::", "->", "<<", "<=", ">=", "==", "!=", "&&", "||", "++", "--", "+=", "-=",
    "*=", "/=", "%=", "&=", "|=", "^=", "##",
];

/// Splits preprocessed text into tokens.
///
/// # Errors
/// A literal is not terminated, or a character belongs to no token.
pub(crate) fn lex(text: &str) -> Result<Vec<Token<'_>>, Diagnostic> {
    let mut lexer = Lexer { text, offset: 0, line: 1, line_start: 0 };
    let mut tokens = Vec::with_capacity(text.len() / 4);
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'s> {
    text: &'s str,
    offset: usize,
    line: u32,
    line_start: usize,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.text[self.offset..]
    }

    fn next(&mut self) -> Result<Option<Token<'s>>, Diagnostic> {
        self.skip_blank();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(None) };
        let second = rest[first.len_utf8()..].chars().next().unwrap_or('\0');
        let (kind, len) = if first == '_' || first.is_alphabetic() {
            (Kind::Ident, prefix(rest, |c| c == '_' || c.is_alphanumeric()))
        } else if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
            (Kind::Number, number(rest))
        } else if first == '"' || first == '\'' {
            let kind = if first == '"' { Kind::Str } else { Kind::Char };
            (kind, quoted(rest, first).ok_or_else(|| self.complain("the literal is not closed"))?)
        } else if first.is_ascii_punctuation() && !matches!(first, '`' | '@' | '$') {
            let operator = OPERATORS.iter().find(|o| rest.starts_with(**o));
            (Kind::Punct, operator.map_or(1, |o| o.len()))
        } else {
            return Err(self.complain(format!("unexpected character {first:?}")));
        };
        let token = Token {
            kind,
            text: &rest[..len],
            offset: self.offset,
            line: self.line,
            column: self.column(),
        };
        self.offset += len;
        Ok(Some(token))
    }

    fn column(&self) -> u32 {
        let column = self.text[self.line_start..self.offset].chars().count() + 1;
        u32::try_from(column).unwrap_or(u32::MAX)
    }

    fn complain(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic { line: self.line, column: self.column(), message: message.into() }
    }

    /// Skips spaces, line ends, line markers and other directives (`#pragma`).
    fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            if rest.starts_with('\n') {
                self.offset += 1;
                self.line += 1;
                self.line_start = self.offset;
            } else if rest.starts_with(|c: char| c.is_whitespace() || c == '\\') {
                self.offset += rest.chars().next().map_or(1, char::len_utf8);
            } else if rest.starts_with('#') && self.only_blank_before() {
                let directive = rest.lines().next().unwrap_or_default();
                self.offset += directive.len();
                if let Some(line) = line_marker(directive) {
                    // The marker names the line that follows it.
                    self.line = line.saturating_sub(1);
                }
            } else {
                return;
            }
        }
    }

    fn only_blank_before(&self) -> bool {
        self.text[self.line_start..self.offset].trim().is_empty()
    }
}

/// The line of `# 12 "name" 1` or `#line 12`.
fn line_marker(directive: &str) -> Option<u32> {
    let words = directive.strip_prefix('#')?.trim_start();
    let words = words.strip_prefix("line ").unwrap_or(words).trim_start();
    words.split_whitespace().next()?.parse().ok()
}

/// Bytes of the longest prefix whose characters all satisfy `keep`.
fn prefix(text: &str, keep: impl Fn(char) -> bool) -> usize {
    text.find(|c| !keep(c)).unwrap_or(text.len())
}

/// Bytes of a preprocessing number: digits, letters, `.`, `'`, and a sign after an exponent.
fn number(text: &str) -> usize {
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let mut previous = '\0';
    prefix_with(text, |c| {
        let exponent =
            if hex { matches!(previous, 'p' | 'P') } else { matches!(previous, 'e' | 'E') };
        let keep = c == '.'
            || c == '\''
            || c == '_'
            || c.is_ascii_alphanumeric()
            || (exponent && matches!(c, '+' | '-'));
        previous = c;
        keep
    })
}

fn prefix_with(text: &str, mut keep: impl FnMut(char) -> bool) -> usize {
    text.find(|c| !keep(c)).unwrap_or(text.len())
}

/// Bytes of a literal with its quotes; `None` if the line ends first.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(i + c.len_utf8()),
            _ => {}
        }
    }
    None
}

/// Index of the token that closes the bracket (`(`, `[`, `{`) at `open`; `None` if none does.
pub(crate) fn matching(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut expected = Vec::new();
    for (i, token) in tokens.iter().enumerate().skip(open) {
        if token.kind != Kind::Punct {
            continue;
        }
        match token.text {
            "(" => expected.push(")"),
            "[" => expected.push("]"),
            "{" => expected.push("}"),
            ")" | "]" | "}" if expected.pop() != Some(token.text) => return None,
            _ => {}
        }
        if expected.is_empty() {
            return Some(i);
        }
    }
    None
}

/// Index of the `>` that closes the template argument list at `open` (a `<`); `None` if the `<`
/// is a comparison.
pub(crate) fn matching_angle(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0;
    let mut i = open;
    while let Some(token) = tokens.get(i) {
        match token.text {
            "<" => depth += 1,
            ">" => depth -= 1,
            "(" | "[" | "{" => i = matching(tokens, i)?,
            ";" | ")" | "]" | "}" => return None,
            _ => {}
        }
        if depth == 0 {
            return Some(i);
        }
        i += 1;
    }
    None
}

/// If an attribute list `[[...]]` starts at `at`: the index of its last `]`.
pub(crate) fn attribute_end(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let opens = tokens.get(at)?.is("[") && tokens.get(at + 1)?.is("[");
    if opens { matching(tokens, at) } else { None }
}

/// The value of an integer literal with any suffix.
pub(crate) fn integer(text: &str) -> Option<u32> {
    text.trim_end_matches(['u', 'U', 'l', 'L']).parse().ok()
}

/// Splits a list at its commas.
pub(crate) fn split(tokens: &[Token<'_>], range: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    let mut at = range.start;
    while at < range.end {
        match tokens[at].text {
            "(" | "[" | "{" => at = matching(tokens, at).unwrap_or(at),
            "<" => at = matching_angle(tokens, at).unwrap_or(at),
            "," => {
                parts.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if start < range.end {
        parts.push(start..range.end);
    }
    parts
}

/// The tokens as text, with spaces where words would run together.
pub(crate) fn join(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    for (i, token) in tokens.iter().enumerate() {
        let word = |t: &Token<'_>| matches!(t.kind, Kind::Ident | Kind::Number);
        if i > 0 && word(token) && (word(&tokens[i - 1]) || tokens[i - 1].is(",")) {
            text.push(' ');
        }
        text.push_str(token.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        lex(source).unwrap().iter().map(|t| t.text).collect()
    }

    #[test]
    fn splits_operators_and_numbers() {
        assert_eq!(
            texts("a<<=b>>2u; x->y::z...; .5e-3f+0x1.8p-2f-1e+2h*0xe+1 1'000"),
            [
                "a",
                "<<=",
                "b",
                ">",
                ">",
                "2u",
                ";",
                "x",
                "->",
                "y",
                "::",
                "z",
                "...",
                ";",
                ".5e-3f",
                "+",
                "0x1.8p-2f",
                "-",
                "1e+2h",
                "*",
                "0xe",
                "+",
                "1",
                "1'000"
            ]
        );
    }

    #[test]
    fn literals_keep_their_quotes() {
        let tokens = lex(r#"host_name("a\"b") 'c' '\''"#).unwrap();
        let kinds: Vec<_> = tokens.iter().map(|t| t.kind).collect();
        assert_eq!(
            kinds,
            [Kind::Ident, Kind::Punct, Kind::Str, Kind::Punct, Kind::Char, Kind::Char]
        );
        assert_eq!(tokens[2].text, r#""a\"b""#);
    }

    #[test]
    fn line_markers_move_lines_and_pragmas_do_not() {
        let source = "# 1 \"<stdin>\"\n# 1 \"<built-in>\" 1\n# 7 \"<stdin>\" 2\nfoo\n\n  bar\n\
                      #pragma unroll\n#line 40\nbaz";
        let places: Vec<_> =
            lex(source).unwrap().iter().map(|t| (t.text, t.line, t.column)).collect();
        assert_eq!(places, [("foo", 7, 1), ("bar", 9, 3), ("baz", 40, 1)]);
    }

    #[test]
    fn refuses_what_is_no_token() {
        let error = lex("a\n \"open\n").unwrap_err();
        assert_eq!((error.line, error.column), (2, 2));
        assert!(lex("a @ b").unwrap_err().message.contains('@'));
    }

    #[test]
    fn brackets_match() {
        let tokens = lex("f(a[b[0]], {1, 2}) [[buffer(0)]] vec<A<int>, (1 > 0)> a < b;").unwrap();
        assert_eq!(matching(&tokens, 1).map(|i| tokens[i + 1].text), Some("["));
        let attribute = tokens.iter().position(|t| t.text == "buffer").unwrap() - 2;
        let end = attribute_end(&tokens, attribute).unwrap();
        assert_eq!(tokens[end + 1].text, "vec");
        let close = matching_angle(&tokens, end + 2).unwrap();
        assert_eq!(tokens[close + 1].text, "a");
        assert_eq!(matching_angle(&tokens, close + 2), None);
        assert_eq!(attribute_end(&tokens, 3), None);
    }
}
