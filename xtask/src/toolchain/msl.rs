//! The compiler of Metal shaders on the host device: a clang of the machine, else zig's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{Memory, Tool, Version};
use crate::environment::Environment;
use crate::process::Invocation;

/// The oldest clang that compiles what the host device makes of a shader.
pub const OLDEST: Version = Version(15, 0, 0);

/// Versions whose programs carry the version in their name, newest first.
const NUMBERED: std::ops::RangeInclusive<u32> = 15..=22;

/// The clang to use: `ETMETAL_CLANG`, else the first of `clang++-22` … `clang++-15`, `clang++`,
/// `clang` that is new enough. Nothing where the machine has none.
///
/// # Errors
/// `ETMETAL_CLANG` names something that is no clang, or too old.
pub fn find_clang(environment: &Environment, memory: &Memory) -> Result<Option<Tool>> {
    if let Some(named) = environment.get("ETMETAL_CLANG") {
        let context = || format!("ETMETAL_CLANG={}", named.display());
        let path = environment.which(named).context("there is no such program");
        let tool = path.and_then(|path| probe(&path, memory)).with_context(context)?;
        return Ok(Some(tool));
    }
    let numbered = NUMBERED.rev().map(|n| format!("clang++-{n}"));
    let names = numbered.chain(["clang++".to_owned(), "clang".to_owned()]);
    Ok(names
        .flat_map(|name| environment.which_all(name))
        .find_map(|path| probe(&path, memory).ok()))
}

fn probe(path: &Path, memory: &Memory) -> Result<Tool> {
    let text = memory.ask(&Invocation::new(path).arg("--version"), path)?;
    ensure!(text.contains("clang"), "{} is no clang", path.display());
    let version = Version::in_text(&text).context("it names no version")?;
    ensure!(version >= OLDEST, "clang {version} is too old: {OLDEST} or newer is needed");
    Ok(Tool { path: path.to_owned(), version })
}

/// What compiles shaders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MslCompiler {
    /// A clang of the machine.
    Clang(Tool),
    /// The clang in zig; this is the path of `zig`.
    Zig(PathBuf),
}

impl MslCompiler {
    /// The command that begins every compilation, one argument an entry.
    pub fn command(&self) -> Vec<OsString> {
        match self {
            MslCompiler::Clang(tool) => vec![tool.path.clone().into()],
            MslCompiler::Zig(path) => vec![path.clone().into(), "c++".into()],
        }
    }

    /// The same as the stage keeps it: one argument a line.
    pub fn file_text(&self) -> String {
        self.command().iter().map(|arg| format!("{}\n", arg.display())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venv::tests::FakePrograms;

    fn find_clang(environment: &Environment) -> Result<Option<Tool>> {
        super::find_clang(environment, &Memory::default())
    }

    fn clang(version: &str) -> String {
        format!("echo 'Debian clang version {version} (3)'")
    }

    #[test]
    fn the_newest_numbered_clang_wins_and_old_ones_do_not_count() {
        let fake = FakePrograms::new();
        assert_eq!(find_clang(&fake.environment()).unwrap(), None);
        fake.program("clang", &clang("14.0.6"));
        assert_eq!(find_clang(&fake.environment()).unwrap(), None, "14 is too old");
        fake.program("clang++", &clang("16.0.0"));
        assert_eq!(find_clang(&fake.environment()).unwrap().unwrap().version, Version(16, 0, 0));
        fake.program("clang++-19", &clang("19.1.7"));
        fake.program("clang++-20", "exit 1");
        let tool = find_clang(&fake.environment()).unwrap().unwrap();
        assert_eq!(tool, Tool { path: fake.path("clang++-19"), version: Version(19, 1, 7) });
        let text = MslCompiler::Clang(tool).file_text();
        assert_eq!(text, format!("{}\n", fake.path("clang++-19").display()));
    }

    #[test]
    fn a_named_compiler_must_be_a_clang_that_is_new_enough() {
        let fake = FakePrograms::new();
        fake.program("old", &clang("14.0.6"));
        fake.program("gcc", "echo 'g++ (Debian) 12.2.0'");
        let error = |name: &str| {
            let environment = fake.environment().with("ETMETAL_CLANG", name);
            format!("{:#}", find_clang(&environment).unwrap_err())
        };
        assert_eq!(
            error("old"),
            "ETMETAL_CLANG=old: clang 14.0.6 is too old: 15.0.0 or newer is needed"
        );
        assert!(error("gcc").ends_with("gcc is no clang"), "{}", error("gcc"));
        assert_eq!(error("none"), "ETMETAL_CLANG=none: there is no such program");
    }

    #[test]
    fn zig_compiles_through_its_cxx_command() {
        let zig = MslCompiler::Zig("/v/ziglang/zig".into());
        assert_eq!(zig.file_text(), "/v/ziglang/zig\nc++\n");
    }
}
