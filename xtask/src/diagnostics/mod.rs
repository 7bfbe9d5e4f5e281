//! Errors and warnings in what CMake, compilers, linkers, cargo and Ninja print.
//!
//! A [`Reader`] is fed line by line and gives a [`Summary`]; the formats are in [`mod@format`].

pub mod format;
mod reader;

pub use reader::Reader;

use std::collections::BTreeMap;
use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The tool failed because of it.
    Error,
    /// The tool went on.
    Warning,
}

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speaker {
    /// CMake.
    CMake,
    /// A C or C++ compiler.
    Compiler,
    /// A linker.
    Linker,
    /// rustc or cargo.
    Rust,
    /// Ninja or Make.
    BuildTool,
    /// pip.
    Pip,
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Speaker::CMake => "CMake",
            Speaker::Compiler => "the compiler",
            Speaker::Linker => "the linker",
            Speaker::Rust => "rustc",
            Speaker::BuildTool => "the build tool",
            Speaker::Pip => "pip",
        })
    }
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// How bad it is.
    pub level: Level,
    /// Who says it.
    pub speaker: Speaker,
    /// `file:line`, with the column where there is one.
    pub place: Option<String>,
    /// What is wrong, in one line.
    pub text: String,
}

impl Diagnostic {
    /// The flag that switches a compiler's warning off, as `-Wunused-variable`.
    fn flag(&self) -> Option<&str> {
        let inside = self.text.strip_suffix(']')?;
        let flag = &inside[inside.rfind('[')? + 1..];
        flag.starts_with("-W").then_some(flag)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.text)
    }
}

/// What a whole output holds, in the order of its first appearance; what is said again, as of a
/// header that many files include, counts once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Errors.
    pub errors: Vec<Diagnostic>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// Errors that are shown one by one.
const SHOWN: usize = 10;

