//! The licences of everything that is inside, as one text.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::crates::Crate;
use super::pyproject::{LICENCES, THIRD_PARTY};
use super::tree::Tree;

/// The licences that may be inside.
const ALLOWED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "MPL-2.0",
    "Unlicense",
    "Unicode-3.0",
    "CC0-1.0",
    "0BSD",
];

/// Something that is no crate and still inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Its name and version.
    pub name: String,
    /// The text of its licence.
    pub text: String,
}

/// The text: each licence once, with all that are under it.
///
/// `own` is the folder with this project's licences.
///
/// # Errors
/// A crate has a licence that may not be inside, or neither a text nor one of the usual licences.
pub fn text(crates: &[Crate], others: &[Other], own: &Path) -> Result<String> {
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for other in others {
        by_text.entry(tidy(&other.text)).or_default().push(other.name.clone());
    }
    for one in crates.iter().filter(|one| !one.is_own()) {
        check(one)?;
        for text in texts(one, own)? {
            by_text.entry(tidy(&text)).or_default().push(format!("{} ({})", one.id(), one.licence));
        }
    }
    let mut all: Vec<_> = by_text.into_iter().map(|(text, names)| (names, text)).collect();
    all.sort();
    let mut out = String::from(
        "etmetal is under the MIT licence or the Apache License 2.0, as you like. It contains parts \
         of others; each text is preceded by what is under it.\n",
    );
    let line = "=".repeat(79);
    for (names, text) in all {
        out += &format!("\n{line}\n{}\n{line}\n\n{text}\n", names.join("\n"));
    }
    Ok(out)
}

/// The files with all licences: this project's, which lie in the folder `own`, and `third_party`,
/// the text of those of others.
///
/// # Errors
/// A file cannot be read.
pub fn files(own: &Path, third_party: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    for file in LICENCES {
        tree.copy(&own.join(file), file)?;
    }
    tree.file(THIRD_PARTY, third_party);
    Ok(tree)
}

fn tidy(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// Whether the crate can be had under licences that are allowed.
fn check(one: &Crate) -> Result<()> {
    let plain = one.licence.replace(['(', ')'], " ");
    let alternatives = |all: &str| {
        let allowed = |name: &str| ALLOWED.contains(&name.trim());
        all.split(" OR ").any(|one| allowed(one.split(" WITH ").next().unwrap_or(one)))
    };
    if plain.split(" AND ").all(alternatives) {
        return Ok(());
    }
    bail!(
        "the crate {} is under {:?}; what is shipped may be under {}",
        one.id(),
        one.licence,
        ALLOWED.join(", ")
    )
}

/// The texts that a crate brings; for one that brings none, the usual texts of its licences.
fn texts(one: &Crate, own: &Path) -> Result<Vec<String>> {
    let context =
        || format!("cannot read the licences of {} in {}", one.id(), one.folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&one.folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
        let starts = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
        if path.is_file() && starts.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    if !files.is_empty() {
        return files.iter().map(|path| read(path).with_context(context)).collect();
    }
    let holder = match one.authors.as_slice() {
        [] => format!("the authors of {}", one.name),
        authors => authors.join(", "),
    };
    let usual = [("MIT", "LICENSE-MIT"), ("Apache-2.0", "LICENSE-APACHE")];
    let named = usual.iter().find(|(name, _)| one.licence.split(' ').any(|word| word == *name));
    let (_, file) = named.with_context(|| {
        format!("the crate {} ({}) brings no text of its licence", one.id(), one.licence)
    })?;
    let text = read(&own.join(file))?;
    let lines = text.lines().map(|line| match line.starts_with("Copyright (c)") {
        true => format!("Copyright (c) {holder}"),
        false => line.to_owned(),
    });
    Ok(vec![lines.collect::<Vec<_>>().join("\n")])
}

fn read(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(licence: &str, folder: &Path) -> Crate {
        Crate {
            name: "half".into(),
            version: "2.7.1".into(),
            licence: licence.into(),
            authors: vec!["A. Uthor".into()],
            folder: folder.to_owned(),
            checksum: Some("0".into()),
            uses: Vec::new(),
        }
    }

    #[test]
    fn texts_stand_once_and_crates_without_one_get_the_usual() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let other = Other { name: "ExecuTorch 1.5.1".into(), text: "shared text\n".into() };
        let bare = one("MIT OR Apache-2.0", folder.path());
        let text = |one: &Crate| text(std::slice::from_ref(one), std::slice::from_ref(&other), own);
        let usual = text(&bare).unwrap();
        assert!(usual.contains("half 2.7.1 (MIT OR Apache-2.0)\n"), "{usual}");
        assert!(usual.contains("Copyright (c) A. Uthor\n"), "{usual}");
        std::fs::write(folder.path().join("LICENSE-MIT"), "shared text  \r\n\n").unwrap();
        let once = text(&bare).unwrap();
        assert_eq!(once.matches("shared text").count(), 1, "{once}");
        assert!(once.contains("ExecuTorch 1.5.1\nhalf 2.7.1 (MIT OR Apache-2.0)\n"), "{once}");
    }

    #[test]
    fn licences_that_may_not_be_inside_are_refused_by_name() {
        let good = ["MIT", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "Zlib"];
        let wrong = ["GPL-3.0", "MIT AND GPL-3.0", "AGPL-3.0 OR SSPL-1.0", "Apache"];
        let folder = Path::new("/");
        assert!(good.iter().all(|licence| check(&one(licence, folder)).is_ok()));
        for licence in wrong {
            let error = check(&one(licence, folder)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("the crate half 2.7.1 is under {licence:?}")));
        }
    }
}
