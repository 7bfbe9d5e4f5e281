//! The load commands of a thin file: names of libraries, search paths.

use anyhow::{Context as _, Result, bail, ensure};
use object::macho;

use super::{long, set_word, word};

/// Bytes of a 64-bit header: load commands come after it.
pub(super) const HEADER: usize = 32;
/// Where a segment command tells its place in the file, and its sections.
const SEGMENT_OFFSET: usize = 40;
const SEGMENT_SECTIONS: usize = 64;
const SEGMENT_SIZE: usize = 72;
/// The same of a section.
const SECTION_SIZE: usize = 80;
const SECTION_BYTES: usize = 40;
const SECTION_OFFSET: usize = 48;
const SECTION_FLAGS: usize = 64;

/// What to change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits {
    /// The name for a new signature, as the file's own.
    pub identifier: String,
    /// A new install name.
    pub install_name: Option<String>,
    /// Libraries to be looked for under another name.
    pub libraries: Vec<(String, String)>,
    /// Search paths to add where they are not there.
    pub rpaths: Vec<String>,
}

/// The load commands of a file.
pub(super) struct Commands {
    /// Each with its own size in its second word.
    pub list: Vec<Vec<u8>>,
    /// Where the first byte is that belongs to something else.
    pub limit: usize,
    end: usize,
}

impl Commands {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        ensure!(
            word(bytes, 0)? == macho::MH_MAGIC_64,
            "it is no Mach-O file for a 64-bit little-endian processor"
        );
        let (count, size) = (word(bytes, 16)?, word(bytes, 20)? as usize);
        let end = HEADER + size;
        ensure!(end <= bytes.len(), "its load commands end beyond the end of the file");
        let (mut list, mut at, mut limit) = (Vec::new(), HEADER, bytes.len());
        for index in 0..count {
            let size = word(bytes, at + 4)? as usize;
            let fits = size >= 8 && size.is_multiple_of(4) && at + size <= end;
            ensure!(fits, "its load command {index} is damaged");
            let command = &bytes[at..at + size];
            limit = limit.min(first_byte_after(command)?);
            list.push(command.to_vec());
            at += size;
        }
        ensure!(limit >= end, "its load commands overlap with its contents");
        Ok(Self { list, limit, end })
    }

    pub(super) fn kind(command: &[u8]) -> macho::LoadCommandType {
        macho::LoadCommandType(u32::from_le_bytes([command[0], command[1], command[2], command[3]]))
    }

    /// Writes the commands back.
    pub(super) fn write(&self, bytes: &mut [u8]) -> Result<()> {
        let size: usize = self.list.iter().map(Vec::len).sum();
        ensure!(
            HEADER + size <= self.limit,
            "its header has room for {} bytes of load commands, not for {size}: link it with \
             -headerpad_max_install_names",
            self.limit - HEADER
        );
        bytes[HEADER..self.end.max(HEADER + size)].fill(0);
        let mut at = HEADER;
        for command in &self.list {
            bytes[at..at + command.len()].copy_from_slice(command);
            at += command.len();
        }
        set_word(bytes, 16, self.list.len() as u32)?;
        set_word(bytes, 20, size as u32)
    }
}

/// The place of the first byte of a segment that is not header.
fn first_byte_after(command: &[u8]) -> Result<usize> {
    if Commands::kind(command) != macho::LC_SEGMENT_64 {
        return Ok(usize::MAX);
    }
    let mut first = match long(command, SEGMENT_OFFSET)? as usize {
        0 => usize::MAX,
        offset => offset,
    };
    for index in 0..word(command, SEGMENT_SECTIONS)? as usize {
        let start = index.checked_mul(SECTION_SIZE).and_then(|at| at.checked_add(SEGMENT_SIZE));
        let section = start.and_then(|start| command.get(start..start + SECTION_SIZE));
        let section = section.context("a section ends beyond its load command")?;
        let kind = word(section, SECTION_FLAGS)? & macho::SECTION_TYPE;
        let offset = word(section, SECTION_OFFSET)? as usize;
        let in_file = long(section, SECTION_BYTES)? > 0 && kind != u32::from(macho::S_ZEROFILL.0);
        if in_file && offset > 0 {
            first = first.min(offset);
        }
    }
    Ok(first)
}

/// The bytes with `edits` applied, or nothing if they change nothing. The signature is not.
pub(super) fn apply(bytes: &[u8], edits: &Edits) -> Result<Option<Vec<u8>>> {
    let mut commands = Commands::read(bytes)?;
    let before = commands.list.clone();
    let mut rpaths = Vec::new();
    for command in &mut commands.list {
        match Commands::kind(command) {
            macho::LC_ID_DYLIB => {
                if let Some(name) = &edits.install_name {
                    rename(command, name)?;
                }
            }
            macho::LC_LOAD_DYLIB
            | macho::LC_LOAD_WEAK_DYLIB
            | macho::LC_REEXPORT_DYLIB
            | macho::LC_LAZY_LOAD_DYLIB
            | macho::LC_LOAD_UPWARD_DYLIB => {
                let old = name(command)?;
                if let Some((_, new)) = edits.libraries.iter().find(|(name, _)| *name == old) {
                    rename(command, new)?;
                }
            }
            macho::LC_RPATH => rpaths.push(name(command)?),
            _ => {}
        }
    }
    for rpath in &edits.rpaths {
        if !rpaths.contains(rpath) {
            let mut command = vec![0; 12];
            set_word(&mut command, 0, macho::LC_RPATH.0)?;
            set_word(&mut command, 8, 12)?;
            rename(&mut command, rpath)?;
            commands.list.push(command);
            rpaths.push(rpath.clone());
        }
    }
    if commands.list == before {
        return Ok(None);
    }
    let mut new = bytes.to_vec();
    commands.write(&mut new)?;
    Ok(Some(new))
}

/// Where a command's name begins: its third word.
fn name_at(command: &[u8]) -> Result<usize> {
    let at = word(command, 8)? as usize;
    ensure!((12..=command.len()).contains(&at), "a name lies outside of its load command");
    Ok(at)
}

fn name(command: &[u8]) -> Result<String> {
    let name = &command[name_at(command)?..];
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Puts another name into a command, which then takes as many bytes as that needs.
fn rename(command: &mut Vec<u8>, name: &str) -> Result<()> {
    if name.contains('\0') || name.is_empty() {
        bail!("{name:?} is no name of a library or folder");
    }
    command.truncate(name_at(command)?);
    command.extend(name.as_bytes());
    command.push(0);
    command.resize(command.len().next_multiple_of(8), 0);
    let size = command.len() as u32;
    set_word(command, 4, size)
}
