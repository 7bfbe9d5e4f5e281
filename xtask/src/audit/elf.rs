//! Reading ELF files.

use anyhow::{Context as _, Result, bail};
use object::elf;
use object::read::elf::{Dyn as _, ElfFile, FileHeader, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, FileKind, NameOrOrdinal, Object as _, ObjectSymbol as _};

use super::image::{Format, Image, Import, Kind, Library, OsVersion, Platform, Provider, Stack};

/// Reads one ELF file.
///
/// # Errors
/// It is damaged, or of a kind that is not linked (a core dump).
pub fn read(bytes: &[u8]) -> Result<Image> {
    match FileKind::parse(bytes)? {
        FileKind::Elf64 => read_class::<elf::FileHeader64<Endianness>>(bytes),
        FileKind::Elf32 => read_class::<elf::FileHeader32<Endianness>>(bytes),
        other => bail!("{other:?} is no ELF file"),
    }
}

fn read_class<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Result<Image> {
    let file = ElfFile::<E>::parse(bytes)?;
    let endian = file.endian();
    let header = file.elf_header();
    let mut image = Image::new(Format::Elf, architecture(header), kind(&file)?);
    image.stack = if image.kind == Kind::Object { object_stack(&file) } else { stack(&file) };
    for segment in file.elf_program_headers() {
        let flags = segment.p_flags(endian);
        if segment.p_type(endian) == elf::PT_LOAD
            && flags.contains(elf::PF_W)
            && flags.contains(elf::PF_X)
        {
            image.writable_code.push(format!("segment at {:#x}", segment.p_vaddr(endian).into()));
        }
    }
    if image.kind == Kind::Object {
        read_object_symbols(&file, &mut image);
    } else {
        read_dynamic(&file, &mut image)?;
        read_dynamic_symbols(&file, &mut image)?;
        image.platform = glibc(&image);
    }
    Ok(image)
}

fn architecture<E: FileHeader<Endian = Endianness>>(header: &E) -> String {
    let endian = header.endian().unwrap_or(Endianness::Little);
    let machine = header.e_machine(endian);
    let name = match machine {
        elf::EM_X86_64 if header.is_class_32() => "x32",
        elf::EM_X86_64 => "x86_64",
        elf::EM_AARCH64 => "aarch64",
        elf::EM_386 => "i386",
        elf::EM_ARM => "arm",
        elf::EM_RISCV => "riscv64",
        elf::EM_PPC64 => "powerpc64",
        elf::EM_S390 => "s390x",
        other => return format!("machine-{}", other.0),
    };
    if header.is_big_endian() && name == "aarch64" { format!("{name}_be") } else { name.to_owned() }
}

/// Position-independent programs are of the type of shared libraries; an interpreter, or the flag
/// that says so, tells them apart.
fn kind<E: FileHeader<Endian = Endianness>>(file: &ElfFile<'_, E>) -> Result<Kind> {
    let endian = file.endian();
    match file.elf_header().e_type(endian) {
        elf::ET_REL => Ok(Kind::Object),
        elf::ET_EXEC => Ok(Kind::Program),
        elf::ET_DYN => {
            let segments = file.elf_program_headers();
            let interpreter = segments.iter().any(|s| s.p_type(endian) == elf::PT_INTERP);
            let has_name = dynamic(file)?.iter().any(|(tag, _)| *tag == elf::DT_SONAME);
            Ok(if interpreter && !has_name { Kind::Program } else { Kind::Library })
        }
        other => bail!("an ELF file of type {} is not linked", other.0),
    }
}

fn stack<E: FileHeader<Endian = Endianness>>(file: &ElfFile<'_, E>) -> Stack {
    let endian = file.endian();
    let said = file.elf_program_headers().iter().find(|s| s.p_type(endian) == elf::PT_GNU_STACK);
    match said {
        None => Stack::Unsaid,
        Some(segment) if segment.p_flags(endian).contains(elf::PF_X) => Stack::Executable,
        Some(_) => Stack::Data,
    }
}

/// Objects say it with a section; a linker that meets one without makes the whole stack code.
fn object_stack<E: FileHeader<Endian = Endianness>>(file: &ElfFile<'_, E>) -> Stack {
    let endian = file.endian();
    let sections = file.elf_section_table();
    let code = sections.iter().any(|s| s.sh_flags(endian).contains(elf::SHF_EXECINSTR));
    let note = sections
        .iter()
        .find(|s| sections.section_name(endian, s).is_ok_and(|name| name == b".note.GNU-stack"));
    match note {
        Some(section) if section.sh_flags(endian).contains(elf::SHF_EXECINSTR) => Stack::Executable,
        None if code => Stack::Unsaid,
        _ => Stack::Data,
    }
}

