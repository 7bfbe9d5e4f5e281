//! What is wrong with a preset: everything that was found, not only the first thing.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::origin::{Origin, Place};
use super::value::Value;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where, if it is in one place.
    pub origin: Option<Origin>,
    /// What is wrong.
    pub message: String,
    /// What to do, where the message does not say so.
    pub help: Option<String>,
    /// Settings that would put it right, by full name.
    pub fixes: Vec<(String, Value)>,
}

impl Fault {
    /// A fault with no place.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { origin: None, message: message.to_string(), help: None, fixes: Vec::new() }
    }

    /// A fault at `origin`.
    pub fn at(origin: &Origin, message: impl fmt::Display) -> Self {
        Self { origin: Some(origin.clone()), ..Self::new(message) }
    }

    /// The same with what to do.
    #[must_use]
    pub fn help(mut self, help: impl fmt::Display) -> Self {
        self.help = Some(help.to_string());
        self
    }

    /// The same with a setting that puts it right.
    #[must_use]
    pub fn fix(mut self, name: impl Into<String>, value: Value) -> Self {
        self.fixes.push((name.into(), value));
        self
    }

    /// The fault with the lines that it is about.
    fn render(&self, renderer: &Renderer) -> String {
        let title = match &self.origin {
            Some(origin @ (Origin::Environment(_) | Origin::CommandLine(_))) => {
                format!("{origin}: {}", self.message)
            }
            Some(Origin::File(_)) | None => self.message.clone(),
        };
        let mut group = match self.origin.as_ref().and_then(Origin::place) {
            Some(place) => Level::ERROR.primary_title(title).element(
                Snippet::source(place.file.text.as_str())
                    .path(place.file.path.to_string_lossy())
                    .annotation(AnnotationKind::Primary.span(visible(place))),
            ),
            None => annotate_snippets::Group::with_title(Level::ERROR.primary_title(title)),
        };
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

/// The span on whole characters inside of the text.
fn visible(place: &Place) -> Range<usize> {
    let text = &place.file.text;
    let boundary = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = boundary(place.span.start);
    start..boundary(place.span.end).max(start)
}

/// All faults found in one go, each with its place.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PresetError {
    faults: Vec<Fault>,
}

impl From<Fault> for PresetError {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault] }
    }
}

impl PresetError {
    /// Adds a fault.
    pub fn push(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Adds the faults of `other`.
    pub fn extend(&mut self, other: PresetError) {
        self.faults.extend(other.faults);
    }

    /// The faults.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// The same in the order of files and lines, what has no place last; each fault once.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        let key = |fault: &Fault| match fault.origin.as_ref() {
            Some(Origin::File(place)) => (0, place.file.path.clone(), place.span.start),
            Some(Origin::Environment(_)) => (1, Default::default(), 0),
            Some(Origin::CommandLine(_)) => (2, Default::default(), 0),
            None => (3, Default::default(), 0),
        };
        self.faults.sort_by_key(key);
        self.faults.dedup();
        self
    }

    /// The same with `origin` for the faults that have no place of their own.
    #[must_use]
    pub fn placed(mut self, origin: &Origin) -> Self {
        for fault in &mut self.faults {
            fault.origin.get_or_insert_with(|| origin.clone());
        }
        self
    }

    /// `Ok(value)` if nothing was found.
    ///
    /// # Errors
    /// Itself, if something was.
    pub fn or<T>(self, value: T) -> Result<T, PresetError> {
        if self.faults.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Every fault with the lines that it is about, for people; `color` with the colours of a
    /// terminal.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let faults: Vec<_> = self.faults.iter().map(|fault| fault.render(&renderer)).collect();
        faults.join("\n\n")
    }
}

impl fmt::Display for PresetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.faults.iter().map(Fault::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for PresetError {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::preset::origin::SourceFile;

    #[test]
    fn a_fault_shows_its_line_and_what_to_do() {
        let text = "[toolchain]\ncxxx = \"g++\"\n".to_owned();
        let file = Arc::new(SourceFile { path: "presets/x.toml".into(), text });
        let mut error = PresetError::from(Fault::new("no place").help("do this"));
        error.push(Fault::at(&Origin::CommandLine("a=b".into()), "unknown"));
        error.push(Fault::at(&Origin::in_file(&file, 12..16), "unknown key `cxxx`").help("`cxx`"));
        insta::assert_snapshot!(error.sorted().render(false), @r#"
        error: unknown key `cxxx`
         --> presets/x.toml:2:1
          |
        2 | cxxx = "g++"
          | ^^^^
          |
          = help: `cxx`

        error: -D a=b: unknown

        error: no place
         |
         = help: do this
        "#);
    }

    #[test]
    fn spans_beyond_the_text_are_shown_too() {
        let file = Arc::new(SourceFile { path: "x.toml".into(), text: "ü".into() });
        for span in [1..9, 5..9, 0..1] {
            let error = PresetError::from(Fault::at(&Origin::in_file(&file, span), "odd"));
            assert!(error.render(false).contains("x.toml:1:"), "{}", error.render(false));
        }
    }
}
