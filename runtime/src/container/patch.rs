//! Editing an ELF model library before it is loaded.
//!
//! A model library names no library that would give it the runtime's symbols, and what g++ puts
//! into it keeps it from ever being unloaded. Both are put right in the bytes:
//!
//! * A `DT_NEEDED` entry on this runtime comes first, so that the library binds to it and to no
//!   other library of the process that has the same names (torch), without making the runtime's
//!   symbols visible to anybody else.
//! * `STB_GNU_UNIQUE` symbols (function-local statics of inline functions) make the loader keep
//!   a library for ever; as weak symbols they do the same job for a library on its own.
//! * `__cxa_thread_atexit` makes the loader keep a library until every thread that used it has
//!   ended; it is redirected to [`super::thread_exit`].
//!
//! Nothing that is in the file moves: longer tables are appended in a segment of their own.

use object::LittleEndian as LE;
use object::elf::{self, Dyn64, DynamicTag, FileHeader64, ProgramHeader64, Sym64};
use object::pod::{Pod, bytes_of_slice, from_bytes_mut};
use object::{U16, U32, U64};

use super::elf::Elf;
use crate::Result;
use crate::error::err;

/// What to change.
#[derive(Debug, Default)]
pub struct Edits<'a> {
    /// A library to be searched for symbols before all others: its name or path.
    pub first_library: Option<&'a str>,
    /// Names of needed libraries to forget.
    pub unneeded: &'a [String],
    /// Undefined symbols to rename, as (from, to); the new ones have no version.
    pub redirects: &'a [(&'a str, &'a str)],
}

/// The library `bytes`, which was parsed and validated as `library`, with `edits` made and
/// unique symbols turned into weak ones.
///
/// # Errors
/// The tables become too large to address: damage, as the library was valid before.
pub(crate) fn patch(library: &Elf<'_>, edits: &Edits<'_>) -> Result<Vec<u8>> {
    let mut bytes = library.bytes.to_vec();
    let mut names = Names::new(library.strings);
    edit_symbols(&mut bytes, library, edits, &mut names)?;
    let dynamic = new_dynamic(library, edits, &mut names)?;
    append_tables(&mut bytes, library, dynamic, names)?;
    Ok(bytes)
}

/// The string table as it grows.
struct Names {
    bytes: Vec<u8>,
}

impl Names {
    fn new(old: &[u8]) -> Self {
        Names { bytes: old.to_vec() }
    }

    fn add(&mut self, name: &str) -> Result<u32> {
        let offset = u32::try_from(self.bytes.len()).map_err(|_| too_large("string table"))?;
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        Ok(offset)
    }
}

fn too_large(what: &str) -> crate::Error {
    err!(InvalidProgram, "the model library's {what} is too large to be extended")
}

/// The `T` at `at` of the copy; the same place was read from the original.
fn value_at<T: Pod>(bytes: &mut [u8], at: usize) -> Result<&mut T> {
    let tail = bytes.get_mut(at..).and_then(|tail| from_bytes_mut(tail).ok());
    tail.map(|(value, _)| value).ok_or_else(|| err!(Internal, "no table at byte {at}"))
}

fn edit_symbols(
    bytes: &mut [u8],
    library: &Elf<'_>,
    edits: &Edits<'_>,
    names: &mut Names,
) -> Result<()> {
    for (index, old) in library.symbols.iter().enumerate().skip(1) {
        let at = library.symbols_at.start + index * size_of::<Sym64<LE>>();
        if old.st_bind() == elf::STB_GNU_UNIQUE {
            value_at::<Sym64<LE>>(bytes, at)?.set_st_info(elf::STB_WEAK, old.st_type());
        }
        if !super::elf::is_undefined(old) {
            continue;
        }
        let name = library.symbol_name(old)?;
        if let Some((_, to)) = edits.redirects.iter().find(|(from, _)| *from == name) {
            value_at::<Sym64<LE>>(bytes, at)?.st_name = U32::new(LE, names.add(to)?);
            if let Some(versions) = &library.versions_at {
                let version: &mut U16<LE> = value_at(bytes, versions.start + 2 * index)?;
                version.set(LE, elf::VER_NDX_GLOBAL.0);
            }
        }
    }
    Ok(())
}

