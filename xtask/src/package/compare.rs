//! What differs between two makings of a release, and why it probably does.

use std::collections::{BTreeMap, BTreeSet};

use object::{Object as _, ObjectSection as _};

use super::archive::{self, Form};
use super::epoch::Epoch;
use super::tree::{Member, Tree};

/// The files of a release, by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What is different where the second making was, which explains differences.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    /// Names and paths that only one of the two makings saw, each with what it is.
    pub traces: Vec<(String, &'static str)>,
}

/// Compares; no line where both are the same.
pub fn compare(one: &Files, two: &Files, epoch: Epoch, around: &Circumstances) -> Vec<String> {
    let names: BTreeSet<_> = one.keys().chain(two.keys()).collect();
    let mut lines = Vec::new();
    for name in names {
        match (one.get(name), two.get(name)) {
            (Some(one), Some(two)) if one == two => {}
            (Some(one), Some(two)) => lines.extend(file(name, one, two, epoch, around)),
            (Some(_), None) => lines.push(format!("{name}: only the first making has it")),
            (None, _) => lines.push(format!("{name}: only the second making has it")),
        }
    }
    lines
}

fn file(name: &str, one: &[u8], two: &[u8], epoch: Epoch, around: &Circumstances) -> Vec<String> {
    let read = |bytes| Form::of(name).and_then(|form| archive::unpack(form, bytes, epoch)).ok();
    let (Some(first), Some(second)) = (read(one), read(two)) else {
        return vec![format!("{name}: {}", bytes(one, two, around))];
    };
    let found = members(name, &first, &second, around);
    if found.is_empty() {
        let how = bytes(one, two, around);
        return vec![format!("{name}: the members are the same, but the archive is not: {how}")];
    }
    found
}

fn members(name: &str, one: &Tree, two: &Tree, around: &Circumstances) -> Vec<String> {
    let paths: BTreeSet<_> = one.iter().chain(two.iter()).map(|(path, _)| path).collect();
    let mut lines = Vec::new();
    for path in paths {
        let line = match (one.get(path), two.get(path)) {
            (Some(one), Some(two)) if one == two => continue,
            (Some(one), Some(two)) if one.bytes() == two.bytes() => {
                format!(
                    "mode {:o} in one and {:o} in the other; likely cause: the umask",
                    one.mode(),
                    two.mode()
                )
            }
            (Some(Member::File(one, _)), Some(Member::File(two, _))) => bytes(one, two, around),
            (Some(_), Some(_)) => "a link in one of them names something else".to_owned(),
            (Some(_), None) => "only the first making has it".to_owned(),
            (None, _) => "only the second making has it".to_owned(),
        };
        lines.push(format!("{name}: member {path}: {line}"));
    }
    lines
}

/// Where two contents differ: the section, the offset, the bytes, and why.
fn bytes(one: &[u8], two: &[u8], around: &Circumstances) -> String {
    let at = one.iter().zip(two).position(|(one, two)| one != two);
    let at = at.unwrap_or_else(|| one.len().min(two.len()));
    let section = section(one, at).map_or(String::new(), |name| format!("in section {name} "));
    let sizes = match one.len() == two.len() {
        true => {
            let count = one.iter().zip(two).filter(|(one, two)| one != two).count();
            format!("{count} of {} bytes", one.len())
        }
        false => format!("{} bytes and {} bytes", one.len(), two.len()),
    };
    format!(
        "differs {section}from byte {at:#x} on ({sizes}): {} and {}; likely cause: {}",
        excerpt(one, at),
        excerpt(two, at),
        cause(one, two, at, &section, around)
    )
}

/// Bytes that are shown.
const SHOWN: usize = 24;

fn excerpt(bytes: &[u8], at: usize) -> String {
    let shown = &bytes[at.min(bytes.len())..(at + SHOWN).min(bytes.len())];
    format!("\"{}\"", shown.escape_ascii())
}

/// The section of an ELF or Mach-O file that holds the byte.
fn section(bytes: &[u8], at: usize) -> Option<String> {
    let file = object::File::parse(bytes).ok()?;
    let at = at as u64;
    let holds = |section: &object::Section<'_, '_>| {
        section.file_range().is_some_and(|(start, size)| (start..start + size).contains(&at))
    };
    let found = file.sections().find(holds)?;
    found.name().ok().map(str::to_owned)
}

/// Bytes before and after a difference in which the cause is looked for.
const NEAR: usize = 256;

