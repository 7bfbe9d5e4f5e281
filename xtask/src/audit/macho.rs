//! Reading one Mach-O file, or one part of a fat one.

use std::collections::{BTreeSet, HashSet};

use anyhow::{Context as _, Result, bail, ensure};
use object::macho::{self, MachHeader32, MachHeader64};
use object::read::macho::{LoadCommandVariant, MachHeader, Nlist, Section as _, Segment};
use object::{Endianness, FileKind};

use super::image::{Format, Image, Import, Kind, Library, OsVersion, Platform, Provider, Stack};
use super::signature::Signature;

/// Reads one thin Mach-O file.
///
/// # Errors
/// It is damaged, or of a kind that is not linked (a core dump, debug symbols).
pub fn read(bytes: &[u8]) -> Result<Image> {
    match FileKind::parse(bytes)? {
        FileKind::MachO64 => read_class::<MachHeader64<Endianness>>(bytes),
        FileKind::MachO32 => read_class::<MachHeader32<Endianness>>(bytes),
        other => bail!("{other:?} is no Mach-O file"),
    }
}

/// What has to be read after the load commands.
#[derive(Default)]
struct Tables<'a> {
    symbols: Option<&'a macho::SymtabCommand<Endianness>>,
    exports: Option<&'a [u8]>,
}

fn read_class<M: MachHeader<Endian = Endianness>>(bytes: &[u8]) -> Result<Image> {
    let header = M::parse(bytes, 0)?;
    let endian = header.endian()?;
    let kind = kind(header.filetype(endian))?;
    let architecture = architecture(header.cputype(endian), header.cpusubtype(endian));
    let mut image = Image::new(Format::MachO, architecture, kind);
    let flags = header.flags(endian);
    if flags.contains(macho::MH_ALLOW_STACK_EXECUTION) {
        image.stack = Stack::Executable;
    }
    let tables = read_commands(header, endian, bytes, &mut image)?;
    if let Some(table) = tables.symbols {
        let two_level = flags.contains(macho::MH_TWOLEVEL);
        read_symbols::<M>(table, endian, bytes, two_level, &mut image)?;
    }
    if let Some(trie) = tables.exports.filter(|_| image.is_linked()) {
        image.exports = exported_names(trie)?.iter().map(|name| c_name(name)).collect();
    }
    if image.is_linked() {
        image.signature = Some(Signature::read::<M>(header, bytes)?);
    }
    Ok(image)
}

fn kind(kind: macho::FileType) -> Result<Kind> {
    match kind {
        macho::MH_EXECUTE => Ok(Kind::Program),
        macho::MH_DYLIB | macho::MH_BUNDLE | macho::MH_DYLIB_STUB => Ok(Kind::Library),
        macho::MH_OBJECT => Ok(Kind::Object),
        other => bail!("a Mach-O file of type {} is not linked", other.0),
    }
}

/// The name of a processor as Apple's tools write it.
pub(crate) fn architecture(kind: macho::CpuType, variant: macho::CpuSubtype) -> String {
    // The upper bits of the variant are capabilities.
    let variant = variant.0 & 0x00ff_ffff;
    let name = match kind {
        macho::CPU_TYPE_ARM64 if variant == macho::CPU_SUBTYPE_ARM64E.0 => "arm64e",
        macho::CPU_TYPE_ARM64 => "arm64",
        macho::CPU_TYPE_X86_64 => "x86_64",
        macho::CPU_TYPE_X86 => "i386",
        macho::CPU_TYPE_ARM => "armv7",
        other => return format!("machine-{:#x}", other.0),
    };
    name.to_owned()
}

