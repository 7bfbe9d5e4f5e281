//! One thing that an audit found.

use std::fmt;

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Note,
    /// May fail elsewhere.
    Warning,
    /// Will not load, or will load what it must not.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        })
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that found it: see [`super::rules`].
    pub rule: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What is wrong, and where.
    pub message: String,
    /// What to do.
    pub fix: Option<String>,
}

impl Finding {
    /// An error.
    pub fn error(rule: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { rule, level: Level::Error, message: message.into(), fix: Some(fix.into()) }
    }

    /// A warning.
    pub fn warning(rule: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(rule, message, fix) }
    }

    /// A note.
    pub fn note(rule: &'static str, message: impl Into<String>) -> Self {
        Self { rule, level: Level::Note, message: message.into(), fix: None }
    }
}
