//! Where a value came from.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The place that set a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A place in a preset file, relative to the workspace; line and column count from 1.
    File {
        /// The file, as it is shown.
        path: Arc<Path>,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// `-D key=value`, as it was typed.
    CommandLine(String),
}

impl Origin {
    /// The place of byte `offset` of `text`, the content of `path`.
    pub fn in_file(path: &Arc<Path>, text: &str, offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        Origin::File {
            path: Arc::clone(path),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line, column } => {
                write!(f, "{}:{line}:{column}", path.display())
            }
            Origin::CommandLine(text) => write!(f, "-D {text}"),
        }
    }
}

/// A value that knows who set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Who set it.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// The same origin with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced { value: f(self.value), origin: self.origin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let path: Arc<Path> = Arc::from(Path::new("presets/x.toml"));
        let text = "a = 1\nü = 2\n";
        assert_eq!(Origin::in_file(&path, text, 0).to_string(), "presets/x.toml:1:1");
        let two = text.find('2').unwrap();
        assert_eq!(Origin::in_file(&path, text, two).to_string(), "presets/x.toml:2:5");
    }
}