fn read_commands<'a, M: MachHeader<Endian = Endianness>>(
    header: &'a M,
    endian: Endianness,
    bytes: &'a [u8],
    image: &mut Image,
) -> Result<Tables<'a>> {
    let mut tables = Tables::default();
    let mut commands = header.load_commands(endian, bytes, 0)?;
    while let Some(command) = commands.next()? {
        let text = |string| -> Result<String> {
            Ok(String::from_utf8_lossy(command.string(endian, string)?).into_owned())
        };
        match command.variant()? {
            LoadCommandVariant::Segment64(segment, sections) => {
                read_segment(segment, sections, endian, bytes, image)?;
            }
            LoadCommandVariant::Segment32(segment, sections) => {
                read_segment(segment, sections, endian, bytes, image)?;
            }
            LoadCommandVariant::Dylib(dylib) => {
                let used =
                    command.dylib_use_flags(endian, dylib)?.unwrap_or(macho::DylibUseFlags(0));
                image.libraries.push(Library {
                    name: text(dylib.dylib.name)?,
                    weak: command.cmd() == macho::LC_LOAD_WEAK_DYLIB
                        || used.contains(macho::DYLIB_USE_WEAK_LINK),
                    reexported: command.cmd() == macho::LC_REEXPORT_DYLIB
                        || used.contains(macho::DYLIB_USE_REEXPORT),
                });
            }
            LoadCommandVariant::IdDylib(dylib) => image.name = Some(text(dylib.dylib.name)?),
            LoadCommandVariant::Rpath(rpath) => image.rpaths.push(text(rpath.path)?),
            LoadCommandVariant::Symtab(table) => tables.symbols = Some(table),
            LoadCommandVariant::DyldInfo(info) => {
                let range = (info.export_off.get(endian), info.export_size.get(endian));
                tables.exports = Some(slice(bytes, range, "table of exports")?);
            }
            LoadCommandVariant::LinkeditData(data)
                if command.cmd() == macho::LC_DYLD_EXPORTS_TRIE =>
            {
                let range = (data.dataoff.get(endian), data.datasize.get(endian));
                tables.exports = Some(slice(bytes, range, "table of exports")?);
            }
            LoadCommandVariant::BuildVersion(version, _) => {
                image.platform = Some(Platform {
                    name: platform_name(version.platform.get(endian)),
                    minimum: OsVersion::from_packed(version.minos.get(endian).0),
                });
            }
            LoadCommandVariant::VersionMin(version) if image.platform.is_none() => {
                image.platform = Some(Platform {
                    name: old_platform_name(command.cmd()),
                    minimum: OsVersion::from_packed(version.version.get(endian).0),
                });
            }
            _ => {}
        }
    }
    Ok(tables)
}

fn slice<'a>(bytes: &'a [u8], (offset, size): (u32, u32), what: &str) -> Result<&'a [u8]> {
    let start = offset as usize;
    let end = start.checked_add(size as usize);
    end.and_then(|end| bytes.get(start..end))
        .with_context(|| format!("its {what} ends beyond the end of the file"))
}

fn read_segment<S: Segment<Endian = Endianness>>(
    segment: &S,
    sections: &[u8],
    endian: Endianness,
    bytes: &[u8],
    image: &mut Image,
) -> Result<()> {
    let name = String::from_utf8_lossy(segment.name()).into_owned();
    segment
        .data(endian, bytes)
        .map_err(|()| anyhow::anyhow!("its segment {name} ends beyond the end of the file"))?;
    if image.kind == Kind::Object {
        return Ok(());
    }
    let rights = segment.initprot(endian);
    if rights.contains(macho::VM_PROT_WRITE) && rights.contains(macho::VM_PROT_EXECUTE) {
        image.writable_code.push(format!("segment {name}"));
    }
    let local_or_external = macho::S_ATTR_LOC_RELOC | macho::S_ATTR_EXT_RELOC;
    if name == "__TEXT" {
        for section in segment.sections(endian, sections)? {
            let flags = section.flags(endian).0;
            image.text_relocations |= flags & local_or_external.0 != 0;
        }
    }
    Ok(())
}

fn platform_name(platform: macho::Platform) -> &'static str {
    match platform {
        macho::PLATFORM_MACOS => "macOS",
        macho::PLATFORM_IOS => "iOS",
        macho::PLATFORM_IOSSIMULATOR => "iOS simulator",
        macho::PLATFORM_MACCATALYST => "Mac Catalyst",
        macho::PLATFORM_TVOS => "tvOS",
        macho::PLATFORM_WATCHOS => "watchOS",
        macho::PLATFORM_VISIONOS => "visionOS",
        _ => "another Apple system",
    }
}

fn old_platform_name(command: macho::LoadCommandType) -> &'static str {
    match command {
        macho::LC_VERSION_MIN_MACOSX => "macOS",
        macho::LC_VERSION_MIN_IPHONEOS => "iOS",
        _ => "another Apple system",
    }
}

