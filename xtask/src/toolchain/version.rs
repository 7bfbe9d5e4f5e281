//! Versions as tools print them.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::process::Invocation;

/// `major.minor.patch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// The first thing in `text` that looks like a version: a word that begins with a digit and
    /// has a dot, as in `Debian clang version 19.1.7 (3+b1)`.
    pub fn in_text(text: &str) -> Option<Self> {
        text.split(|c: char| c.is_whitespace() || "(),-+".contains(c)).find_map(Self::parse)
    }

    fn parse(word: &str) -> Option<Self> {
        let word = word.strip_prefix('v').unwrap_or(word);
        let mut parts = word.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let patch = parts.next().map_or(0, |p| {
            let digits = p.find(|c: char| !c.is_ascii_digit()).map_or(p, |end| &p[..end]);
            digits.parse().unwrap_or(0)
        });
        Some(Self(major, minor, patch))
    }

    /// What `program args…` says.
    ///
    /// # Errors
    /// It does not run, or says nothing that looks like a version.
    pub fn of(program: &Path, args: &[&str]) -> Result<Self> {
        let invocation = Invocation::new(program).args(args.iter().copied());
        let text = invocation.read()?;
        Self::in_text(&text).with_context(|| {
            let first = text.lines().next().unwrap_or_default();
            format!("`{invocation}` names no version: {first:?}")
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_tools_print() {
        let found = |text| Version::in_text(text).unwrap().to_string();
        assert_eq!(
            found("Debian clang version 19.1.7 (3+b1)\nTarget: x86_64-pc-linux-gnu"),
            "19.1.7"
        );
        assert_eq!(found("Apple clang version 16.0.0 (clang-1600.0.26.6)"), "16.0.0");
        assert_eq!(found("g++ (Debian 12.2.0-14+deb12u1) 12.2.0"), "12.2.0");
        assert_eq!(found("git version 2.39.5"), "2.39.5");
        assert_eq!(found("cmake version 3.28"), "3.28.0");
        assert_eq!(found("rustc 1.97.0-nightly (abc 2026-04-14)"), "1.97.0");
        assert_eq!(found("1.13.2.git.kitware"), "1.13.2");
        assert_eq!(Version::in_text("no version, x86_64.b"), None);
    }

    #[test]
    fn a_tool_that_does_not_run_is_an_error() {
        let error = Version::of(Path::new("/nowhere/cc"), &["--version"]).unwrap_err();
        assert!(error.to_string().contains("/nowhere/cc"), "{error}");
        let error = Version::of(Path::new("echo"), &["hello"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`echo hello` names no version: \"hello\\n\"".replace("\\n", "")
        );
    }
}
