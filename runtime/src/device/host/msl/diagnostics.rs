//! Messages about MSL source: line and column of the source as given, with the line's text.

use std::fmt::Write as _;

use crate::Error;

/// Longest source line that is quoted, in characters.
const MAX_QUOTED: usize = 160;
/// Most diagnostics of one compilation that are reported.
pub(crate) const MAX_DIAGNOSTICS: usize = 16;

/// One complaint about the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    /// Line of the MSL source, from 1; 0 if no line is to blame.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
    /// What is wrong and what to do.
    pub message: String,
}

impl Diagnostic {
    /// A complaint at a token.
    pub(crate) fn at(token: &super::lex::Token<'_>, message: impl Into<String>) -> Self {
        Diagnostic { line: token.line, column: token.column, message: message.into() }
    }

    /// `MSL line L:C: message` and, below it, the text of the line.
    fn render(&self, source: &str, out: &mut String) {
        match (self.line, self.column) {
            (0, _) => {}
            (line, 0) => _ = write!(out, "MSL line {line}: "),
            (line, column) => _ = write!(out, "MSL line {line}:{column}: "),
        }
        out.push_str(&self.message);
        let index = (self.line as usize).checked_sub(1);
        if let Some(text) = index.and_then(|i| source.lines().nth(i)) {
            let text = text.trim();
            let quoted: String = text.chars().take(MAX_QUOTED).collect();
            let more = if quoted.len() < text.len() { " ..." } else { "" };
            _ = write!(out, "\n    {quoted}{more}");
        }
    }
}

/// The error of a compilation: at most [`MAX_DIAGNOSTICS`] complaints, one after the other.
pub(crate) fn error(source: &str, diagnostics: &[Diagnostic]) -> Error {
    let mut text = String::from("the shader does not compile:");
    for diagnostic in diagnostics.iter().take(MAX_DIAGNOSTICS) {
        text.push('\n');
        diagnostic.render(source, &mut text);
    }
    if let Some(more) = diagnostics.len().checked_sub(MAX_DIAGNOSTICS).filter(|&n| n > 0) {
        _ = write!(text, "\nand {more} more errors");
    }
    Error::ShaderCompile(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_line_column_and_text() {
        let diagnostic = Diagnostic { line: 2, column: 3, message: "no such thing".into() };
        let error = error("one\n  two\nthree", &[diagnostic]).to_string();
        assert_eq!(error, "the shader does not compile:\nMSL line 2:3: no such thing\n    two");
    }

    #[test]
    fn is_bounded() {
        let line = "é".repeat(10_000);
        let one = Diagnostic { line: 1, column: 0, message: "x".into() };
        let text = error(&line, &vec![one; 1000]).to_string();
        assert!(text.len() < 10_000, "{}", text.len());
        assert!(text.ends_with("and 984 more errors"));
    }
}