/// C names carry an underscore in Mach-O that neither C nor `dlsym` knows.
fn c_name(name: &[u8]) -> String {
    String::from_utf8_lossy(name.strip_prefix(b"_").unwrap_or(name)).into_owned()
}

fn read_symbols<M: MachHeader<Endian = Endianness>>(
    table: &macho::SymtabCommand<Endianness>,
    endian: Endianness,
    bytes: &[u8],
    two_level: bool,
    image: &mut Image,
) -> Result<()> {
    let symbols = table.symbols::<M, _>(endian, bytes)?;
    for symbol in symbols.iter() {
        let kind = symbol.n_type();
        if kind.is_stab() || !kind.contains(macho::N_EXT) {
            continue;
        }
        let name = c_name(symbol.name(endian, symbols.strings())?);
        let description = symbol.n_desc(endian);
        if !symbol.is_undefined() {
            if !kind.contains(macho::N_PEXT) {
                image.exports.insert(name);
            }
            continue;
        }
        // Common symbols of objects look undefined but have a size.
        if symbol.is_common() && image.kind == Kind::Object {
            image.exports.insert(name);
            continue;
        }
        image.imports.push(Import {
            name,
            weak: description.0 & macho::N_WEAK_REF.0 != 0,
            version: None,
            provider: provider((description.0 >> 8) as u8, two_level && image.is_linked()),
        });
    }
    Ok(())
}

fn provider(ordinal: u8, two_level: bool) -> Provider {
    match macho::SymbolLibrary(ordinal) {
        _ if !two_level => Provider::Any,
        macho::EXECUTABLE_ORDINAL => Provider::Program,
        ordinal if ordinal.0 > macho::MAX_LIBRARY_ORDINAL || ordinal.0 == 0 => Provider::Any,
        ordinal => Provider::Library(usize::from(ordinal.0) - 1),
    }
}

/// The names in an exports trie. Each node is read once, so that a damaged trie whose nodes share
/// children ends.
fn exported_names(trie: &[u8]) -> Result<BTreeSet<Vec<u8>>> {
    let mut names = BTreeSet::new();
    let mut seen = HashSet::new();
    let mut todo = vec![(0usize, Vec::new())];
    if trie.is_empty() {
        return Ok(names);
    }
    // Names of a real trie share beginnings; those of a damaged one could fill the memory.
    let mut budget = trie.len().saturating_mul(64);
    while let Some((at, name)) = todo.pop() {
        ensure!(seen.insert(at), "its table of exports runs in circles");
        budget = budget.checked_sub(name.len()).context("its table of exports is damaged")?;
        let mut node = Cursor { bytes: trie, at };
        let size = node.uleb128()?;
        let children = node.at.checked_add(usize::try_from(size)?);
        if size != 0 {
            names.insert(name.clone());
        }
        node.at = children.context("its table of exports is damaged")?;
        for _ in 0..node.byte()? {
            let edge = node.string()?;
            let child = usize::try_from(node.uleb128()?)?;
            todo.push((child, [&name[..], edge].concat()));
        }
    }
    Ok(names)
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).context("its table of exports is cut off")?;
        self.at += 1;
        Ok(*byte)
    }

    fn uleb128(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        bail!("a number in its table of exports is too large")
    }

    fn string(&mut self) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|&b| b == 0).context("its table of exports is cut off")?;
        self.at += end + 1;
        Ok(&rest[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trie_gives_every_name_and_a_circle_is_an_error() {
        // "" -> "a" (export, with child "b" that is one too).
        let trie = [0, 1, b'a', 0, 6, 0, 1, 0, 1, b'b', 0, 13, 0, 1, 0, 0];
        let names = exported_names(&trie).unwrap();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), [b"a".to_vec(), b"ab".to_vec()]);
        let mut circle = trie;
        circle[11] = 0;
        assert_eq!(
            exported_names(&circle).unwrap_err().to_string(),
            "its table of exports runs in circles"
        );
        for len in 1..trie.len() - 1 {
            assert!(exported_names(&trie[..len]).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn ordinals_name_who_provides() {
        assert_eq!(provider(1, true), Provider::Library(0));
        assert_eq!(provider(1, false), Provider::Any);
        assert_eq!(provider(0xff, true), Provider::Program);
        assert_eq!(provider(0xfe, true), Provider::Any);
    }
}
