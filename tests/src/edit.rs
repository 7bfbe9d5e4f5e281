//! Edits of a real `.pte`, in place, that keep or break its hashes as a test wants.

use sha2::{Digest, Sha256};

use crate::model::hex;

/// The bytes of a real model and where its library lies in them.
#[derive(Debug, Clone)]
pub struct Pte {
    /// The whole file.
    pub bytes: Vec<u8>,
    library: std::ops::Range<usize>,
}

impl Pte {
    /// Reads a fixture's model.
    ///
    /// # Panics
    /// The file is missing or holds no ELF library.
    pub fn fixture(name: &str) -> Self {
        let path = crate::stage::fixture(name).join("model.pte");
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let start = find(&bytes, b"\x7fELF").expect("the model holds an ELF library");
        // The section headers close an ELF file: e_shoff + e_shentsize * e_shnum.
        let elf = &bytes[start..];
        let number = |at: usize, n: usize| {
            elf[at..at + n].iter().rev().fold(0usize, |v, &b| v << 8 | usize::from(b))
        };
        let end = number(0x28, 8) + number(0x3a, 2) * number(0x3c, 2);
        let pte = Pte { library: start..start + end, bytes };
        let key = format!("{}_so_blob", pte.hash());
        assert!(find(&pte.bytes, key.as_bytes()).is_some(), "the library's end was found wrong");
        pte
    }

    /// The library's bytes, to edit without a new hash.
    pub fn library(&mut self) -> &mut [u8] {
        &mut self.bytes[self.library.clone()]
    }

    /// Edits the library's bytes and puts the new hash wherever the old one stood.
    pub fn edit_library(&mut self, edit: impl FnOnce(&mut [u8])) {
        let old = self.hash();
        edit(&mut self.bytes[self.library.clone()]);
        let new = self.hash();
        self.replace_all(old.as_bytes(), new.as_bytes());
    }

    /// Replaces every occurrence of `from` by `to`, of the same length.
    ///
    /// # Panics
    /// The lengths differ or there is no occurrence.
    pub fn replace_all(&mut self, from: &[u8], to: &[u8]) {
        assert_eq!(from.len(), to.len(), "an edit in place keeps lengths");
        let mut at = 0;
        let mut count = 0;
        while let Some(found) = find(&self.bytes[at..], from) {
            at += found;
            self.bytes[at..at + to.len()].copy_from_slice(to);
            at += to.len();
            count += 1;
        }
        assert!(count > 0, "nothing to replace");
    }

    fn hash(&self) -> String {
        hex(&Sha256::digest(&self.bytes[self.library.clone()]))
    }
}

/// Where `needle` first occurs.
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Overwrites the first occurrence of `from` with `to`, of the same length.
///
/// # Panics
/// The lengths differ or there is no occurrence.
pub fn replace_first(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len(), "an edit in place keeps lengths");
    let at = find(bytes, from).expect("nothing to replace");
    bytes[at..at + to.len()].copy_from_slice(to);
}
