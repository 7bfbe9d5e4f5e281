//! Reading an ELF shared library without trusting it.
//!
//! [`Elf::parse`] reads everything the dynamic loader would read to link the library, and
//! [`validate`](Elf::validate) checks all of it against the file, because the loader itself
//! trusts what it is given: a truncated library would end the process.

mod validate;

use std::collections::BTreeMap;
use std::ops::Range;

use object::elf::{
    self, Dyn64, DynamicTag, FileHeader64, ProgramHeader64, Sym64, Vernaux, Verneed,
};
use object::pod::{Pod, from_bytes, slice_from_bytes};
use object::{LittleEndian as LE, U16, U32};

use crate::Result;
use crate::error::err;

/// What the loader's page arithmetic is done in; libraries are linked for at least this.
const PAGE: u64 = 0x1000;

/// Names that are longer are not a name but damage.
const LONGEST_NAME: usize = 1 << 16;

/// One undefined symbol of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether the library works without it.
    pub weak: bool,
    /// The version asked for and the library expected to have it, as `("GLIBC_2.34", "libc.so.6")`.
    pub version: Option<(&'a str, &'a str)>,
}

/// The dynamic part of a 64-bit little-endian ELF shared library.
#[derive(Debug)]
pub(crate) struct Elf<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) header: &'a FileHeader64<LE>,
    pub(super) program_headers: &'a [ProgramHeader64<LE>],
    /// Entries before `DT_NULL`.
    pub(super) dynamic: &'a [Dyn64<LE>],
    pub(super) strings: &'a [u8],
    pub(super) symbols: &'a [Sym64<LE>],
    /// Where `symbols` lie in the file.
    pub(super) symbols_at: Range<usize>,
    /// Where the symbols' version indices lie in the file.
    pub(super) versions_at: Option<Range<usize>>,
}

pub(super) fn damaged(what: impl std::fmt::Display) -> crate::Error {
    err!(
        InvalidProgram,
        "the model library is damaged: {what}; export the model again, or copy its .pte again"
    )
}

/// `count` values of type `T` at the start of `bytes`.
fn table<'a, T: Pod>(bytes: &'a [u8], count: usize, what: &str) -> Result<&'a [T]> {
    slice_from_bytes(bytes, count)
        .map(|(values, _)| values)
        .map_err(|()| damaged(format_args!("{count} entries of its {what} do not fit in it")))
}

