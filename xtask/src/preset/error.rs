//! What is wrong with a preset: everything that was found, not only the first thing.

use std::fmt;

use super::origin::Origin;

/// All faults found in one go, each with its place.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PresetError {
    faults: Vec<String>,
}

impl PresetError {
    /// One fault with no place in a file.
    pub fn new(fault: impl Into<String>) -> Self {
        Self { faults: vec![fault.into()] }
    }

    /// One fault at `origin`.
    pub fn at(origin: &Origin, fault: impl fmt::Display) -> Self {
        Self::new(format!("{origin}: {fault}"))
    }

    /// Adds a fault at `origin`.
    pub fn push(&mut self, origin: &Origin, fault: impl fmt::Display) {
        self.faults.push(format!("{origin}: {fault}"));
    }

    /// Adds the faults of `other`.
    pub fn extend(&mut self, other: PresetError) {
        self.faults.extend(other.faults);
    }

    /// The same with the faults of `other` after its own.
    #[must_use]
    pub fn with(mut self, other: PresetError) -> Self {
        self.extend(other);
        self
    }

    /// `Ok(value)` if nothing was found.
    ///
    /// # Errors
    /// Itself, if something was.
    pub fn or<T>(self, value: T) -> Result<T, PresetError> {
        if self.faults.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for PresetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.faults.join("\n"))
    }
}

impl std::error::Error for PresetError {}
