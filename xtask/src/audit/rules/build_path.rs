//! No path of the machine that built the file is left in it.

use std::collections::BTreeSet;

use super::{Finding, Rule, Subject, few};

pub(super) const RULE: Rule = Rule {
    id: "build-path",
    summary: "no path of the machine that built the file is left in it",
    check,
};

/// Beginnings of paths that are of one machine, or of one run of a CI.
const PRIVATE: [&str; 6] =
    ["/home/", "/Users/", "/root/", "/private/var/folders/", "/__w/", "/var/lib/jenkins/"];

/// Paths that are gathered before it is enough.
const MOST: usize = 1000;
/// A longer path is cut off.
const LONGEST: usize = 240;

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let few = |paths: &[String]| few(&paths[..paths.len().min(3)]);
    let bytes = subject.piece.bytes;
    let named = &subject.expected.private_folders;
    let own: Vec<String> = named
        .iter()
        .flat_map(|folder| paths(bytes, &folder.to_string_lossy()))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut findings = Vec::new();
    if !own.is_empty() {
        findings.push(Finding::warning(
            RULE.id,
            format!("paths of this machine are left in it ({}): {}", own.len(), few(&own)),
            "build with `cargo xtask build`, which maps them (--remap-path-prefix, \
             -ffile-prefix-map), or strip it",
        ));
    }
    let others: BTreeSet<String> = PRIVATE.iter().flat_map(|prefix| paths(bytes, prefix)).collect();
    let others: Vec<String> = others.into_iter().filter(|path| !own.contains(path)).collect();
    if !others.is_empty() {
        findings.push(Finding::note(
            RULE.id,
            format!("paths of some machine are left in it ({}): {}", others.len(), few(&others)),
        ));
    }
    findings
}

/// The paths in `bytes` that begin with `prefix`.
fn paths(bytes: &[u8], prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if prefix.len() < 2 {
        return found;
    }
    for at in memchr::memmem::find_iter(bytes, prefix.as_bytes()) {
        // Inside of a longer path it is another folder's.
        if at > 0 && is_path_byte(bytes[at - 1]) && bytes[at - 1] != b'=' && bytes[at - 1] != b':' {
            continue;
        }
        let rest = &bytes[at..bytes.len().min(at + LONGEST)];
        let end = rest.iter().position(|&b| !is_path_byte(b)).unwrap_or(rest.len());
        // A prefix alone is what a program compares with, not a path.
        if end > prefix.len() || !prefix.ends_with('/') {
            found.insert(String::from_utf8_lossy(&rest[..end]).into_owned());
        }
        if found.len() >= MOST {
            break;
        }
    }
    found
}

fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-+@~=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_paths_are_found_and_prefixes_alone_are_not() {
        let bytes = b"x\0/home/me/a b\0/home/\0/srv/home/you\0/home/me/a\0";
        let found: Vec<_> = paths(bytes, "/home/").into_iter().collect();
        assert_eq!(found, ["/home/me/a"]);
        assert_eq!(paths(b"/w/src/main.rs", "/w").len(), 1);
        assert!(paths(b"/", "/").is_empty());
    }
}