impl<'a> Elf<'a> {
    /// Reads the tables of a shared library. The caller has checked the identification bytes:
    /// 64-bit, little-endian (see [`super::audit`]).
    ///
    /// # Errors
    /// A table does not lie inside the file.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let (header, _) = from_bytes::<FileHeader64<LE>>(bytes)
            .map_err(|()| damaged(format_args!("{} bytes hold no ELF header", bytes.len())))?;
        let mut this = Elf {
            bytes,
            header,
            program_headers: program_headers(bytes, header)?,
            dynamic: &[],
            strings: &[],
            symbols: &[],
            symbols_at: 0..0,
            versions_at: None,
        };
        this.validate_segments()?;
        this.dynamic = this.read_dynamic()?;
        this.strings = this.read_strings()?;
        this.read_symbols()?;
        Ok(this)
    }

    /// The part of the file that is loaded at `address..address + len`.
    pub(super) fn file_range(&self, address: u64, len: u64, what: &str) -> Result<Range<usize>> {
        for segment in self.loads() {
            let start = segment.p_vaddr.get(LE);
            let in_segment = address >= start
                && (address - start)
                    .checked_add(len)
                    .is_some_and(|end| end <= segment.p_filesz.get(LE));
            if in_segment {
                // Within the file: checked by `validate_segments`.
                let at = (segment.p_offset.get(LE) + (address - start)) as usize;
                return Ok(at..at + len as usize);
            }
        }
        Err(damaged(format_args!(
            "its {what} ({len} bytes at address {address:#x}) is not part of a segment in the file"
        )))
    }

    /// The loadable segments, in the order of their addresses.
    pub(super) fn loads(&self) -> impl Iterator<Item = &'a ProgramHeader64<LE>> + use<'a> {
        self.program_headers.iter().filter(|h| h.p_type.get(LE) == elf::PT_LOAD)
    }

    /// The value of the first dynamic entry with this tag.
    pub(super) fn value(&self, tag: DynamicTag) -> Option<u64> {
        self.dynamic.iter().find(|d| d.d_tag.get(LE) == tag).map(|d| d.d_val.get(LE))
    }

    fn required(&self, tag: DynamicTag, what: &str) -> Result<u64> {
        self.value(tag).ok_or_else(|| damaged(format_args!("it has no {what}")))
    }

    /// The string at `offset` of the dynamic string table.
    pub(super) fn string(&self, offset: u64, what: &str) -> Result<&'a str> {
        let bad = || damaged(format_args!("the name of {what} is not in its string table"));
        let rest = usize::try_from(offset).ok().and_then(|at| self.strings.get(at..));
        let rest = rest.ok_or_else(bad)?;
        let len = rest.iter().take(LONGEST_NAME).position(|&b| b == 0).ok_or_else(bad)?;
        std::str::from_utf8(&rest[..len]).map_err(|_| bad())
    }

    fn strings_of(&self, tag: DynamicTag, what: &str) -> Result<Vec<&'a str>> {
        let entries = self.dynamic.iter().filter(|d| d.d_tag.get(LE) == tag);
        entries.map(|d| self.string(d.d_val.get(LE), what)).collect()
    }

    /// The libraries it needs (`DT_NEEDED`), in order.
    pub(crate) fn needed(&self) -> Result<Vec<&'a str>> {
        self.strings_of(elf::DT_NEEDED, "a library that it needs")
    }

    /// The directories it wants searched for them (`DT_RUNPATH`, `DT_RPATH`).
    pub(crate) fn search_paths(&self) -> Result<Vec<&'a str>> {
        let mut paths = self.strings_of(elf::DT_RUNPATH, "its run path")?;
        paths.extend(self.strings_of(elf::DT_RPATH, "its run path")?);
        Ok(paths.into_iter().flat_map(|p| p.split(':')).filter(|p| !p.is_empty()).collect())
    }

    /// The symbols that it leaves to others.
    pub(crate) fn imports(&self) -> Result<Vec<Import<'a>>> {
        let versions = self.needed_versions()?;
        let undefined = self.symbols.iter().enumerate().skip(1).filter(|(_, s)| is_undefined(s));
        undefined
            .map(|(index, symbol)| {
                Ok(Import {
                    name: self.symbol_name(symbol)?,
                    weak: symbol.st_bind() == elf::STB_WEAK,
                    version: self.version_index(index).and_then(|v| versions.get(&v).copied()),
                })
            })
            .collect()
    }

    /// Whether it defines a global symbol of this name.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.symbols.iter().skip(1).any(|s| {
            !is_undefined(s)
                && s.st_bind() != elf::STB_LOCAL
                && self.symbol_name(s).is_ok_and(|n| n == name)
        })
    }

    pub(super) fn symbol_name(&self, symbol: &Sym64<LE>) -> Result<&'a str> {
        self.string(u64::from(symbol.st_name.get(LE)), "a symbol")
    }

    /// One past the last address that it occupies, from the first: bytes of address space.
    pub(crate) fn span(&self) -> u64 {
        self.loads().map(|h| h.p_vaddr.get(LE) + h.p_memsz.get(LE)).max().unwrap_or(0)
    }

    /// Bytes of the segments that are neither written nor run: where constant data lies.
    pub(crate) fn constant_data(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.loads()
            .filter(|h| h.p_flags.get(LE) & (elf::PF_W | elf::PF_X) == elf::ProgramFlags(0))
            .filter_map(move |h| {
                let at = h.p_offset.get(LE) as usize;
                bytes.get(at..at + h.p_filesz.get(LE) as usize)
            })
    }

    fn version_index(&self, symbol: usize) -> Option<u16> {
        let at = self.versions_at.as_ref()?.start + 2 * symbol;
        let (index, _) = from_bytes::<U16<LE>>(self.bytes.get(at..)?).ok()?;
        Some(index.get(LE) & !elf::VERSYM_HIDDEN.0)
    }

    /// Version and library by version index.
    fn needed_versions(&self) -> Result<BTreeMap<u16, (&'a str, &'a str)>> {
        let mut versions = BTreeMap::new();
        let Some(mut address) = self.value(elf::DT_VERNEED) else { return Ok(versions) };
        for _ in 0..self.value(elf::DT_VERNEEDNUM).unwrap_or(0) {
            let need: &Verneed<LE> = self.at(address, "version needs")?;
            let file = self.string(u64::from(need.vn_file.get(LE)), "a versioned library")?;
            let mut aux_address = advance(address, need.vn_aux.get(LE))?;
            for _ in 0..need.vn_cnt.get(LE) {
                let aux: &Vernaux<LE> = self.at(aux_address, "version needs")?;
                let name = self.string(u64::from(aux.vna_name.get(LE)), "a version")?;
                versions.insert(aux.vna_other.get(LE).0, (name, file));
                aux_address = advance(aux_address, aux.vna_next.get(LE))?;
            }
            if need.vn_next.get(LE) == 0 {
                break;
            }
            address = advance(address, need.vn_next.get(LE))?;
        }
        Ok(versions)
    }

    /// The `T` that is loaded at `address`.
    fn at<T: Pod>(&self, address: u64, what: &str) -> Result<&'a T> {
        let range = self.file_range(address, size_of::<T>() as u64, what)?;
        from_bytes(&self.bytes[range])
            .map(|(value, _)| value)
            .map_err(|()| damaged(format_args!("its {what} cannot be read")))
    }

    fn read_dynamic(&self) -> Result<&'a [Dyn64<LE>]> {
        let header = self
            .program_headers
            .iter()
            .find(|h| h.p_type.get(LE) == elf::PT_DYNAMIC)
            .ok_or_else(|| damaged("it has no dynamic section"))?;
        let size = header.p_memsz.get(LE);
        let range = self.file_range(header.p_vaddr.get(LE), size, "dynamic section")?;
        let count = range.len() / size_of::<Dyn64<LE>>();
        let entries: &[Dyn64<LE>] = table(&self.bytes[range], count, "dynamic section")?;
        let end = entries
            .iter()
            .position(|d| d.d_tag.get(LE) == elf::DT_NULL)
            .ok_or_else(|| damaged("its dynamic section has no end"))?;
        Ok(&entries[..end])
    }

    fn read_strings(&self) -> Result<&'a [u8]> {
        let address = self.required(elf::DT_STRTAB, "string table")?;
        let size = self.required(elf::DT_STRSZ, "string table size")?;
        let strings = &self.bytes[self.file_range(address, size, "string table")?];
        match strings.last() {
            Some(0) => Ok(strings),
            _ => Err(damaged("its string table has no end")),
        }
    }

    fn read_symbols(&mut self) -> Result<()> {
        let entry = size_of::<Sym64<LE>>() as u64;
        if self.value(elf::DT_SYMENT).is_some_and(|size| size != entry) {
            return Err(damaged("its symbols have an unknown size"));
        }
        let address = self.required(elf::DT_SYMTAB, "symbol table")?;
        let count = self.symbol_count(address)?;
        let size = count.checked_mul(entry).ok_or_else(|| damaged("it has too many symbols"))?;
        self.symbols_at = self.file_range(address, size, "symbol table")?;
        self.symbols = table(&self.bytes[self.symbols_at.clone()], count as usize, "symbol table")?;
        if let Some(address) = self.value(elf::DT_VERSYM) {
            self.versions_at = Some(self.file_range(address, 2 * count, "symbol versions")?);
        }
        Ok(())
    }

    /// Symbols in the table, which says so nowhere: undefined symbols come first, and the hash
    /// table knows the last defined one. A library without defined symbols ends its table where
    /// the string table begins, as every linker lays it out.
    fn symbol_count(&self, symtab: u64) -> Result<u64> {
        if let Some(address) = self.value(elf::DT_GNU_HASH)
            && let Some(count) = self.gnu_hash_end(address)?
        {
            return Ok(count);
        }
        if let Some(address) = self.value(elf::DT_HASH) {
            let chains: &U32<LE> = self.at(address.saturating_add(4), "hash table")?;
            return Ok(u64::from(chains.get(LE)));
        }
        let strtab = self.required(elf::DT_STRTAB, "string table")?;
        let gap = strtab.checked_sub(symtab).ok_or_else(|| damaged("its tables are disordered"))?;
        Ok(gap / size_of::<Sym64<LE>>() as u64)
    }
}

