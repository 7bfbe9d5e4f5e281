//! Writing to the terminal.

use std::io::{IsTerminal, Write};

use etmetal::{Error, Result};
use serde::Serialize;

/// Writes `text` and a newline to standard output. A reader that has gone (`| head`) is no error.
///
/// # Errors
/// Standard output cannot be written, as on a full disk.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::System(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a report to standard output as JSON.
///
/// # Errors
/// As for [`print`].
pub fn print_json(report: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(report)
        .map_err(|e| Error::Internal(format!("the report is no JSON: {e}")))?;
    print(&text)
}

/// Colours, where they are wanted: on a terminal, and not with `NO_COLOR`.
#[derive(Clone, Copy)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// The style for this stream.
    pub fn of(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: stream.is_terminal() && !refused }
    }

    /// No colours.
    #[cfg(test)]
    pub fn plain() -> Self {
        Self { colour: false }
    }

    fn paint(self, code: u8, text: &str) -> String {
        if self.colour { format!("\x1b[1;{code}m{text}\x1b[0m") } else { text.into() }
    }

    /// Red, for what is wrong.
    pub fn red(self, text: &str) -> String {
        self.paint(31, text)
    }

    /// Green, for what is right.
    pub fn green(self, text: &str) -> String {
        self.paint(32, text)
    }
}

/// An error as a short number: `0`, `5.96e-8`.
pub fn error_text(error: f64) -> String {
    if error == 0.0 { "0".into() } else { format!("{error:.2e}") }
}

/// `1.25 ms`, `3.2 s`.
pub fn duration_text(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}
