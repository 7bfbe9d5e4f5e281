//! What is inside a file: one image, one for each processor (fat files, archives), or the
//! libraries of models (`.pte`).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use object::FileKind;
use object::read::archive::ArchiveFile;
use object::read::macho::{FatArch, MachOFatFile32, MachOFatFile64};

use super::finding::Finding;
use super::image::{Image, Import, Kind, Stack};
use super::{elf, macho, pte};

/// Parts of a fat file beyond this many are damage: there are not that many processors.
const MOST_PARTS: usize = 64;

/// One image of a file.
#[derive(Debug)]
pub struct Piece<'a> {
    /// What tells it from the others of its file.
    pub label: Option<String>,
    /// What it says about itself.
    pub image: Image,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Whether it lies in another file, and so in no folder of its own.
    pub embedded: bool,
}

/// What is inside a file.
#[derive(Debug, Default)]
pub struct Contents<'a> {
    /// The images.
    pub pieces: Vec<Piece<'a>>,
    /// What was wrong with the container.
    pub findings: Vec<Finding>,
}

impl<'a> Contents<'a> {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// It is of no kind that is known here, or damaged.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        if pte::is_program(bytes) {
            return pte::read(bytes);
        }
        if bytes.starts_with(&object::archive::MAGIC)
            || bytes.starts_with(&object::archive::THIN_MAGIC)
        {
            return read_archive(bytes);
        }
        match FileKind::parse(bytes) {
            Ok(FileKind::MachOFat32) => read_fat(bytes, MachOFatFile32::parse(bytes)?.arches()),
            Ok(FileKind::MachOFat64) => read_fat(bytes, MachOFatFile64::parse(bytes)?.arches()),
            _ => Ok(Self::one(read_image(bytes)?, bytes)),
        }
    }

    fn one(image: Image, bytes: &'a [u8]) -> Self {
        let piece = Piece { label: None, image, bytes, embedded: false };
        Self { pieces: vec![piece], findings: Vec::new() }
    }
}

/// Whether the file at `path` begins as ELF, Mach-O or an archive does.
pub fn is_binary(path: &Path) -> bool {
    use std::io::Read as _;
    let mut start = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut start));
    let start = &start[..read.unwrap_or(0)];
    start.starts_with(&object::archive::MAGIC)
        || matches!(
            FileKind::parse(start),
            Ok(FileKind::Elf32
                | FileKind::Elf64
                | FileKind::MachO32
                | FileKind::MachO64
                | FileKind::MachOFat32
                | FileKind::MachOFat64)
        )
}

/// Reads one ELF or thin Mach-O file.
///
/// # Errors
/// It is neither, or damaged.
pub fn read_image(bytes: &[u8]) -> Result<Image> {
    match FileKind::parse(bytes) {
        Ok(FileKind::Elf32 | FileKind::Elf64) => elf::read(bytes),
        Ok(FileKind::MachO32 | FileKind::MachO64) => macho::read(bytes),
        _ => bail!(
            "{} bytes that begin with {:02x?} are neither ELF, Mach-O, an archive nor a .pte",
            bytes.len(),
            &bytes[..bytes.len().min(4)]
        ),
    }
}

fn read_fat<'a, A: FatArch>(bytes: &'a [u8], arches: &[A]) -> Result<Contents<'a>> {
    ensure!(!arches.is_empty(), "the fat file holds nothing");
    ensure!(arches.len() <= MOST_PARTS, "the fat file claims to hold {} parts", arches.len());
    let mut contents = Contents::default();
    for arch in arches {
        let name = macho::architecture(arch.cputype(), arch.cpusubtype());
        let part = arch.data(bytes).with_context(|| format!("its part for {name}"))?;
        if part.starts_with(&object::archive::MAGIC) {
            let archive = read_archive(part).with_context(|| format!("its part for {name}"))?;
            contents.pieces.extend(archive.pieces);
            contents.findings.extend(archive.findings);
            continue;
        }
        let image = macho::read(part).with_context(|| format!("its part for {name}"))?;
        if image.architecture != name {
            contents.findings.push(Finding::error(
                "architecture",
                format!("the part for {name} holds code for {}", image.architecture),
                "make the fat file again, with lipo",
            ));
        }
        contents.pieces.push(Piece { label: Some(name), image, bytes: part, embedded: false });
    }
    Ok(contents)
}

/// The objects of an archive, merged by processor.
fn read_archive(bytes: &[u8]) -> Result<Contents<'_>> {
    let archive = ArchiveFile::parse(bytes)?;
    ensure!(!archive.is_thin(), "a thin archive holds only the names of its objects");
    let mut merged: BTreeMap<String, Merged> = BTreeMap::new();
    let mut contents = Contents::default();
    for member in archive.members() {
        let member = member?;
        let data = member.data(bytes)?;
        // Rust's metadata and other notes lie beside the objects.
        if !matches!(
            FileKind::parse(data),
            Ok(FileKind::Elf32 | FileKind::Elf64 | FileKind::MachO32 | FileKind::MachO64)
        ) {
            continue;
        }
        let name = String::from_utf8_lossy(member.name()).into_owned();
        match read_image(data) {
            Ok(image) => {
                let key = format!("{} {}", image.format, image.architecture);
                merged.entry(key).or_default().add(image);
            }
            Err(error) => contents.findings.push(Finding::error(
                "damaged",
                format!("its member {name}: {error:#}"),
                "build the archive again",
            )),
        }
    }
    ensure!(!merged.is_empty() || !contents.findings.is_empty(), "the archive holds no objects");
    if merged.len() > 1 {
        let kinds: Vec<_> = merged.keys().map(String::as_str).collect();
        contents.findings.push(Finding::error(
            "architecture",
            format!("the archive mixes objects for {}", kinds.join(" and ")),
            "remove it and build it again: objects of an older build are left inside",
        ));
    }
    for (key, part) in merged {
        let count = part.count;
        let Some(image) = part.finish() else { continue };
        let label = Some(format!("{count} objects, {key}"));
        contents.pieces.push(Piece { label, image, bytes, embedded: false });
    }
    Ok(contents)
}

/// Objects taken together.
#[derive(Default)]
struct Merged {
    count: usize,
    image: Option<Image>,
    imports: BTreeMap<String, Import>,
}

impl Merged {
    fn add(&mut self, member: Image) {
        self.count += 1;
        for import in &member.imports {
            let known = self.imports.entry(import.name.clone()).or_insert_with(|| import.clone());
            known.weak &= import.weak;
        }
        let Some(all) = &mut self.image else {
            self.image = Some(Image { kind: Kind::Archive, imports: Vec::new(), ..member });
            return;
        };
        all.exports.extend(member.exports);
        all.text_relocations |= member.text_relocations;
        if member.platform.as_ref().map(|p| p.minimum) > all.platform.as_ref().map(|p| p.minimum) {
            all.platform = member.platform;
        }
        all.stack = match (all.stack, member.stack) {
            (Stack::Executable, _) | (_, Stack::Executable) => Stack::Executable,
            (Stack::Unsaid, _) | (_, Stack::Unsaid) => Stack::Unsaid,
            (Stack::Data, Stack::Data) => Stack::Data,
        };
    }

    fn finish(self) -> Option<Image> {
        let mut image = self.image?;
        let left = self.imports.into_values().filter(|i| !image.exports.contains(&i.name));
        image.imports = left.collect();
        Some(image)
    }
}