fn entry(tag: DynamicTag, value: u64) -> Dyn64<LE> {
    Dyn64 { d_tag: object::I64::new(LE, tag), d_val: U64::new(LE, value) }
}

/// The dynamic section with its list of libraries edited, and its end.
fn new_dynamic(library: &Elf<'_>, edits: &Edits<'_>, names: &mut Names) -> Result<Vec<Dyn64<LE>>> {
    let mut dynamic = Vec::with_capacity(library.dynamic.len() + 2);
    if let Some(first) = edits.first_library {
        dynamic.push(entry(elf::DT_NEEDED, u64::from(names.add(first)?)));
    }
    for old in library.dynamic {
        if old.d_tag.get(LE) == elf::DT_NEEDED {
            let name = library.string(old.d_val.get(LE), "a library that it needs")?;
            if edits.unneeded.iter().any(|unneeded| unneeded == name) {
                continue;
            }
        }
        dynamic.push(*old);
    }
    dynamic.push(entry(elf::DT_NULL, 0));
    Ok(dynamic)
}

fn align_up(value: u64, align: u64) -> Option<u64> {
    value.checked_next_multiple_of(align)
}

/// Appends a segment with program headers, dynamic section and string table, and points the
/// file at them.
fn append_tables(
    bytes: &mut Vec<u8>,
    library: &Elf<'_>,
    mut dynamic: Vec<Dyn64<LE>>,
    names: Names,
) -> Result<()> {
    let header_count = library.program_headers.len() + 1;
    let headers_size = header_count * size_of::<ProgramHeader64<LE>>();
    let dynamic_size = size_of::<Dyn64<LE>>() * dynamic.len();
    let size = headers_size + dynamic_size + names.bytes.len();

    let align = library.loads().map(|h| h.p_align.get(LE)).max().unwrap_or(1).max(0x1000);
    let offset = align_up(bytes.len() as u64, 16).ok_or_else(|| too_large("file"))?;
    // The loader maps whole pages, so offset and address agree within one.
    let address = align_up(library.span(), align)
        .and_then(|address| address.checked_add(offset % align))
        .ok_or_else(|| too_large("address space"))?;
    let place = |from: usize| (offset + from as u64, address + from as u64);
    let (dynamic_at, strings_at) = (place(headers_size), place(headers_size + dynamic_size));

    for d in &mut dynamic {
        match d.d_tag.get(LE) {
            elf::DT_STRTAB => d.d_val.set(LE, strings_at.1),
            elf::DT_STRSZ => d.d_val.set(LE, names.bytes.len() as u64),
            _ => {}
        }
    }
    let headers = new_program_headers(
        library,
        &segment((offset, address), size, align),
        &part(elf::PT_DYNAMIC, dynamic_at, dynamic_size, 8),
        &part(elf::PT_PHDR, place(0), headers_size, 8),
    );

    bytes.resize(offset as usize, 0);
    bytes.extend_from_slice(bytes_of_slice(&headers));
    bytes.extend_from_slice(bytes_of_slice(&dynamic));
    bytes.extend_from_slice(&names.bytes);
    let header: &mut FileHeader64<LE> = value_at(bytes, 0)?;
    header.e_phoff.set(LE, offset);
    let count = u16::try_from(header_count).map_err(|_| too_large("program header table"))?;
    header.e_phnum.set(LE, count);
    Ok(())
}

/// The loaded segment at (file offset, address). The loader writes to the dynamic section.
fn segment(at: (u64, u64), size: usize, align: u64) -> ProgramHeader64<LE> {
    part(elf::PT_LOAD, at, size, align)
}

fn part(
    kind: elf::ProgramType,
    (offset, address): (u64, u64),
    size: usize,
    align: u64,
) -> ProgramHeader64<LE> {
    ProgramHeader64 {
        p_type: U32::new(LE, kind),
        p_flags: U32::new(LE, elf::PF_R | elf::PF_W),
        p_offset: U64::new(LE, offset),
        p_vaddr: U64::new(LE, address),
        p_paddr: U64::new(LE, address),
        p_filesz: U64::new(LE, size as u64),
        p_memsz: U64::new(LE, size as u64),
        p_align: U64::new(LE, align),
    }
}