/// The entries of the dynamic table.
fn dynamic<E: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'_, E>,
) -> Result<Vec<(elf::DynamicTag, u64)>> {
    let endian = file.endian();
    for segment in file.elf_program_headers() {
        if let Some(entries) = segment.dynamic(endian, file.data())? {
            let entries = entries.iter().map(|entry| (entry.tag(endian), entry.val(endian)));
            return Ok(entries.take_while(|(tag, _)| *tag != elf::DT_NULL).collect());
        }
    }
    Ok(Vec::new())
}

fn read_dynamic<E: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'_, E>,
    image: &mut Image,
) -> Result<()> {
    let table = file.elf_dynamic_table()?;
    let text = |entry| -> Result<String> {
        let bytes = table.string(entry).context("a name of its dynamic table is lost")?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    };
    let (mut rpaths, mut runpaths) = (Vec::new(), Vec::new());
    for entry in table.iter().take_while(|entry| entry.tag != elf::DT_NULL) {
        match entry.tag {
            elf::DT_NEEDED => {
                image.libraries.push(Library {
                    name: text(entry)?,
                    weak: false,
                    reexported: false,
                });
            }
            elf::DT_SONAME => image.name = Some(text(entry)?),
            elf::DT_RPATH => rpaths.push(text(entry)?),
            elf::DT_RUNPATH => runpaths.push(text(entry)?),
            elf::DT_TEXTREL => image.text_relocations = true,
            elf::DT_FLAGS if entry.val & elf::DF_TEXTREL.0 != 0 => {
                image.text_relocations = true;
            }
            _ => {}
        }
    }
    // A RUNPATH makes the loader forget the RPATH beside it.
    image.rpaths_are_inherited = runpaths.is_empty();
    let paths = if runpaths.is_empty() { rpaths } else { runpaths };
    image.rpaths = paths
        .iter()
        .flat_map(|list| list.split(':'))
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    Ok(())
}

fn read_dynamic_symbols<E: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'_, E>,
    image: &mut Image,
) -> Result<()> {
    if file.elf_section_table().is_empty() && !dynamic(file)?.is_empty() {
        bail!("its section headers are stripped, so that its symbols cannot be read");
    }
    for import in file.imports()? {
        let import = import?;
        let version = match import.flags() {
            object::ImportFlags::Elf { version, .. } => version,
            _ => None,
        };
        image.imports.push(Import {
            name: name_of(&import.name()),
            weak: import.is_weak(),
            version: version.map(|v| String::from_utf8_lossy(v).into_owned()),
            provider: Provider::Any,
        });
    }
    for export in file.exports()? {
        let export = export?;
        if let object::ExportFlags::Elf { version: Some(version), .. } = export.flags() {
            image.versions.insert(String::from_utf8_lossy(version).into_owned());
        }
        if let NameOrOrdinal::Name(name) = export.name() {
            image.exports.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(())
}

fn name_of(name: &NameOrOrdinal<&[u8]>) -> String {
    match name {
        NameOrOrdinal::Name(name) => String::from_utf8_lossy(name).into_owned(),
        NameOrOrdinal::Ordinal(ordinal) => format!("#{ordinal}"),
    }
}

fn read_object_symbols<E: FileHeader<Endian = Endianness>>(
    file: &ElfFile<'_, E>,
    image: &mut Image,
) {
    for symbol in file.symbols().filter(|symbol| symbol.is_global()) {
        let Ok(name) = symbol.name() else { continue };
        if symbol.is_undefined() && !name.is_empty() {
            image.imports.push(Import {
                name: name.to_owned(),
                weak: symbol.is_weak(),
                version: None,
                provider: Provider::Any,
            });
        } else if symbol.is_definition() || symbol.is_common() {
            image.exports.insert(name.to_owned());
        }
    }
}

/// The newest glibc that a symbol asks for.
fn glibc(image: &Image) -> Option<Platform> {
    let versions = image.imports.iter().filter_map(|import| import.version.as_deref());
    let newest =
        versions.filter_map(|version| OsVersion::parse(version.strip_prefix("GLIBC_")?)).max()?;
    Some(Platform { name: "glibc", minimum: newest })
}
