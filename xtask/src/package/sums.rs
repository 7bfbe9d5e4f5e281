//! `SHA256SUMS`, as `sha256sum --check` reads it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

/// The file's name.
pub const NAME: &str = "SHA256SUMS";

/// Hashes by file name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums(pub BTreeMap<String, String>);

impl Sums {
    /// The text of the file.
    pub fn text(&self) -> String {
        self.0.iter().map(|(name, hash)| format!("{hash}  {name}\n")).collect()
    }

    /// Reads the file, which has to be as [`Sums::text`] writes it.
    ///
    /// # Errors
    /// A line is none, with its number.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).context("SHA256SUMS is damaged: it is no UTF-8")?;
        let mut sums = Self::default();
        for (index, line) in text.lines().enumerate() {
            let wrong = || format!("SHA256SUMS is damaged in line {}: {line:?}", index + 1);
            let (hash, name) = line.split_once("  ").with_context(wrong)?;
            let digits = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            let plain = super::tree::is_inside(name) && !name.contains('/');
            ensure!(hash.len() == 64 && digits(hash) && plain, wrong());
            sums.0.insert(name.to_owned(), hash.to_owned());
        }
        ensure!(
            sums.text() == text,
            "SHA256SUMS is damaged: its lines are not sorted, or not all whole"
        );
        Ok(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_the_file_is_another_sum_or_an_error() {
        let hash = super::super::digest::sha256(b"x");
        let sums = Sums([("a.whl".into(), hash.clone()), ("b.zip".into(), hash)].into());
        let text = sums.text().into_bytes();
        assert_eq!(Sums::parse(&text).unwrap(), sums);
        for at in 0..text.len() {
            let mut flipped = text.clone();
            flipped[at] ^= 1;
            assert!(Sums::parse(&flipped).map_or(true, |read| read != sums), "byte {at}");
        }
        let error = Sums::parse(b"../etc\n").unwrap_err().to_string();
        assert_eq!(error, "SHA256SUMS is damaged in line 1: \"../etc\"");
        assert!(Sums::parse(&text[..text.len() - 1]).is_err());
    }
}
