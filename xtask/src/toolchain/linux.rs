//! Building for Linux on a Linux machine with another processor, by the compiler that
//! distributions have for that: `aarch64-linux-gnu-g++`, with its own glibc and libstdc++.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::install::Installer;
use crate::environment::Environment;
use crate::preset::{Preset, platform};
use crate::process::Invocation;

/// Whether `preset` is built for a Linux other than the machine's.
pub fn is_cross(preset: &Preset) -> bool {
    !platform::is_apple(&preset.target) && preset.target != preset.machine
}

/// The processor of a triple.
pub fn processor(triple: &str) -> &str {
    triple.split('-').next().unwrap_or(triple)
}

/// What the distributions' compiler for `triple` is called.
pub fn program(triple: &str) -> String {
    format!("{}-linux-gnu-g++", processor(triple))
}

/// The C++ compiler for `preset`, which [`is_cross`]: the one that it names, else the
/// distribution's. `CXX` names a compiler for this machine.
///
/// # Errors
/// There is none, with how to install it.
pub fn find(environment: &Environment, preset: &Preset, installer: Installer) -> Result<PathBuf> {
    if let Some(named) = &preset.toolchain.cxx {
        return super::cxx::find(environment, Some(named), installer);
    }
    find_for(environment, &preset.target, installer)
}

/// The distribution's C++ compiler for `triple`.
///
/// # Errors
/// It is not there, with how to install it.
pub fn find_for(environment: &Environment, triple: &str, installer: Installer) -> Result<PathBuf> {
    let program = program(triple);
    environment.which(&program).with_context(|| {
        let processor = processor(triple);
        let install = match installer {
            Installer::Apt => {
                format!("apt-get install -y g++-{}-linux-gnu", processor.replace('_', "-"))
            }
            _ => "see the distribution's cross compilers".to_owned(),
        };
        format!(
            "there is no C++ compiler for {processor} Linux ({program}). Install one: {install}; \
             another one can be named by `-D toolchain.cxx=PROGRAM`"
        )
    })
}

/// The C compiler that belongs to `cxx`.
pub fn cc(cxx: &Path) -> PathBuf {
    let name = cxx.file_name().unwrap_or_default().to_string_lossy();
    let name = match name.contains("clang++") {
        true => name.replace("clang++", "clang"),
        false => name.replace("g++", "gcc"),
    };
    cxx.with_file_name(name)
}

/// `cargo` with what it has to know to compile C and C++ and to link by `cxx`.
pub fn cargo(preset: &Preset, cxx: &Path, cargo: Invocation) -> Invocation {
    let variable = preset.target.replace('-', "_");
    let named = preset.toolchain.cc.as_ref().map(|cc| PathBuf::from(&cc.value));
    cargo
        .env(&format!("CC_{variable}"), named.unwrap_or_else(|| cc(cxx)))
        .env(&format!("CXX_{variable}"), cxx)
        .arg("--config")
        .arg(format!("target.{}.linker={:?}", preset.target, cxx.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venv::tests::FakePrograms;

    #[test]
    fn the_compiler_is_the_distributions_or_told_to_be_missing() {
        let fake = FakePrograms::new();
        let triple = "aarch64-unknown-linux-gnu";
        let find =
            |installer| find_for(&fake.environment(), triple, installer).map_err(|e| e.to_string());
        insta::assert_snapshot!(find(Installer::Apt).unwrap_err(), @"there is no C++ compiler for aarch64 Linux (aarch64-linux-gnu-g++). Install one: apt-get install -y g++-aarch64-linux-gnu; another one can be named by `-D toolchain.cxx=PROGRAM`");
        assert!(find(Installer::Dnf).unwrap_err().contains("the distribution's cross compilers"));
        fake.program("aarch64-linux-gnu-g++", "");
        assert_eq!(find(Installer::Apt).unwrap(), fake.path("aarch64-linux-gnu-g++"));
        assert_eq!(
            cc(Path::new("/x/aarch64-linux-gnu-g++")),
            Path::new("/x/aarch64-linux-gnu-gcc")
        );
        assert_eq!(cc(Path::new("/x/clang++-19")), Path::new("/x/clang-19"));
    }
}
