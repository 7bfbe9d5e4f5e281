//! OpenMP: which copy a process gets.
//!
//! Two copies of LLVM's (or Intel's) OpenMP in one process end it with "OMP: Error #15". What is
//! built here therefore names OpenMP through `@rpath`, so that all of a process load one file.

pub mod find;
pub mod repair;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

/// Whose OpenMP it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// LLVM's `libomp`.
    Llvm,
    /// Intel's `libiomp5`, which is LLVM's under another name.
    Intel,
    /// GCC's `libgomp`, which does not mind the others.
    Gnu,
}

impl Flavour {
    /// Whose OpenMP the library of this name or path is, if it is one.
    pub fn of(name: &str) -> Option<Self> {
        let file = name.rsplit('/').next().unwrap_or(name);
        let known = [("libomp", Self::Llvm), ("libiomp5", Self::Intel), ("libgomp", Self::Gnu)];
        // What follows is an extension, a version, or the hash that wheels add.
        let (_, flavour) = known.into_iter().find(|(stem, _)| {
            file.strip_prefix(stem).is_some_and(|rest| rest.starts_with(['.', '-']))
        })?;
        Some(flavour)
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flavour::Llvm => "LLVM",
            Flavour::Intel => "Intel",
            Flavour::Gnu => "GCC",
        })
    }
}

/// Whether a symbol of this C name is OpenMP's.
pub fn is_symbol(name: &str) -> bool {
    ["GOMP_", "omp_", "__kmpc_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether these exports are those of an OpenMP.
pub fn defines(exports: &BTreeSet<String>) -> bool {
    exports.contains("__kmpc_fork_call")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        assert_eq!(Flavour::of("/opt/homebrew/opt/libomp/lib/libomp.dylib"), Some(Flavour::Llvm));
        assert_eq!(Flavour::of("libgomp-a34b3233.so.1"), Some(Flavour::Gnu));
        assert_eq!(Flavour::of("libiomp5.so"), Some(Flavour::Intel));
        assert_eq!(Flavour::of("/opt/libomp/lib/libfoo.dylib"), None);
        assert_eq!(Flavour::of("libompanion.so"), None);
    }
}
