//! What a delegate's payload says, and fetching what it names.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::device::Keep;
use crate::error::err;
use crate::{Error, Result};

/// What ends the keys of a model library and of a weights blob.
const LIBRARY_SUFFIX: &str = "_so_blob";
const WEIGHTS_SUFFIX: &str = "_weights_blob";
/// Hex digits of a SHA-256.
const HASH_DIGITS: usize = 64;

/// Bytes that somebody else owns, readable for as long as the blob or its `keep` lives.
pub struct Blob {
    pointer: *const u8,
    len: usize,
    keep: Option<Keep>,
}

// SAFETY: the bytes are only read through `&[u8]`, and who owns them promised that they stay
// readable while `keep` lives, whatever the thread.
unsafe impl Send for Blob {}
// SAFETY: as above.
unsafe impl Sync for Blob {}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes at {:p})", self.len, self.pointer)
    }
}

impl Blob {
    /// A blob over memory that somebody else owns.
    ///
    /// # Safety
    /// `pointer..pointer + len` must be readable, and not change, until the last clone of `keep`
    /// is dropped.
    pub unsafe fn borrow(pointer: *const c_void, len: usize, keep: Option<Keep>) -> Self {
        Blob { pointer: pointer.cast(), len, keep }
    }

    /// A blob that shares bytes with others.
    pub fn shared(bytes: Arc<Vec<u8>>) -> Self {
        Blob { pointer: bytes.as_ptr(), len: bytes.len(), keep: Some(bytes) }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: readable and unchanging while `keep` lives, which `self` holds (see `borrow`).
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }

    /// What keeps the bytes readable.
    pub(crate) fn keep(&self) -> Option<Keep> {
        self.keep.clone()
    }
}

/// Where a model's named blobs come from.
pub trait NamedData {
    /// The blob with this key.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none.
    fn get(&self, key: &str) -> Result<Blob>;
}

/// The keys of a model's two blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Key of the model library.
    pub library_key: String,
    /// Key of the weights blob.
    pub weights_key: String,
    /// Whether the payload was empty and the keys follow from the method's name.
    legacy: bool,
}

impl Payload {
    /// Reads a payload: the two keys, a line each, as executorch's `aoti_backend.py` writes them.
    /// Exports before executorch 1.5 wrote nothing and named the blobs after the method.
    ///
    /// # Errors
    /// The payload is not of that form.
    pub fn parse(payload: &[u8], method: &str) -> Result<Self> {
        // Named-data payloads may be padded to their alignment.
        let payload = payload.trim_ascii_end();
        let payload = &payload[..payload.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1)];
        if payload.is_empty() {
            return Ok(Payload {
                library_key: format!("{method}{LIBRARY_SUFFIX}"),
                weights_key: format!("{method}{WEIGHTS_SUFFIX}"),
                legacy: true,
            });
        }
        let keys = std::str::from_utf8(payload).ok().map(|text| text.lines().collect::<Vec<_>>());
        match keys.as_deref() {
            Some(&[library, weights]) if !library.is_empty() && !weights.is_empty() => {
                Ok(Payload {
                    library_key: library.to_owned(),
                    weights_key: weights.to_owned(),
                    legacy: false,
                })
            }
            _ => Err(err!(
                InvalidProgram,
                "the delegate's payload ({} bytes: {:?}…) is not the keys of a model library and \
                 of a weights blob, a line each; was the program exported for another backend?",
                payload.len(),
                String::from_utf8_lossy(&payload[..payload.len().min(40)])
            )),
        }
    }

    /// The model library, its hash checked.
    ///
    /// # Errors
    /// There is none, or its bytes are not those that its key promises.
    pub fn library(&self, data: &dyn NamedData) -> Result<Blob> {
        let blob = data.get(&self.library_key).map_err(|e| self.missing("model library", e))?;
        check_hash("model library", &self.library_key, blob.bytes())?;
        Ok(blob)
    }

    /// The weights blob, its hash checked. A model without weights has an empty one, or with
    /// legacy keys none at all.
    ///
    /// # Errors
    /// There is none, or its bytes are not those that its key promises.
    pub fn weights(&self, data: &dyn NamedData) -> Result<Blob> {
        match data.get(&self.weights_key) {
            Ok(blob) => {
                check_hash("weights", &self.weights_key, blob.bytes())?;
                Ok(blob)
            }
            Err(Error::NotFound(_)) if self.may_lack_weights() => Ok(Blob::shared(Arc::default())),
            Err(e) => Err(self.missing("weights", e)),
        }
    }

    /// Whether an absent weights blob is one that would be empty.
    fn may_lack_weights(&self) -> bool {
        self.legacy || promised_hash(&self.weights_key) == Some(hash(&[]).as_str())
    }

    fn missing(&self, what: &str, error: Error) -> Error {
        let key = if what == "weights" { &self.weights_key } else { &self.library_key };
        error.context(format_args!(
            "the program has no {what} under {key:?} (is its data in a .ptd file that was not \
             loaded with it?)"
        ))
    }
}