/// Whether a symbol is left to other libraries.
pub(super) fn is_undefined(symbol: &Sym64<LE>) -> bool {
    symbol.st_shndx.get(LE) == elf::SHN_UNDEF
}

fn advance(address: u64, by: u32) -> Result<u64> {
    address.checked_add(u64::from(by)).ok_or_else(|| damaged("its tables leave the address space"))
}

fn program_headers<'a>(
    bytes: &'a [u8],
    header: &FileHeader64<LE>,
) -> Result<&'a [ProgramHeader64<LE>]> {
    if usize::from(header.e_phentsize.get(LE)) != size_of::<ProgramHeader64<LE>>() {
        return Err(damaged("its program headers have an unknown size"));
    }
    let rest = usize::try_from(header.e_phoff.get(LE)).ok().and_then(|at| bytes.get(at..));
    let rest = rest.ok_or_else(|| damaged("its program headers lie beyond its end"))?;
    table(rest, usize::from(header.e_phnum.get(LE)), "program headers")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::container::fixture;
    use proptest::prelude::*;

    /// What loading does before it trusts the loader.
    fn examine(bytes: &[u8]) -> Result<()> {
        let library = Elf::parse(bytes)?;
        library.validate()?;
        library.needed()?;
        library.search_paths()?;
        crate::container::patch::patch(&library, &Default::default()).map(drop)
    }

    #[test]
    fn a_real_model_is_valid() {
        let bytes = fixture::library();
        examine(&bytes).unwrap();
        let library = Elf::parse(&bytes).unwrap();
        assert!(library.needed().unwrap().contains(&"libc.so.6"));
        let imports = library.imports().unwrap();
        let import = imports.iter().find(|i| i.name == "pthread_mutex_lock").unwrap();
        assert_eq!(import.version, Some(("GLIBC_2.2.5", "libc.so.6")));
        assert!(imports.iter().any(|i| i.name == "__gmon_start__" && i.weak));
        assert!(library.defines("AOTInductorModelContainerCreateWithDevice"));
        assert!(!library.defines("aoti_torch_mps_malloc"));
    }

    #[test]
    fn libraries_of_the_system_are_valid() {
        // Made by other linkers and options: packed relocations, other hash tables.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut paths: Vec<&str> = maps
            .lines()
            .filter_map(|l| l.split_whitespace().nth(5))
            .filter(|p| p.contains(".so"))
            .collect();
        paths.dedup();
        assert!(!paths.is_empty());
        for path in paths {
            let bytes = std::fs::read(path).unwrap();
            // The C library is a program too.
            if let Err(error) = examine(&bytes) {
                assert!(error.to_string().contains("it is a program"), "{path}: {error}");
            }
        }
    }

    #[test]
    fn cut_libraries_are_refused_at_every_place() {
        let bytes = fixture::library();
        // All that is loaded ends before the section headers.
        let loaded = Elf::parse(&bytes).unwrap();
        let end = loaded.loads().map(|h| h.p_offset.get(LE) + h.p_filesz.get(LE)).max().unwrap();
        for len in (0..end as usize).step_by(997) {
            assert!(examine(&bytes[..len]).is_err(), "cut at {len}");
        }
    }

    /// Where a change does harm: headers, dynamic section, symbols, hash table, versions,
    /// relocations, all of which lie at the two ends of the loaded parts.
    fn interesting(len: usize) -> impl Strategy<Value = usize> {
        let at = 0x566e8.min(len - 1);
        prop_oneof![0..1024usize, 0..0x4700usize, 0x11000..0x16438usize, at..len]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn changed_bytes_never_crash_it(
            changes in proptest::collection::vec((interesting(360_000), any::<u8>()), 1..6),
        ) {
            let mut bytes = fixture::library();
            for (at, value) in changes {
                bytes[at] = value;
            }
            let _ = examine(&bytes);
        }

        #[test]
        fn random_bytes_behind_a_good_header_never_crash_it(
            tail in proptest::collection::vec(any::<u8>(), 0..4096),
        ) {
            let mut bytes = fixture::library()[..64].to_vec();
            bytes.extend(tail);
            prop_assert!(examine(&bytes).is_err());
        }
    }
}
