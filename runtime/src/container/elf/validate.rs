//! Checks of everything the dynamic loader reads, writes or calls when it loads a library.

use object::elf::{self, DynamicTag, GnuHashHeader, Rela64};
use object::{LittleEndian as LE, U32, U64};

use super::{Elf, PAGE, damaged, is_undefined, table};
use crate::Result;

/// Libraries that span more address space than this are damage (large constants are not in the
/// library but in the weights blob).
const LARGEST_SPAN: u64 = 1 << 36;

/// What a relocation does, as far as the checks must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelocationClass {
    None,
    /// Stores base + addend.
    Relative,
    /// Calls base + addend.
    IndirectFunction,
    /// Stores something about the symbol.
    Symbol,
    /// Not possible in a shared library, or not known.
    Unknown,
}

fn relocation_class(machine: elf::Machine, kind: u32) -> RelocationClass {
    use RelocationClass::*;
    match (machine, kind) {
        (_, 0) => None,
        (elf::EM_X86_64, 8) | (elf::EM_AARCH64, 1027) => Relative,
        (elf::EM_X86_64, 37) | (elf::EM_AARCH64, 1032) => IndirectFunction,
        // 64, GLOB_DAT, JUMP_SLOT, DTPMOD64, DTPOFF64, TPOFF64, TLSDESC.
        (elf::EM_X86_64, 1 | 6 | 7 | 16 | 17 | 18 | 36) => Symbol,
        // ABS64, GLOB_DAT, JUMP_SLOT, DTPMOD, DTPREL, TPREL, TLSDESC.
        (elf::EM_AARCH64, 257 | 1025 | 1026 | 1028 | 1029 | 1030 | 1031) => Symbol,
        _ => Unknown,
    }
}

