//! What links for Apple systems on others: a clang and LLVM's linker for Mach-O.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::install::{Installer, Package};
use super::{Memory, msl};
use crate::environment::Environment;
use crate::process::Invocation;

/// Versions that the linker's name may carry, newest first.
const NUMBERED: std::ops::RangeInclusive<u32> = 15..=22;

/// The tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cross {
    /// A clang.
    pub clang: PathBuf,
    /// LLVM's linker for Mach-O. Its version need not be clang's.
    pub linker: PathBuf,
}

/// LLVM's linker for Mach-O: the first of `ld64.lld-22` … `ld64.lld-15`, `ld64.lld`.
pub fn find_linker(environment: &Environment) -> Option<PathBuf> {
    let numbered = NUMBERED.rev().map(|version| format!("ld64.lld-{version}"));
    numbered.chain(["ld64.lld".to_owned()]).find_map(|name| environment.which(name))
}

impl Cross {
    /// Finds the tools.
    ///
    /// # Errors
    /// One is missing, with how to install it.
    pub fn find(environment: &Environment, installer: Installer) -> Result<Self> {
        let clang = msl::find_clang(environment, &Memory::default())?.with_context(|| {
            format!("there is no clang. Install one: {}", installer.command(Package::Clang))
        })?;
        let linker = find_linker(environment).with_context(|| {
            let command = installer.command(Package::Lld);
            format!("there is no ld64.lld (LLVM's linker for Mach-O). Install it: {command}")
        })?;
        Ok(Self { clang: clang.path, linker })
    }

    /// Compiles and links for `target`, as clang names it (`arm64-apple-macos14.0`), against the
    /// SDK in the folder `sdk`.
    pub fn clang(&self, target: &str, sdk: &Path) -> Invocation {
        let mut linker = std::ffi::OsString::from("--ld-path=");
        linker.push(&self.linker);
        Invocation::new(&self.clang)
            .arg(format!("--target={target}"))
            // The path alone would be taken for a linker of old Apple systems.
            .arg("-fuse-ld=lld")
            .arg(linker)
            .arg("-isysroot")
            .arg(sdk)
            // Without Apple's SDK there are no builtins of clang for it either.
            .args(["-nostdlibinc", "-Wno-incompatible-sysroot"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venv::tests::FakePrograms;

    #[test]
    fn a_missing_tool_is_named_with_its_command() {
        let fake = FakePrograms::new();
        let find = || Cross::find(&fake.environment(), Installer::Apt).map_err(|e| e.to_string());
        assert_eq!(
            find().unwrap_err(),
            "there is no clang. Install one: apt-get install -y clang-19"
        );
        fake.program("clang++-18", "echo 'clang version 18.1.8'");
        assert_eq!(
            find().unwrap_err(),
            "there is no ld64.lld (LLVM's linker for Mach-O). Install it: apt-get install -y lld-19"
        );
        fake.program("ld64.lld", "");
        fake.program("ld64.lld-19", "");
        assert_eq!(find().unwrap().linker, fake.path("ld64.lld-19"));
    }
}
