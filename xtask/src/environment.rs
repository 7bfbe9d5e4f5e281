//! The part of the environment that finding tools reads: a value, so that tests can make one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Environment variables.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// This process's.
    pub fn current() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v))).collect())
    }

    /// The same with `name` set.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.0.get(name).filter(|value| !value.is_empty())
    }

    /// Every variable.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OsString)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The program `name`: a path as it is, else the first of its name in `PATH`.
    pub fn which(&self, name: impl Into<OsString>) -> Option<PathBuf> {
        self.which_all(name).into_iter().next()
    }

    /// Every program `name` in `PATH`, in its order.
    pub fn which_all(&self, name: impl Into<OsString>) -> Vec<PathBuf> {
        let folder = std::env::current_dir().unwrap_or_default();
        which::which_in_all(name.into(), self.0.get("PATH"), folder)
            .map(Iterator::collect)
            .unwrap_or_default()
    }
}