impl Elf<'_> {
    /// Checks what the loader would otherwise trust, beyond what [`Elf::parse`] has read.
    ///
    /// # Errors
    /// Says which part of the library lies outside the file or outside its segments.
    pub(crate) fn validate(&self) -> Result<()> {
        self.validate_symbols()?;
        self.needed()?;
        self.imports()?;
        self.validate_relocations(elf::DT_RELA, elf::DT_RELASZ, "relocations")?;
        self.validate_relocations(elf::DT_JMPREL, elf::DT_PLTRELSZ, "function relocations")?;
        self.validate_relative_relocations()?;
        self.validate_functions()
    }

    /// Segments lie inside the file, in ascending order, without overlap.
    pub(super) fn validate_segments(&self) -> Result<()> {
        let mut end_of_previous = None;
        for h in self.loads() {
            let (offset, address) = (h.p_offset.get(LE), h.p_vaddr.get(LE));
            let (in_file, in_memory) = (h.p_filesz.get(LE), h.p_memsz.get(LE));
            let file_end = offset.checked_add(in_file);
            if file_end.is_none_or(|end| end > self.bytes.len() as u64) {
                return Err(damaged(format_args!(
                    "its segment at {offset:#x} of {in_file} bytes ends beyond the file's {} bytes",
                    self.bytes.len()
                )));
            }
            let memory_end = address.checked_add(in_memory).filter(|&end| end <= LARGEST_SPAN);
            let aligned = address % PAGE == offset % PAGE && {
                let align = h.p_align.get(LE);
                align <= 1 || (align.is_power_of_two() && address % align == offset % align)
            };
            let ascending = end_of_previous.is_none_or(|end| end <= address);
            if in_file > in_memory || memory_end.is_none() || !aligned || !ascending {
                return Err(damaged(format_args!("its segment at {address:#x} cannot be mapped")));
            }
            end_of_previous = memory_end;
        }
        if end_of_previous.is_none() {
            return Err(damaged("it has no segment to load"));
        }
        self.validate_special_segments()
    }

    /// Segments that describe parts of others.
    fn validate_special_segments(&self) -> Result<()> {
        for h in self.program_headers {
            let (address, size) = (h.p_vaddr.get(LE), h.p_memsz.get(LE));
            match h.p_type.get(LE) {
                elf::PT_INTERP => {
                    return Err(damaged("it is a program, not a shared library"));
                }
                elf::PT_TLS => {
                    let align = h.p_align.get(LE);
                    if h.p_filesz.get(LE) > size
                        || size > LARGEST_SPAN
                        || align > (1 << 16)
                        || (align > 1 && !align.is_power_of_two())
                    {
                        return Err(damaged("its thread-local segment cannot be made"));
                    }
                    self.file_range(address, h.p_filesz.get(LE), "thread-local data")?;
                }
                elf::PT_GNU_RELRO if !self.in_memory(address, size) => {
                    return Err(damaged("its read-only-after-relocation range is in no segment"));
                }
                elf::PT_GNU_EH_FRAME | elf::PT_NOTE => {
                    self.file_range(address, h.p_filesz.get(LE), "unwind data")?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether `address..address + size` lies in one segment's memory.
    fn in_memory(&self, address: u64, size: u64) -> bool {
        self.in_segment(address, size, elf::ProgramFlags(0))
    }

    /// The same for a segment that has all of these flags.
    fn in_segment(&self, address: u64, size: u64, flags: elf::ProgramFlags) -> bool {
        self.loads().any(|h| {
            let start = h.p_vaddr.get(LE);
            h.p_flags.get(LE) & flags == flags
                && address >= start
                && (address - start).checked_add(size).is_some_and(|end| end <= h.p_memsz.get(LE))
        })
    }

    fn validate_symbols(&self) -> Result<()> {
        let thread_local_size = self
            .program_headers
            .iter()
            .find(|h| h.p_type.get(LE) == elf::PT_TLS)
            .map_or(0, |h| h.p_memsz.get(LE));
        for symbol in self.symbols.iter().skip(1) {
            let name = self.symbol_name(symbol)?;
            let value = symbol.st_value.get(LE);
            let inside = match symbol.st_type() {
                _ if is_undefined(symbol) || symbol.st_shndx.get(LE) == elf::SHN_ABS => true,
                elf::STT_TLS => value <= thread_local_size,
                elf::STT_GNU_IFUNC => self.in_segment(value, 1, elf::PF_X),
                // One past the end is where markers such as `_end` stand.
                _ => self.in_memory(value, 0) || value == self.span(),
            };
            if !inside {
                return Err(damaged(format_args!("its symbol {name:?} lies outside of it")));
            }
        }
        Ok(())
    }

    fn validate_relocations(&self, at: DynamicTag, size: DynamicTag, what: &str) -> Result<()> {
        let size = self.value(size).unwrap_or(0);
        let Some(address) = self.value(at) else {
            return if size == 0 {
                Ok(())
            } else {
                Err(damaged(format_args!("its {what} are lost")))
            };
        };
        let entry = size_of::<Rela64<LE>>() as u64;
        let plain = self.value(elf::DT_REL).is_some()
            || self.value(elf::DT_PLTREL).is_some_and(|kind| kind != elf::DT_RELA.0 as u64)
            || self.value(elf::DT_RELAENT).is_some_and(|size| size != entry);
        if plain || !size.is_multiple_of(entry) {
            return Err(damaged(format_args!("its {what} have an unknown form")));
        }
        let range = self.file_range(address, size, what)?;
        let relocations: &[Rela64<LE>] = table(&self.bytes[range], (size / entry) as usize, what)?;
        for (index, relocation) in relocations.iter().enumerate() {
            self.validate_relocation(relocation).map_err(|problem| {
                damaged(format_args!("number {index} of its {what} {problem}"))
            })?;
        }
        Ok(())
    }

    fn validate_relocation(&self, relocation: &Rela64<LE>) -> Result<(), &'static str> {
        let info = relocation.r_info.get(LE);
        let (symbol, kind) = ((info >> 32) as usize, info as u32);
        let addend = relocation.r_addend.get(LE) as u64;
        let class = relocation_class(self.header.e_machine.get(LE), kind);
        if class == RelocationClass::None {
            return Ok(());
        }
        if !self.in_segment(relocation.r_offset.get(LE), 8, elf::PF_W) {
            return Err("writes outside of its writable segments");
        }
        match class {
            RelocationClass::Unknown => Err("is of an unknown kind"),
            RelocationClass::IndirectFunction if !self.in_segment(addend, 1, elf::PF_X) => {
                Err("calls outside of its code")
            }
            RelocationClass::Symbol if symbol >= self.symbols.len() => Err("names no symbol"),
            _ => Ok(()),
        }
    }

    /// `DT_RELR`: packed relative relocations. An even word is an address; an odd one a bitmap
    /// of the 63 words that follow the last address.
    fn validate_relative_relocations(&self) -> Result<()> {
        let Some(address) = self.value(elf::DT_RELR) else { return Ok(()) };
        let size = self.value(elf::DT_RELRSZ).unwrap_or(0);
        let range = self.file_range(address, size, "packed relocations")?;
        let words: &[U64<LE>] =
            table(&self.bytes[range], (size / 8) as usize, "packed relocations")?;
        let mut next = 0u64;
        for word in words.iter().map(|w| w.get(LE)) {
            let targets: Vec<u64> = if word & 1 == 0 {
                next = word.wrapping_add(8);
                vec![word]
            } else {
                let base = next;
                next = next.wrapping_add(8 * 63);
                (0..63)
                    .filter(|bit| word >> (bit + 1) & 1 == 1)
                    .map(|bit| base.wrapping_add(8 * bit))
                    .collect()
            };
            if targets.iter().any(|&t| !self.in_segment(t, 8, elf::PF_W)) {
                return Err(damaged("a packed relocation writes outside of its writable segments"));
            }
        }
        Ok(())
    }

    /// What the loader calls: `DT_INIT`, `DT_FINI` and the arrays of function pointers.
    fn validate_functions(&self) -> Result<()> {
        for tag in [elf::DT_INIT, elf::DT_FINI] {
            if self.value(tag).is_some_and(|address| !self.in_segment(address, 1, elf::PF_X)) {
                return Err(damaged("its initialiser is not in its code"));
            }
        }
        for (at, size) in
            [(elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ), (elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ)]
        {
            let Some(address) = self.value(at) else { continue };
            let size = self.value(size).unwrap_or(0);
            let range = self.file_range(address, size, "initialisers")?;
            self.validate_function_array(address, range)?;
        }
        Ok(())
    }

    /// Each entry is filled by a relative relocation whose addend (or, for a packed one, whose
    /// present value) is a function.
    fn validate_function_array(&self, address: u64, range: std::ops::Range<usize>) -> Result<()> {
        let size = range.len() as u64;
        let entries: &[U64<LE>] =
            table(&self.bytes[range.clone()], range.len() / 8, "initialisers")?;
        let mut functions: Vec<u64> = entries.iter().map(|e| e.get(LE)).collect();
        let machine = self.header.e_machine.get(LE);
        for relocation in self.relocations()? {
            let offset = relocation.r_offset.get(LE);
            let kind = relocation.r_info.get(LE) as u32;
            let inside = offset >= address && offset - address < size;
            if inside
                && relocation_class(machine, kind) == RelocationClass::Relative
                && let Some(function) = functions.get_mut(((offset - address) / 8) as usize)
            {
                *function = relocation.r_addend.get(LE) as u64;
            }
        }
        // 0 and -1 are ends of lists that the loader skips.
        let callable = |&f: &u64| f == 0 || f == u64::MAX || self.in_segment(f, 1, elf::PF_X);
        if functions.iter().all(callable) {
            Ok(())
        } else {
            Err(damaged("an initialiser is not in its code"))
        }
    }

    fn relocations(&self) -> Result<&[Rela64<LE>]> {
        let Some(address) = self.value(elf::DT_RELA) else { return Ok(&[]) };
        let size = self.value(elf::DT_RELASZ).unwrap_or(0);
        let range = self.file_range(address, size, "relocations")?;
        table(&self.bytes[range], (size as usize) / size_of::<Rela64<LE>>(), "relocations")
    }

    /// Checks the GNU hash table, and says where the symbols it knows end; nothing if it knows
    /// none.
    pub(super) fn gnu_hash_end(&self, address: u64) -> Result<Option<u64>> {
        let header: &GnuHashHeader<LE> = self.at(address, "hash table")?;
        let buckets = u64::from(header.bucket_count.get(LE));
        let blooms = u64::from(header.bloom_count.get(LE));
        let first = u64::from(header.symbol_base.get(LE));
        if buckets == 0 || !blooms.is_power_of_two() {
            return Err(damaged("its hash table has no buckets"));
        }
        let buckets_at = address + size_of::<GnuHashHeader<LE>>() as u64 + 8 * blooms;
        let chains_at = buckets_at + 4 * buckets;
        self.file_range(address, chains_at - address, "hash table")?;
        let range = self.file_range(buckets_at, 4 * buckets, "hash table")?;
        let starts: &[U32<LE>] = table(&self.bytes[range], buckets as usize, "hash table")?;
        let mut last = None;
        for start in starts.iter().map(|b| u64::from(b.get(LE))).filter(|&s| s != 0) {
            if start < first {
                return Err(damaged("its hash table names an undefined symbol"));
            }
            last = last.max(Some(start));
        }
        // Chains are laid out in the order of the buckets, so the end of the chain that starts
        // last is the end of all.
        let Some(mut symbol) = last else { return Ok(None) };
        loop {
            let link: &U32<LE> = self.at(chains_at + 4 * (symbol - first), "hash table")?;
            symbol += 1;
            if link.get(LE) & 1 == 1 {
                return Ok(Some(symbol));
            }
        }
    }
}