impl Summary {
    /// The errors for people, `log` being where the rest is; nothing where there are none.
    pub fn error_text(&self, log: &dyn fmt::Display) -> Option<String> {
        let first = self.errors.first()?;
        let mut text = match self.errors.len() {
            1 => format!("{} says:", first.speaker),
            count => format!("{count} errors:"),
        };
        for error in self.errors.iter().take(SHOWN) {
            text += &format!("\n  | {error}");
        }
        if let Some(more) = self.errors.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            text += &format!("\n  | … and {more} more");
        }
        text += &format!("\nThe whole output is in {log}");
        Some(text)
    }

    /// How many warnings of which kind, in one line; nothing where there are none.
    pub fn warning_text(&self, log: &dyn fmt::Display) -> Option<String> {
        let count = self.warnings.len();
        if count == 0 {
            return None;
        }
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for warning in &self.warnings {
            let kind = match warning.flag() {
                Some(flag) => flag.to_owned(),
                None => warning.speaker.to_string(),
            };
            *kinds.entry(kind).or_default() += 1;
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let s = if count == 1 { "" } else { "s" };
        Some(format!("{count} warning{s} ({}), in {log}", kinds.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Invocation;

    fn read(text: &str) -> Summary {
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.line(line));
        reader.finish()
    }

    /// Errors and warnings, one a line.
    fn shown(text: &str) -> String {
        let summary = read(text);
        let line = |d: &Diagnostic| format!("{:?} {:?} {d}\n", d.level, d.speaker);
        summary.errors.iter().chain(&summary.warnings).map(line).collect()
    }

    #[test]
    fn cmake_says_it_in_paragraphs() {
        let text = "\
-- The CXX compiler identification is GNU 12.2.0
CMake Deprecation Warning at gflags/CMakeLists.txt:73 (cmake_minimum_required):
  Compatibility with CMake < 3.10 will be removed from a future version of
  CMake.

  Update the VERSION argument.

CMake Warning (dev) in CMakeLists.txt:
  No project() command is present.
This warning is for project developers.  Use -Wno-dev to suppress it.

CMake Warning (deprecated) at old/CMakeLists.txt:2 (cmake_minimum_required):
  Compatibility.

CMake Error at tools/preset.cmake:95 (message):
  Use of 'A' requires
  'B'
Call Stack (most recent call first):
  CMakeLists.txt:3 (include)


CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage
-- Configuring incomplete, errors occurred!
";
        insta::assert_snapshot!(shown(text), @"
        Error CMake tools/preset.cmake:95: Use of 'A' requires 'B'
        Error CMake CMAKE_CXX_COMPILER not set, after EnableLanguage
        Warning CMake gflags/CMakeLists.txt:73: Compatibility with CMake < 3.10 will be removed from a future version of CMake.
        Warning CMake CMakeLists.txt: No project() command is present.
        Warning CMake old/CMakeLists.txt:2: Compatibility.
        ");
    }

    #[test]
    fn linkers_cargo_ninja_and_pip_are_understood() {
        let text = "\
/usr/bin/ld: a.o: in function `main':
a.c:(.text+0x5): undefined reference to `missing'
/usr/bin/ld: warning: x.o: missing .note.GNU-stack section implies executable stack
/usr/bin/x86_64-linux-gnu-ld: cannot find -lnowhere: No such file or directory
collect2: error: ld returned 1 exit status
ld.lld: error: undefined symbol: other
>>> referenced by a.c
clang: error: linker command failed with exit code 1 (use -v to see invocation)
Undefined symbols for architecture arm64:
  \"_one\", referenced from:
      _main in a.o
  \"_two\", referenced from:
      _main in a.o
ld: symbol(s) not found for architecture arm64
\u{1b}[1m\u{1b}[31merror[E0308]\u{1b}[0m: mismatched types
  --> src/lib.rs:3:5
   |
warning: unused variable: `x`
 --> src/lib.rs:9:1
warning: `etmetal` (lib) generated 1 warning
error: could not compile `etmetal` (lib) due to 1 previous error
ninja: error: loading 'build.ninja': No such file or directory
ERROR: No matching distribution found for executorch==9
make: *** [Makefile:3: all] Error 2
[5/9] Building error: a.o
";
        insta::assert_snapshot!(shown(text), @"
        Error Linker undefined reference to `missing'
        Error Linker cannot find -lnowhere: No such file or directory
        Error Linker undefined symbol: other
        Error Linker undefined symbol: _one
        Error Linker undefined symbol: _two
        Error Rust src/lib.rs:3:5: mismatched types
        Error BuildTool loading 'build.ninja': No such file or directory
        Error Pip No matching distribution found for executorch==9
        Warning Linker x.o: missing .note.GNU-stack section implies executable stack
        Warning Rust src/lib.rs:9:1: unused variable: `x`
        ");
    }

    #[test]
    fn what_this_machines_compiler_says_is_understood() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("h.h"), "static int unused() { return 1; }\n").unwrap();
        std::fs::write(at("a.cpp"), "#include \"h.h\"\nint f() { return nothing; }\n").unwrap();
        std::fs::write(at("b.cpp"), "#include \"h.h\"\n#include \"gone.h\"\n").unwrap();
        std::fs::write(at("c.cpp"), "#include \"h.h\"\nint g();\nint main() { return g(); }\n")
            .unwrap();
        let mut output = String::new();
        for name in ["a.cpp", "b.cpp", "c.cpp"] {
            let compile = Invocation::new("c++").arg("-Wall").arg(at(name)).arg("-o").arg(at("x"));
            compile
                .run_lines(|line| {
                    output += line;
                    output.push('\n');
                    Ok(())
                })
                .unwrap();
        }
        let summary = read(&output);
        let speakers: Vec<_> = summary.errors.iter().map(|error| error.speaker).collect();
        assert_eq!(
            speakers,
            [Speaker::Compiler, Speaker::Compiler, Speaker::Linker],
            "{output}\n{:?}",
            summary.errors
        );
        let place = summary.errors[0].place.clone().unwrap();
        assert!(place.starts_with(&at("a.cpp:2:")), "{place}");
        assert!(summary.errors[1].text.contains("gone.h"), "{:?}", summary.errors);
        assert!(summary.errors[2].text.contains('g'), "{:?}", summary.errors);
        assert_eq!(summary.warnings.len(), 1, "one header, one warning: {:?}", summary.warnings);
        assert_eq!(
            summary.warning_text(&"x.log").unwrap(),
            "1 warning (1 -Wunused-function), in x.log"
        );
    }

    #[test]
    fn many_errors_are_cut_and_a_quiet_output_is_nothing() {
        let text: String = (1..=12).map(|n| format!("a.c:{n}:1: error: no\n")).collect();
        let shown = read(&text).error_text(&"x.log").unwrap();
        assert!(shown.starts_with("12 errors:\n  | a.c:1:1: no\n"), "{shown}");
        assert!(shown.ends_with("\n  | … and 2 more\nThe whole output is in x.log"), "{shown}");
        let quiet = read("-- Found error: none\n[1/2] cc -Werror a.c\nnote: error: x\n");
        assert_eq!((quiet.error_text(&""), quiet.warning_text(&"")), (None, None));
        let one = read("CMake Error at a:1 (message):\n  Stop").error_text(&"x.log").unwrap();
        assert_eq!(one, "CMake says:\n  | a:1: Stop\nThe whole output is in x.log");
    }
}
