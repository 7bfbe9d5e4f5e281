//! Ad hoc signatures: hashes of the pages, signed by nobody. arm64 systems load nothing without.

use anyhow::{Context as _, Result, ensure};
use object::macho;
use sha2::{Digest as _, Sha256};

use super::edit::{Commands, HEADER};
use super::{long, set_long, set_word, word};

/// Pages are hashed one by one; as the linker does it.
const PAGE_SHIFT: u8 = 12;
const PAGE: usize = 1 << PAGE_SHIFT;
/// Signatures start at a multiple of this.
const ALIGNMENT: usize = 16;
/// Bytes of a hash.
const HASH: usize = 32;
/// Bytes of a code directory's header of version 0x20400.
const DIRECTORY: usize = 88;
/// Bytes in front of the code directory: the head of the list of blobs, and its one entry.
const BLOBS: usize = 20;

/// Where things are that a signature is about.
struct Places {
    /// The load command of the signature.
    command: usize,
    /// The load command of `__LINKEDIT`.
    linkedit: usize,
    /// Where `__TEXT` lies in the file, and its size.
    text: (u64, u64),
}

/// Signs a thin file, over what signature it has. One that is not for arm64 and has none stays
/// without.
pub(super) fn ad_hoc(bytes: &mut Vec<u8>, identifier: &str) -> Result<()> {
    let mut commands = Commands::read(bytes)?;
    let signed = commands.list.iter().any(|c| Commands::kind(c) == macho::LC_CODE_SIGNATURE);
    if !signed {
        if word(bytes, 4)? != macho::CPU_TYPE_ARM64.0 {
            return Ok(());
        }
        let mut command = vec![0; 16];
        set_word(&mut command, 0, macho::LC_CODE_SIGNATURE.0)?;
        set_word(&mut command, 4, 16)?;
        set_word(&mut command, 8, bytes.len().next_multiple_of(ALIGNMENT) as u32)?;
        commands.list.push(command);
        commands.write(bytes)?;
    }
    let places = places(bytes)?;
    let start = word(bytes, places.command + 8)? as usize;
    ensure!(
        start.is_multiple_of(ALIGNMENT) && start >= commands.limit.min(bytes.len()),
        "its signature lies at {start:#x}, inside of something else"
    );
    let linkedit_offset = long(bytes, places.linkedit + 40)?;
    ensure!(linkedit_offset <= start as u64, "its signature is not at its end");
    bytes.resize(start, 0);

    let program = word(bytes, 12)? == macho::MH_EXECUTE.0;
    let size = (BLOBS + directory_size(start, identifier)).next_multiple_of(ALIGNMENT);
    set_word(bytes, places.command + 12, size as u32)?;
    let in_file = (start + size) as u64 - linkedit_offset;
    set_long(bytes, places.linkedit + 48, in_file)?;
    let in_memory = long(bytes, places.linkedit + 32)?;
    // A page of arm64 has 16 KiB.
    set_long(bytes, places.linkedit + 32, in_memory.max(in_file.next_multiple_of(0x4000)))?;

    let mut signature = signature(bytes, identifier, places.text, program);
    signature.resize(size, 0);
    bytes.extend(signature);
    Ok(())
}

fn places(bytes: &[u8]) -> Result<Places> {
    let (mut command, mut linkedit, mut text) = (None, None, (0, 0));
    let mut at = HEADER;
    for _ in 0..word(bytes, 16)? {
        match macho::LoadCommandType(word(bytes, at)?) {
            macho::LC_CODE_SIGNATURE => command = Some(at),
            macho::LC_SEGMENT_64 => {
                let name = bytes.get(at + 8..at + 24).unwrap_or_default();
                if name.starts_with(b"__LINKEDIT\0") {
                    linkedit = Some(at);
                } else if name.starts_with(b"__TEXT\0") {
                    text = (long(bytes, at + 40)?, long(bytes, at + 48)?);
                }
            }
            _ => {}
        }
        at += word(bytes, at + 4)? as usize;
    }
    Ok(Places {
        command: command.context("it has no load command for a signature")?,
        linkedit: linkedit.context("it has no segment __LINKEDIT to put a signature in")?,
        text,
    })
}

fn directory_size(limit: usize, identifier: &str) -> usize {
    DIRECTORY + identifier.len() + 1 + HASH * limit.div_ceil(PAGE)
}

/// The list of blobs, with a code directory as its only one. All numbers are big-endian.
fn signature(code: &[u8], identifier: &str, text: (u64, u64), program: bool) -> Vec<u8> {
    let directory = directory_size(code.len(), identifier);
    let flags = macho::CS_ADHOC | macho::CS_LINKER_SIGNED;
    let program = if program { macho::CS_EXECSEG_MAIN_BINARY.0 } else { 0 };
    let mut out = Vec::new();
    let mut words = |words: &[u32]| out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    words(&[macho::CSMAGIC_EMBEDDED_SIGNATURE, (BLOBS + directory) as u32, 1]);
    words(&[macho::CSSLOT_CODEDIRECTORY.0, BLOBS as u32]);
    words(&[macho::CSMAGIC_CODEDIRECTORY, directory as u32, macho::CS_SUPPORTSEXECSEG.0, flags.0]);
    let hashes = DIRECTORY + identifier.len() + 1;
    let pages = code.len().div_ceil(PAGE);
    words(&[hashes as u32, DIRECTORY as u32, 0, pages as u32, code.len() as u32]);
    out.extend([HASH as u8, macho::CS_HASHTYPE_SHA256.0, 0, PAGE_SHIFT]);
    // spare2, scatterOffset, teamOffset, spare3.
    out.extend([0; 16]);
    // codeLimit64 is for files that 32 bits cannot measure.
    out.extend([0, text.0, text.1, program].iter().flat_map(|long| long.to_be_bytes()));
    out.extend(identifier.as_bytes());
    out.push(0);
    for page in code.chunks(PAGE) {
        out.extend(Sha256::digest(page));
    }
    out
}