/// The hash with which a key begins, if it is of the form `<SHA-256>_…`.
fn promised_hash(key: &str) -> Option<&str> {
    let hash = key.get(..HASH_DIGITS)?;
    let is_hash = hash.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hash && key.as_bytes().get(HASH_DIGITS) == Some(&b'_')).then_some(hash)
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(HASH_DIGITS), |mut hex, byte| {
        use fmt::Write;
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn check_hash(what: &str, key: &str, bytes: &[u8]) -> Result<()> {
    let Some(expected) = promised_hash(key) else { return Ok(()) };
    let actual = hash(bytes);
    if actual.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(err!(
        InvalidProgram,
        "the program is damaged: its {what} ({} bytes, key {key}) has SHA-256 {actual}, expected \
         {expected}; copy or export the .pte again",
        bytes.len()
    ))
}

/// Blobs that the program holds itself.
impl NamedData for BTreeMap<String, Arc<Vec<u8>>> {
    fn get(&self, key: &str) -> Result<Blob> {
        let bytes = BTreeMap::get(self, key);
        let bytes = bytes.ok_or_else(|| err!(NotFound, "there is no blob named {key:?}"))?;
        Ok(Blob::shared(bytes.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(entries: &[(&str, &[u8])]) -> BTreeMap<String, Arc<Vec<u8>>> {
        entries.iter().map(|(k, v)| ((*k).to_owned(), Arc::new(v.to_vec()))).collect()
    }

    #[test]
    fn two_lines_are_two_keys() {
        let payload = Payload::parse(b"ab_so_blob\ncd_weights_blob", "forward").unwrap();
        assert_eq!(payload.library_key, "ab_so_blob");
        assert_eq!(payload.weights_key, "cd_weights_blob");
        assert_eq!(Payload::parse(b"ab_so_blob\ncd_weights_blob\0\0", "").unwrap(), payload);
    }

    #[test]
    fn an_empty_payload_means_the_methods_keys() {
        let payload = Payload::parse(b"", "decode").unwrap();
        assert_eq!(payload.library_key, "decode_so_blob");
        assert_eq!(payload.weights_key, "decode_weights_blob");
    }

    #[test]
    fn other_payloads_are_refused() {
        for bad in [&b"one"[..], b"a\nb\nc", b"\xff\xfe\nx", b"\nweights"] {
            let message = Payload::parse(bad, "m").unwrap_err().to_string();
            assert!(message.contains("another backend"), "{message}");
        }
    }

    #[test]
    fn hashes_in_keys_are_checked() {
        let good = format!("{}_so_blob", hash(b"library"));
        let weights = format!("{}_weights_blob", hash(b"weights"));
        let payload = Payload::parse(format!("{good}\n{weights}").as_bytes(), "m").unwrap();
        let entries = data(&[(&good, b"library"), (&weights, b"weightS")]);
        assert_eq!(payload.library(&entries).unwrap().bytes(), b"library");
        let message = payload.weights(&entries).unwrap_err().to_string();
        assert!(message.contains(&hash(b"weights")) && message.contains(&hash(b"weightS")));
    }

    #[test]
    fn a_missing_blob_is_named() {
        let payload = Payload::parse(b"x_so_blob\ny_weights_blob", "m").unwrap();
        let entries = data(&[]);
        let library = payload.library(&entries).unwrap_err();
        assert!(matches!(library, Error::NotFound(_)));
        assert!(library.to_string().contains("x_so_blob"), "{library}");
        let weights = payload.weights(&entries).unwrap_err().to_string();
        assert!(weights.contains("y_weights_blob"), "{weights}");
    }

    #[test]
    fn models_without_weights_need_no_blob() {
        let legacy = Payload::parse(b"", "m").unwrap();
        assert!(legacy.weights(&data(&[])).unwrap().bytes().is_empty());
        let empty = format!("l_so_blob\n{}_weights_blob", hash(b""));
        let payload = Payload::parse(empty.as_bytes(), "m").unwrap();
        assert!(payload.weights(&data(&[])).unwrap().bytes().is_empty());
    }
}