fn cause(one: &[u8], two: &[u8], at: usize, section: &str, around: &Circumstances) -> String {
    let near = |bytes: &[u8]| -> Vec<u8> {
        bytes[at.saturating_sub(NEAR).min(bytes.len())..(at + NEAR).min(bytes.len())].to_vec()
    };
    let has = |bytes: &[u8], text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
    for place in [near(one), near(two)] {
        for (trace, what) in around.traces.iter().filter(|(trace, _)| trace.len() > 2) {
            if has(&place, trace) {
                return format!("{what} {trace:?} is in it");
            }
        }
    }
    // Not near the first difference, but somewhere: what came before it has moved.
    for (trace, what) in around.traces.iter().filter(|(trace, _)| trace.len() > 8) {
        if has(one, trace) != has(two, trace) {
            return format!("{what} {trace:?} is in one of the two");
        }
    }
    let guess = match section {
        _ if section.contains("build-id") => {
            "the build identifier, which follows from all the rest"
        }
        _ if section.contains("debug") => "paths or order in the debug information",
        _ if section.contains("symtab") || section.contains("strtab") => {
            "names of symbols, which hash the paths of crates"
        }
        _ if one.len() == two.len() && is_time(one, two, at) => "a time of the clock",
        _ if section.contains("text") => "other code: flags, features or versions of the compiler",
        _ => "the order in which something was done, or a version of a tool",
    };
    guess.to_owned()
}

/// Whether both have a number at `at` that is a time of these years.
fn is_time(one: &[u8], two: &[u8], at: usize) -> bool {
    let is_now = |bytes: &[u8], start: usize| {
        let word = bytes.get(start..start + 4).and_then(|word| word.try_into().ok());
        word.map(u32::from_le_bytes)
            .is_some_and(|seconds| (1_577_836_800..4_000_000_000).contains(&seconds))
    };
    (at.saturating_sub(3)..=at).any(|start| is_now(one, start) && is_now(two, start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lab;

    fn epoch() -> Epoch {
        Epoch::parse("1700000000").unwrap()
    }

    fn packed(path: &str, bytes: &[u8], runs: bool) -> Files {
        let mut tree = Tree::default();
        tree.add(path, Member::File(bytes.to_vec(), runs));
        let packed = archive::pack(Form::TarZst, &tree, epoch()).unwrap();
        [("x.tar.zst".to_owned(), packed.bytes)].into()
    }

    #[test]
    fn a_path_of_one_machine_in_a_section_is_found_with_its_cause() {
        let lab = Lab::new();
        let library = |name: &str, text: &str| {
            let source = format!("extern \"C\" const char text[] = \"{text}\";");
            std::fs::read(lab.native(name, &source, &["-shared", "-nostdlib"])).unwrap()
        };
        let one = library("one.so", "/build/one/src/lib.rs");
        let two = library("two.so", "/build/two/src/lib.rs");
        let around = Circumstances {
            traces: vec![("/build/two".into(), "the folder of the second making")],
        };
        let files = |bytes: &[u8]| packed("lib/x.so", bytes, false);
        assert!(compare(&files(&one), &files(&one), epoch(), &around).is_empty());
        let lines = compare(&files(&one), &files(&two), epoch(), &around);
        assert_eq!(lines.len(), 1, "{lines:?}");
        // The build identifier comes before the text in the file.
        for part in ["x.tar.zst: member lib/x.so: differs in section ", " bytes): "] {
            assert!(lines[0].contains(part), "{}", lines[0]);
        }
        let cause = "the folder of the second making \"/build/two\" is in one of the two";
        assert!(lines[0].contains(cause) || lines[0].contains("is in it"), "{}", lines[0]);
    }

    #[test]
    fn modes_missing_members_and_files_are_told() {
        let around = Circumstances::default();
        let lines =
            compare(&packed("bin/x", b"x", true), &packed("bin/x", b"x", false), epoch(), &around);
        let wanted = "x.tar.zst: member bin/x: mode 755 in one and 644 in the other; likely cause: \
                      the umask";
        assert_eq!(lines, [wanted]);
        let lines =
            compare(&packed("bin/x", b"x", true), &packed("bin/y", b"x", true), epoch(), &around);
        assert!(lines[0].ends_with("member bin/x: only the first making has it"), "{lines:?}");
        assert!(lines[1].ends_with("member bin/y: only the second making has it"), "{lines:?}");
        let lines = compare(&Files::new(), &packed("a", b"", false), epoch(), &around);
        assert_eq!(lines, ["x.tar.zst: only the second making has it"]);
    }

    #[test]
    fn a_clock_in_the_content_is_recognised() {
        let content = |seconds: u32| [b"made at ".to_vec(), seconds.to_le_bytes().into()].concat();
        let one = packed("a", &content(1_796_000_000), false);
        let two = packed("a", &content(1_796_000_777), false);
        let lines = compare(&one, &two, epoch(), &Circumstances::default());
        assert!(lines[0].contains("likely cause: a time of the clock"), "{lines:?}");
    }
}
