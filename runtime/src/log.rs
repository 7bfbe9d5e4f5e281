//! What is told to people and is no error: warnings, on standard error.

use std::fmt::Arguments;

/// Tells of something that goes on, but worse than it should.
pub(crate) fn warning(text: Arguments<'_>) {
    eprintln!("etmetal: warning: {text}");
}
