//! From an instruction of a compiled kernel to its place in the shader.

use addr2line::gimli::{Dwarf, EndianSlice, RunTimeEndian, SectionId};
use object::{Object as _, ObjectSection as _};

use super::rewrite::SOURCE_NAME;

/// A place in the MSL source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
}

/// The place in the rewritten shader of the instruction that ends at `address` (bytes from the
/// start of the library); `None` without debug information for it.
///
/// Code of our headers and of the shader's own functions is inlined into the kernel: the place is
/// the innermost one that lies in the shader.
pub(crate) fn find(library: &[u8], address: u32) -> Option<Place> {
    let file = object::File::parse(library).ok()?;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = |id: SectionId| -> Result<_, addr2line::gimli::Error> {
        let data = file.section_by_name(id.name()).and_then(|section| section.data().ok());
        Ok(EndianSlice::new(data.unwrap_or_default(), endian))
    };
    let context = addr2line::Context::from_dwarf(Dwarf::load(section).ok()?).ok()?;
    // The address is the one to return to: the call lies before it.
    let address = u64::from(address).checked_sub(1)?;
    let mut frames = context.find_frames(address).skip_all_loads().ok()?;
    while let Ok(Some(frame)) = frames.next() {
        let Some(location) = frame.location else { continue };
        let name = location.file.and_then(|path| path.rsplit('/').next());
        if name == Some(SOURCE_NAME)
            && let Some(line) = location.line.filter(|&line| line > 0)
        {
            return Some(Place { line, column: location.column.unwrap_or(0) });
        }
    }
    None
}