/// The old headers, those of moved parts replaced, and the new segment, which has the highest
/// address and so comes last.
fn new_program_headers(
    library: &Elf<'_>,
    segment: &ProgramHeader64<LE>,
    dynamic: &ProgramHeader64<LE>,
    headers: &ProgramHeader64<LE>,
) -> Vec<ProgramHeader64<LE>> {
    let replaced = library.program_headers.iter().map(|old| match old.p_type.get(LE) {
        elf::PT_DYNAMIC => *dynamic,
        elf::PT_PHDR => *headers,
        _ => *old,
    });
    replaced.chain([*segment]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::fixture;

    fn patched() -> Vec<u8> {
        let bytes = fixture::library();
        let library = Elf::parse(&bytes).unwrap();
        library.validate().unwrap();
        let edits = Edits {
            first_library: Some("libetmetal.so"),
            unneeded: &["libgcc_s.so.1".to_owned()],
            redirects: &[("__cxa_thread_atexit", "etmetal_thread_atexit")],
        };
        patch(&library, &edits).unwrap()
    }

    #[test]
    fn the_runtime_comes_first_and_the_unneeded_goes() {
        let bytes = patched();
        let library = Elf::parse(&bytes).unwrap();
        library.validate().unwrap();
        let needed = library.needed().unwrap();
        assert_eq!(needed[..3], ["libetmetal.so", "libstdc++.so.6", "libc.so.6"]);
        assert!(!needed.contains(&"libgcc_s.so.1"));
    }

    #[test]
    fn only_the_redirected_import_changes() {
        let (old, new) = (fixture::library(), patched());
        let (old, new) = (Elf::parse(&old).unwrap(), Elf::parse(&new).unwrap());
        let (old, new) = (old.imports().unwrap(), new.imports().unwrap());
        assert_eq!(old.len(), new.len());
        let mut changed = 0;
        for (old, new) in old.iter().zip(&new) {
            if old.name == "__cxa_thread_atexit" {
                assert_eq!((new.name, new.version), ("etmetal_thread_atexit", None));
                assert!(old.version.is_some());
                changed += 1;
            } else {
                assert_eq!(old, new);
            }
        }
        assert_eq!(changed, 1);
    }

    #[test]
    fn no_unique_symbol_is_left_and_every_symbol_is_found() {
        let old = fixture::library();
        let unique = Elf::parse(&old).unwrap();
        let unique = unique.symbols.iter().filter(|s| s.st_bind() == elf::STB_GNU_UNIQUE).count();
        assert!(unique > 0, "the fixture shows the problem");
        let new = patched();
        let library = Elf::parse(&new).unwrap();
        assert!(library.symbols.iter().all(|s| s.st_bind() != elf::STB_GNU_UNIQUE));
        assert!(library.defines("AOTInductorModelContainerRun"));
    }

    #[test]
    fn other_readers_see_the_same() {
        use object::{Object, ObjectSymbol};
        let bytes = patched();
        let file = object::File::parse(&*bytes).unwrap();
        let names: Vec<&str> = file.dynamic_symbols().filter_map(|s| s.name().ok()).collect();
        // `object` reads through the section headers, which still describe the old tables:
        // they stay for debuggers, and agree except for the appended names.
        assert!(names.contains(&"AOTInductorModelContainerRun"));
        let headers = object::elf::FileHeader64::<LE>::parse(&*bytes).unwrap();
        use object::read::elf::FileHeader;
        let segments = headers.program_headers(LE, &*bytes).unwrap();
        use object::read::elf::ProgramHeader;
        let dynamic = segments.iter().find_map(|s| s.dynamic(LE, &*bytes).ok().flatten()).unwrap();
        let needed = dynamic.iter().filter(|d| d.d_tag.get(LE) == elf::DT_NEEDED).count();
        assert_eq!(needed, 4, "one added, one removed");
    }
}
