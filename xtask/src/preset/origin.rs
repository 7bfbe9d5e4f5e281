//! Where a value came from.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A preset file that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The file, as it is shown: relative to the repository.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

/// A place in a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<SourceFile>,
    /// The bytes that are meant.
    pub span: Range<usize>,
    /// The overlay that they are in, as `host.linux`; empty outside of one.
    pub overlay: Arc<str>,
}

impl Place {
    fn before(&self) -> &str {
        let mut end = self.span.start.min(self.file.text.len());
        while !self.file.text.is_char_boundary(end) {
            end -= 1;
        }
        &self.file.text[..end]
    }

    /// The full name by which the file sets `name` in the overlay of this place.
    pub fn full_name(&self, name: &str) -> String {
        match self.overlay.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.overlay),
        }
    }

    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.before().matches('\n').count() + 1
    }

    /// The column in characters, from 1.
    pub fn column(&self) -> usize {
        let before = self.before();
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        before[line_start..].chars().count() + 1
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.path.display(), self.line(), self.column())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The place that set a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A place in a preset file.
    File(Place),
    /// A variable of the environment, as `NAME=value`.
    Environment(String),
    /// `-D key=value`, as it was typed.
    CommandLine(String),
}

impl Origin {
    /// The bytes `span` of `file`, outside of overlays.
    pub fn in_file(file: &Arc<SourceFile>, span: Range<usize>) -> Self {
        Origin::File(Place { file: Arc::clone(file), span, overlay: "".into() })
    }

    /// The place in a file, if it is one.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Origin::File(place) => Some(place),
            Origin::Environment(_) | Origin::CommandLine(_) => None,
        }
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        self.place().map(|place| place.file.path.as_path())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(place) => place.fmt(f),
            Origin::Environment(text) => f.write_str(text),
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
        let text = "a = 1\nü = 2\n".to_owned();
        let two = text.find('2').unwrap();
        let inside = text.find('ü').unwrap() + 1;
        let file = Arc::new(SourceFile { path: "presets/x.toml".into(), text });
        let shown = |at: usize| Origin::in_file(&file, at..at).to_string();
        assert_eq!(shown(0), "presets/x.toml:1:1");
        assert_eq!(shown(two), "presets/x.toml:2:5");
        assert_eq!(shown(inside), "presets/x.toml:2:1", "inside of a character");
        assert_eq!(shown(999), "presets/x.toml:3:1", "beyond the end");
    }
}
