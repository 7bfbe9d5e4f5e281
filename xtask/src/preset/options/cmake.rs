//! The syntax of CMake's language: a file is a list of commands with arguments.

use std::fmt;

/// One argument of a command. Parentheses inside of the arguments are arguments of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its text, without quotes and with escapes resolved; `${…}` stays.
    pub text: String,
    /// Whether it was quoted, and so is never a keyword.
    pub quoted: bool,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Its name in lower case: names are the same in any case.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// The line it begins in, from 1.
    pub line: usize,
}

/// A text that is not CMake's language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// Reads a file.
///
/// # Errors
/// The first place that is not CMake's language.
pub fn parse(text: &str) -> Result<Vec<Command>, SyntaxError> {
    let mut lexer = Lexer { rest: text, line: 1 };
    let mut commands = Vec::new();
    loop {
        lexer.skip_space()?;
        if lexer.rest.is_empty() {
            return Ok(commands);
        }
        commands.push(lexer.command()?);
    }
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn error<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError { line: self.line, message: message.into() })
    }

    /// Takes the first `length` bytes.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Takes everything before the first character that `stop` holds for.
    fn take_until(&mut self, stop: impl Fn(char) -> bool) -> &'a str {
        self.take(self.rest.find(stop).unwrap_or(self.rest.len()))
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.take_until(|c| !c.is_whitespace() && c != '\u{feff}');
            if !self.rest.starts_with('#') {
                return Ok(());
            }
            self.take(1);
            if self.bracket()?.is_none() {
                self.take_until(|c| c == '\n');
            }
        }
    }

    fn command(&mut self) -> Result<Command, SyntaxError> {
        let line = self.line;
        let name = self.take_until(|c| !c.is_ascii_alphanumeric() && c != '_');
        if name.is_empty() {
            let found = self.rest.chars().next().unwrap_or(' ');
            return self.error(format!("expected the name of a command, found {found:?}"));
        }
        self.take_until(|c| c != ' ' && c != '\t');
        if !self.rest.starts_with('(') {
            return self.error(format!("expected `(` after `{name}`"));
        }
        self.take(1);
        let arguments = self.arguments(name, line)?;
        Ok(Command { name: name.to_ascii_lowercase(), arguments, line })
    }

    fn arguments(&mut self, name: &str, line: usize) -> Result<Vec<Argument>, SyntaxError> {
        let mut arguments = Vec::new();
        let mut depth = 0_usize;
        loop {
            self.skip_space()?;
            let Some(first) = self.rest.chars().next() else {
                let message = format!("the `)` of `{name}` is missing");
                return Err(SyntaxError { line, message });
            };
            match first {
                '(' => depth += 1,
                ')' if depth == 0 => {
                    self.take(1);
                    return Ok(arguments);
                }
                ')' => depth -= 1,
                _ => {
                    arguments.push(self.argument(first)?);
                    continue;
                }
            }
            arguments.push(Argument { text: self.take(1).to_owned(), quoted: false });
        }
    }

    fn argument(&mut self, first: char) -> Result<Argument, SyntaxError> {
        if first == '"' {
            self.take(1);
            return Ok(Argument { text: self.quoted()?, quoted: true });
        }
        if let Some(text) = self.bracket()? {
            return Ok(Argument { text: text.to_owned(), quoted: true });
        }
        Ok(Argument { text: self.unquoted()?, quoted: false })
    }

    /// `[[text]]`, `[=[text]=]`, … where one begins here.
    fn bracket(&mut self) -> Result<Option<&'a str>, SyntaxError> {
        let Some(inner) = self.rest.strip_prefix('[') else { return Ok(None) };
        let equals = inner.bytes().take_while(|b| *b == b'=').count();
        if !inner[equals..].starts_with('[') {
            return Ok(None);
        }
        let end = format!("]{}]", "=".repeat(equals));
        let begin = equals + 2;
        let Some(length) = self.rest[begin..].find(&end) else {
            return self.error(format!("the `{end}` of a bracket is missing"));
        };
        let taken = self.take(begin + length + end.len());
        Ok(Some(&taken[begin..begin + length]))
    }

    fn quoted(&mut self) -> Result<String, SyntaxError> {
        let line = self.line;
        let mut text = String::new();
        loop {
            text += self.take_until(|c| c == '"' || c == '\\');
            match self.rest.chars().next() {
                Some('"') => {
                    self.take(1);
                    return Ok(text);
                }
                Some(_) => self.escape(&mut text),
                None => {
                    let message = "the end of a quoted argument is missing".to_owned();
                    return Err(SyntaxError { line, message });
                }
            }
        }
    }

    fn unquoted(&mut self) -> Result<String, SyntaxError> {
        let mut text = String::new();
        loop {
            let stop = |c: char| c.is_whitespace() || "()#\"\\".contains(c);
            text += self.take_until(stop);
            match self.rest.chars().next() {
                Some('\\') => self.escape(&mut text),
                // An argument as -Dx="a b": the quotes are part of it.
                Some('"') if !text.is_empty() => {
                    self.take(1);
                    let inside = self.quoted()?;
                    text += &format!("\"{inside}\"");
                }
                _ => return Ok(text),
            }
        }
    }

    /// Takes a backslash and what it escapes.
    fn escape(&mut self, text: &mut String) {
        self.take(1);
        let Some(escaped) = self.rest.chars().next() else { return };
        self.take(escaped.len_utf8());
        match escaped {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '\n' => {}
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let commands = parse(text).unwrap();
        let line = |c: &Command| {
            let arguments: Vec<_> = c
                .arguments
                .iter()
                .map(|a| if a.quoted { format!("{:?}", a.text) } else { a.text.clone() })
                .collect();
            format!("{}: {}({})\n", c.line, c.name, arguments.join(" "))
        };
        commands.iter().map(line).collect()
    }

    #[test]
    fn commands_have_quoted_unquoted_and_bracket_arguments() {
        let text = concat!(
            "# a comment with ( and \"\n",
            "SET(A b) # after\n",
            "#[[ a bracket ) comment\n over lines ]]\n",
            "define (\n  X \"two words; \\\"quoted\\\"\" BOOL # why\n  ${_d}\n)\n",
            "if(NOT (A AND \"B\")) endif()\n",
            "raw([=[ a ]] b ]=] a\\ b -Dx=\"y z\" [x] \"con\\\ntinued\")\n",
        );
        insta::assert_snapshot!(shown(text), @r#"
        2: set(A b)
        5: define(X "two words; \"quoted\"" BOOL ${_d})
        9: if(NOT ( A AND "B" ))
        9: endif()
        10: raw(" a ]] b " a b -Dx="y z" [x] "continued")
        "#);
    }

    #[test]
    fn what_is_not_cmake_has_its_line() {
        let error = |text| parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(error("set(A b)\n)\n"), @"line 2: expected the name of a command, found ')'");
        insta::assert_snapshot!(error("\nset A"), @"line 2: expected `(` after `set`");
        insta::assert_snapshot!(error("\nset(A\n\n"), @"line 2: the `)` of `set` is missing");
        insta::assert_snapshot!(error("set(\n\"A\n\n"), @"line 2: the end of a quoted argument is missing");
        insta::assert_snapshot!(error("set([==[ ]=] )"), @"line 1: the `]==]` of a bracket is missing");
    }
}
