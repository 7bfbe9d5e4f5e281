//! The libraries of models inside an ExecuTorch program (`.pte`).

use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

use super::contents::{Contents, Piece, read_image};
use super::finding::Finding;

/// The tables of `program.fbs`: the runtime's own, so that there is one description of them.
#[allow(dead_code, reason = "the runtime reads more of a program than the audit does")]
#[path = "../../../runtime/src/runner/program/schema.rs"]
mod schema;

/// Bytes 4 to 8 of a program.
const IDENTIFIER: &[u8] = b"ET12";
/// Bytes 8 to 12 of a program with an extended header.
const EXTENDED_HEADER: &[u8] = b"eh00";
/// The delegate whose models have libraries.
const BACKEND: &str = "MetalBackend";
/// Hex digits of a SHA-256.
const HASH_DIGITS: usize = 64;

/// Whether `bytes` begin as a program does.
pub fn is_program(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(IDENTIFIER)
}

/// A named blob of a program.
struct Blob<'a> {
    key: &'a str,
    bytes: &'a [u8],
}

/// Reads a program's libraries.
///
/// # Errors
/// The program is damaged.
pub fn read(bytes: &[u8]) -> Result<Contents<'_>> {
    let header = Header::parse(bytes)?;
    let flatbuffer = &bytes[..header.program_size];
    let program = schema::root(flatbuffer).map_err(|error| {
        let text = error.to_string();
        anyhow::anyhow!("the program is damaged: {}", text.lines().next().unwrap_or_default())
    })?;
    let mut segments = Vec::new();
    for (index, segment) in program.segments().into_iter().flatten().enumerate() {
        let range = header.segment(segment.offset(), segment.size(), bytes.len());
        segments.push(range.with_context(|| {
            format!("the program is cut off: its segment {index} ends beyond the end of the file")
        })?);
    }
    let mut blobs = Vec::new();
    for data in program.named_data().into_iter().flatten() {
        let key = data.key().unwrap_or_default();
        let range = segments.get(data.segment_index() as usize).with_context(|| {
            format!("the program is damaged: its data {key:?} lies in no segment")
        })?;
        blobs.push(Blob { key, bytes: &bytes[range.clone()] });
    }
    let mut contents = Contents::default();
    for blob in &blobs {
        contents.add(blob);
    }
    for name in expected_libraries(program, bytes, &segments) {
        if !blobs.iter().any(|blob| blob.key == name) {
            contents.findings.push(Finding::warning(
                "model-data",
                format!("the library {name:?} of a model is not in this file"),
                "audit it where it is: in the .ptd file that was exported with this program",
            ));
        }
    }
    Ok(contents)
}

impl<'a> Contents<'a> {
    fn add(&mut self, blob: &Blob<'a>) {
        if let Some(promised) = promised_hash(blob.key) {
            let found: String =
                Sha256::digest(blob.bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            if found != promised {
                self.findings.push(Finding::error(
                    "model-data",
                    format!("the bytes of {:?} are not those that its name promises", blob.key),
                    "copy the file again, or export it again",
                ));
            }
        }
        if !is_library(blob.bytes) {
            return;
        }
        match read_image(blob.bytes) {
            Ok(image) => self.pieces.push(Piece {
                label: Some(format!("the model library {}", short(blob.key))),
                image,
                bytes: blob.bytes,
                embedded: true,
            }),
            Err(error) => self.findings.push(Finding::error(
                "damaged",
                format!("the model library {}: {error:#}", short(blob.key)),
                "copy the file again, or export it again",
            )),
        }
    }
}

/// A key without the hash in front of it.
fn short(key: &str) -> &str {
    promised_hash(key).map_or(key, |hash| &key[hash.len() + 1..])
}

fn is_library(bytes: &[u8]) -> bool {
    [b"\x7fELF".as_slice(), b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"]
        .iter()
        .any(|magic| bytes.starts_with(magic))
}

/// The hash with which a key begins, if it is of the form `<SHA-256>_…`.
fn promised_hash(key: &str) -> Option<&str> {
    let hash = key.get(..HASH_DIGITS)?;
    let is_hash = hash.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hash && key.as_bytes().get(HASH_DIGITS) == Some(&b'_')).then_some(hash)
}

/// The keys of libraries that delegates name in their payloads: the first of two lines, or, for
/// an empty payload, one that follows from the method's name.
fn expected_libraries(
    program: schema::Program<'_>,
    bytes: &[u8],
    segments: &[Range<usize>],
) -> Vec<String> {
    let mut keys = Vec::new();
    for plan in program.execution_plan().into_iter().flatten() {
        for delegate in plan.delegates().into_iter().flatten() {
            if delegate.id() != Some(BACKEND) {
                continue;
            }
            let payload = delegate.processed().and_then(|place| {
                let index = place.index() as usize;
                match place.location() {
                    0 => program
                        .backend_delegate_data()
                        .filter(|all| index < all.len())
                        .and_then(|all| all.get(index).data())
                        .map(|data| data.bytes()),
                    _ => segments.get(index).and_then(|range| bytes.get(range.clone())),
                }
            });
            let text = String::from_utf8_lossy(payload.unwrap_or_default()).into_owned();
            let text = text.trim_matches(['\0', ' ', '\n']);
            keys.push(match text.lines().next() {
                Some(key) => key.to_owned(),
                None => format!("{}_so_blob", plan.name().unwrap_or_default()),
            });
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

/// The start of the file: sizes are little-endian.
struct Header {
    /// The size of the flatbuffer.
    program_size: usize,
    /// Where segments start.
    segment_base: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.get(8..12) != Some(EXTENDED_HEADER) {
            return Ok(Self { program_size: bytes.len(), segment_base: 0 });
        }
        let word = |at: usize| -> Result<u64> {
            let bytes = bytes.get(at..at + 8).context("the program is cut off in its header")?;
            Ok(u64::from_le_bytes(bytes.try_into()?))
        };
        let (program_size, segment_base) = (word(16)?, word(24)?);
        ensure!(
            program_size <= bytes.len() as u64,
            "the program is cut off: the file has {} bytes of {program_size}",
            bytes.len()
        );
        Ok(Self { program_size: program_size as usize, segment_base })
    }

    fn segment(&self, offset: u64, size: u64, file: usize) -> Option<Range<usize>> {
        let start = self.segment_base.checked_add(offset)?;
        let end = start.checked_add(size)?;
        (end <= file as u64).then_some(start as usize..end as usize)
    }
}
