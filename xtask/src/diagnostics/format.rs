//! How the first line of an error or a warning looks, one function for each tool.

use super::{Diagnostic, Level, Speaker};

/// What begins at a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// All of it.
    Whole(Diagnostic),
    /// CMake: the indented lines that follow are the text.
    Indented(Diagnostic),
    /// rustc: the line that begins with `-->` gives the place.
    Arrow(Diagnostic),
    /// Apple's linker: the next line names the symbol.
    Symbol,
}

/// What begins at `line`, if anything does.
pub fn start(line: &str) -> Option<Start> {
    cmake(line)
        .or_else(|| rust(line))
        .or_else(|| linker(line))
        .or_else(|| build_tool(line))
        .or_else(|| compiler(line).map(Start::Whole))
}

fn whole(level: Level, speaker: Speaker, text: &str) -> Start {
    Start::Whole(Diagnostic { level, speaker, place: None, text: text.trim().to_owned() })
}

/// `CMake Error at CMakeLists.txt:3 (message):`, `CMake Warning (dev) in …:`, `CMake Error: text`.
fn cmake(line: &str) -> Option<Start> {
    let rest = line.strip_prefix("CMake ")?;
    let (level, rest) = match rest.split_once(' ')? {
        ("Error" | "Error:", _) => (Level::Error, rest.strip_prefix("Error")?),
        ("Deprecation", rest) => (Level::Warning, rest.strip_prefix("Warning")?),
        ("Warning" | "Warning:", _) => (Level::Warning, rest.strip_prefix("Warning")?),
        _ => return None,
    };
    let rest = match rest.strip_prefix(" (") {
        Some(kind) => kind.split_once(')')?.1,
        None => rest,
    };
    if let Some(text) = rest.strip_prefix(':') {
        let diagnostic = Diagnostic {
            level,
            speaker: Speaker::CMake,
            place: None,
            text: text.trim().to_owned(),
        };
        return Some(match diagnostic.text.is_empty() {
            true => Start::Indented(diagnostic),
            false => Start::Whole(diagnostic),
        });
    }
    let place = rest.strip_prefix(" at ").or_else(|| rest.strip_prefix(" in "))?;
    let place = place.trim_end_matches(':');
    // The command in parentheses says nothing that the place does not.
    let place = place.rsplit_once(" (").map_or(place, |(place, _)| place);
    Some(Start::Indented(Diagnostic {
        level,
        speaker: Speaker::CMake,
        place: Some(place.to_owned()),
        text: String::new(),
    }))
}

/// `error[E0308]: mismatched types`, `warning: unused variable`, `error: could not compile`.
fn rust(line: &str) -> Option<Start> {
    let (head, text) = line.split_once(": ")?;
    let level = match head {
        "error" => Level::Error,
        "warning" => Level::Warning,
        head if head.starts_with("error[E") && head.ends_with(']') => Level::Error,
        _ => return None,
    };
    // Sums over what was said before.
    let is_sum = text.contains("generated ") && text.contains(" warning")
        || text.starts_with("could not compile ")
        || text.starts_with("aborting due to ");
    let text = text.trim().to_owned();
    let diagnostic = Diagnostic { level, speaker: Speaker::Rust, place: None, text };
    (!is_sum).then_some(Start::Arrow(diagnostic))
}

/// GNU ld, lld, Apple's ld.
fn linker(line: &str) -> Option<Start> {
    if line.starts_with("Undefined symbols for architecture ") {
        return Some(Start::Symbol);
    }
    for mark in [": undefined reference to ", ": multiple definition of "] {
        if let Some(at) = line.find(mark) {
            return Some(whole(Level::Error, Speaker::Linker, &line[at + 2..]));
        }
    }
    let (program, rest) = line.split_once(": ")?;
    let name = program.rsplit('/').next()?;
    // `x86_64-linux-gnu-ld`, `ld64.lld`, `ld.gold` too.
    if !name.split(['.', '-']).any(|part| matches!(part, "ld" | "ld64" | "lld" | "gold")) {
        return None;
    }
    if let Some(text) = rest.strip_prefix("warning: ") {
        return Some(whole(Level::Warning, Speaker::Linker, text));
    }
    let fatal = ["error: ", "fatal error: ", "cannot find ", "unrecognized option "];
    let text = match fatal.iter().find(|head| rest.starts_with(**head))? {
        head if head.ends_with("error: ") => rest.strip_prefix(head)?,
        _ => rest,
    };
    Some(whole(Level::Error, Speaker::Linker, text))
}

/// `ninja: error: …`, `make: *** …`, `ERROR: …` (pip).
fn build_tool(line: &str) -> Option<Start> {
    if let Some(text) = line.strip_prefix("ninja: error: ") {
        return Some(whole(Level::Error, Speaker::BuildTool, text));
    }
    if let Some(text) = line.strip_prefix("ERROR: ") {
        return Some(whole(Level::Error, Speaker::Pip, text));
    }
    let text = line.strip_prefix("make: *** ")?;
    // That a target failed is no news: why it did was said before.
    (!text.contains("] Error ")).then(|| whole(Level::Error, Speaker::BuildTool, text))
}

/// `file:line:column: error: text`, as GCC and clang have it; the column may be missing, and the
/// file too, as in `cc1plus: error: …`.
fn compiler(line: &str) -> Option<Diagnostic> {
    let marks = [
        (": fatal error: ", Level::Error),
        (": error: ", Level::Error),
        (": warning: ", Level::Warning),
    ];
    let (at, mark, level) = marks
        .iter()
        .filter_map(|(mark, level)| Some((line.find(mark)?, *mark, *level)))
        .min_by_key(|(at, ..)| *at)?;
    let (place, text) = (&line[..at], &line[at + mark.len()..]);
    let program = place.rsplit('/').next()?;
    let is_place = place.rsplit(':').next().is_some_and(|n| n.parse::<u32>().is_ok());
    let is_compiler = ["cc1", "g++", "gcc", "clang", "c++", "cc"]
        .iter()
        .any(|name| program == *name || program.starts_with(name) || program.ends_with(name));
    if !is_place && (!is_compiler || program.contains(' ')) {
        return None;
    }
    // What the driver says after the linker has said why.
    if text.starts_with("linker command failed") {
        return None;
    }
    Some(Diagnostic {
        level,
        speaker: Speaker::Compiler,
        place: Some(place.to_owned()),
        text: text.trim().to_owned(),
    })
}
