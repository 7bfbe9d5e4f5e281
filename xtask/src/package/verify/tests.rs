use super::*;
use crate::package::archive::Form;
use crate::package::make::{Made, Release as Making};
use crate::package::provenance::Provenance;
use crate::package::tree::Tree;

/// A release of a few hundred bytes an archive, of every form.
fn small() -> Made {
    let mut tree = Tree::default();
    tree.file("a/empty", "");
    tree.program("a/run", "#!/bin/sh\necho run\n");
    tree.file("b.txt", "abc".repeat(300));
    let epoch = Epoch::parse("1700000000").unwrap();
    let mut making = Making::new(epoch);
    for (name, form) in
        [("x.tar.zst", Form::TarZst), ("x.tar.gz", Form::TarGz), ("x.zip", Form::Zip)]
    {
        making.add(name, form, &tree).unwrap();
    }
    let bill = sbom::text(&[], &[], epoch).unwrap();
    making.finish(&bill, &Provenance::default()).unwrap()
}

/// A release in a folder, in which bytes are changed.
struct Shelf {
    folder: tempfile::TempDir,
    made: Made,
}

impl Shelf {
    fn new() -> Self {
        let (folder, made) = (tempfile::tempdir().unwrap(), small());
        for (name, bytes) in &made.files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        Self { folder, made }
    }

    fn faults(&self, name: &str) -> Vec<String> {
        let path = self.folder.path().join(name);
        match verify(&path, &Options::default(), &Environment::default()) {
            Ok(verdict) => verdict.faults,
            Err(error) => vec![format!("{error:#}")],
        }
    }

    /// What is told while one bit of the byte `at` of the file `name` is another.
    fn with_flip(&self, name: &str, at: usize) -> Vec<String> {
        let path = self.folder.path().join(name);
        let bytes = &self.made.files[name];
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        std::fs::write(&path, &flipped).unwrap();
        let faults = self.faults(name);
        std::fs::write(&path, bytes).unwrap();
        faults
    }
}

#[test]
fn every_byte_of_an_archive_has_the_name_of_a_member() {
    let shelf = Shelf::new();
    assert_eq!(shelf.faults(sums::NAME), [""; 0]);
    for (name, archive) in &shelf.made.catalogue.archives {
        let (mut flipped, mut named) = (0, std::collections::BTreeSet::new());
        for part in &archive.parts {
            let wanted = format!("{name}: the member {} is damaged", part.name);
            for at in part.offset..part.offset + part.length {
                let faults = shelf.with_flip(name, usize::try_from(at).unwrap());
                assert!(faults.len() == 1 && faults[0].starts_with(&wanted), "{at}: {faults:?}");
                flipped += 1;
            }
            named.insert(&part.name);
        }
        assert_eq!(flipped, shelf.made.files[name].len());
        assert_eq!(named.len(), archive.members.len() + 1, "and the end of the archive");
    }
    assert_eq!(shelf.faults(sums::NAME), [""; 0], "all flips were undone");
}

#[test]
fn every_byte_of_the_lists_is_looked_at() {
    let shelf = Shelf::new();
    for name in [catalogue::name(), sbom::name(), provenance::name(), sums::NAME.to_owned()] {
        for at in 0..shelf.made.files[&name].len() {
            let faults = shelf.with_flip(&name, at);
            let told = faults.iter().any(|fault| fault.contains(&name));
            assert!(told, "{name} byte {at}: {faults:?}");
        }
    }
    assert_eq!(shelf.faults(sums::NAME), [""; 0], "all flips were undone");
}

#[test]
fn bytes_that_are_missing_or_too_many_are_told() {
    let shelf = Shelf::new();
    for (name, bytes) in &shelf.made.files {
        let path = shelf.folder.path().join(name);
        for changed in [&bytes[..bytes.len() - 1], &bytes[..0], &[bytes, &b"\0"[..]].concat()] {
            std::fs::write(&path, changed).unwrap();
            let faults = shelf.faults(name);
            assert!(faults.iter().any(|fault| fault.contains(name)), "{name}: {faults:?}");
        }
        std::fs::write(&path, bytes).unwrap();
    }
}
