//! Puts diagnostics together from lines.

use std::collections::BTreeSet;

use super::format::{Start, start};
use super::{Diagnostic, Level, Speaker, Summary};

/// Reads an output line by line.
#[derive(Debug, Default)]
pub struct Reader {
    summary: Summary,
    seen: BTreeSet<Diagnostic>,
    open: Option<Open>,
}

/// A diagnostic of which more lines are to come.
#[derive(Debug)]
enum Open {
    Indented(Diagnostic),
    Arrow(Diagnostic),
    Symbol,
}

impl Reader {
    /// Takes the next line.
    pub fn line(&mut self, line: &str) {
        let line = console::strip_ansi_codes(line);
        let line = line.trim_end();
        if let Some(open) = self.open.take() {
            match self.continue_with(open, line) {
                Some(open) => {
                    self.open = Some(open);
                    return;
                }
                None if line.starts_with([' ', '\t']) => return,
                None => {}
            }
        }
        match start(line) {
            None => {}
            Some(Start::Whole(diagnostic)) => self.keep(diagnostic),
            Some(Start::Indented(diagnostic)) => self.open = Some(Open::Indented(diagnostic)),
            Some(Start::Arrow(diagnostic)) => self.open = Some(Open::Arrow(diagnostic)),
            Some(Start::Symbol) => self.open = Some(Open::Symbol),
        }
    }

    /// Gives `line` to what is open: it stays open, or it is kept and closed.
    fn continue_with(&mut self, open: Open, line: &str) -> Option<Open> {
        match open {
            Open::Indented(mut diagnostic) => {
                let text = line.trim();
                let is_end = match text {
                    "" => !diagnostic.text.is_empty(),
                    _ => !line.starts_with([' ', '\t']),
                };
                if is_end {
                    self.keep(diagnostic);
                    return None;
                }
                if !diagnostic.text.is_empty() && !text.is_empty() {
                    diagnostic.text.push(' ');
                }
                diagnostic.text += text;
                Some(Open::Indented(diagnostic))
            }
            Open::Arrow(mut diagnostic) => {
                let place = line.trim_start().strip_prefix("--> ");
                diagnostic.place = place.map(str::to_owned);
                self.keep(diagnostic);
                None
            }
            Open::Symbol => {
                if !line.starts_with(' ') {
                    return None;
                }
                // Other lines say who refers to the symbol.
                if let Some(("", name)) = line.trim().split_once('"') {
                    self.keep(Diagnostic {
                        level: Level::Error,
                        speaker: Speaker::Linker,
                        place: None,
                        text: format!("undefined symbol: {}", name.split('"').next()?),
                    });
                }
                Some(Open::Symbol)
            }
        }
    }

    fn keep(&mut self, diagnostic: Diagnostic) {
        if !self.seen.insert(diagnostic.clone()) {
            return;
        }
        match diagnostic.level {
            Level::Error => self.summary.errors.push(diagnostic),
            Level::Warning => self.summary.warnings.push(diagnostic),
        }
    }

    /// What was found.
    pub fn finish(mut self) -> Summary {
        match self.open.take() {
            Some(Open::Indented(diagnostic) | Open::Arrow(diagnostic)) => self.keep(diagnostic),
            Some(Open::Symbol) | None => {}
        }
        // `collect2: error: ld returned 1 exit status` only repeats the linker's own error.
        if self.summary.errors.len() > 1 {
            self.summary.errors.retain(|error| !error.text.starts_with("ld returned "));
        }
        self.summary
    }
}
