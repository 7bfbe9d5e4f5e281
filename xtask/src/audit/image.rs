//! What one linked file says about itself, whatever its format.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::signature::Signature;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Format {
    /// Of Linux and its kin.
    #[serde(rename = "ELF")]
    Elf,
    /// Of Apple's systems.
    #[serde(rename = "Mach-O")]
    MachO,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Format::Elf { "ELF" } else { "Mach-O" })
    }
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An executable.
    Program,
    /// A shared library.
    Library,
    /// What a compiler makes, to be linked.
    Object,
    /// Objects in an archive.
    Archive,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Program => "program",
            Kind::Library => "library",
            Kind::Object => "object",
            Kind::Archive => "archive",
        })
    }
}

/// A version of an operating system or a C library: `14.0`, `2.36`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OsVersion(pub u16, pub u8, pub u8);

impl OsVersion {
    /// As Mach-O packs it: `xxxx.yy.zz` in nibbles.
    pub fn from_packed(packed: u32) -> Self {
        Self((packed >> 16) as u16, (packed >> 8) as u8, packed as u8)
    }

    /// Reads `14`, `14.0`, `13.3.1`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let major = parts.next()?.parse().ok()?;
        let mut minor = || parts.next().map_or(Some(0), |part| part.parse().ok());
        let version = Self(major, minor()?, minor()?);
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for OsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)?;
        if self.2 != 0 { write!(f, ".{}", self.2) } else { Ok(()) }
    }
}

impl Serialize for OsVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The oldest system that can load a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Platform {
    /// `macOS`, `iOS`, …; `glibc` for ELF.
    pub name: &'static str,
    /// The oldest version.
    pub minimum: OsVersion,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.minimum)
    }
}

/// A library that a file loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// The name under which it is looked for.
    pub name: String,
    /// Whether the file loads without it.
    pub weak: bool,
    /// Whether its exports count as this file's.
    pub reexported: bool,
}

/// Who has to have an undefined symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Any library of the process (ELF, or Mach-O's flat lookup).
    Any,
    /// The library with this index in [`Image::libraries`].
    Library(usize),
    /// The program that loads the file.
    Program,
}

/// A symbol that a file leaves to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Its C name.
    pub name: String,
    /// Whether the file works without it.
    pub weak: bool,
    /// The version that is asked for, as `GLIBC_2.34`.
    pub version: Option<String>,
    /// Who has to have it.
    pub provider: Provider,
}

/// What the stack's memory may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// Data only.
    Data,
    /// Code too.
    Executable,
    /// Nothing is said, which Linux takes for code.
    Unsaid,
}

/// What one linked file says about itself.
#[derive(Debug, Clone)]
pub struct Image {
    /// Its format.
    pub format: Format,
    /// The processor, as `x86_64`, `aarch64`; Apple's arm64 is `arm64` or `arm64e`.
    pub architecture: String,
    /// What it is for.
    pub kind: Kind,
    /// The name by which others load it: `SONAME`, or the install name.
    pub name: Option<String>,
    /// The oldest system.
    pub platform: Option<Platform>,
    /// What it loads, in order.
    pub libraries: Vec<Library>,
    /// Folders in which those are looked for, as they are written.
    pub rpaths: Vec<String>,
    /// Whether `rpaths` hold for the libraries' own libraries too (`DT_RPATH`, and Mach-O's).
    pub rpaths_are_inherited: bool,
    /// The C names that it defines for others.
    pub exports: BTreeSet<String>,
    /// The symbol versions that it defines.
    pub versions: BTreeSet<String>,
    /// The symbols that it leaves to others.
    pub imports: Vec<Import>,
    /// Whether loading it writes into its code.
    pub text_relocations: bool,
    /// Segments that are both written and run.
    pub writable_code: Vec<String>,
    /// The stack it wants.
    pub stack: Stack,
    /// The code signature: Mach-O programs and libraries.
    pub signature: Option<Signature>,
}

impl Image {
    /// An image of which nothing more is known.
    pub fn new(format: Format, architecture: String, kind: Kind) -> Self {
        Self {
            format,
            architecture,
            kind,
            name: None,
            platform: None,
            libraries: Vec::new(),
            rpaths: Vec::new(),
            rpaths_are_inherited: format == Format::MachO,
            exports: BTreeSet::new(),
            versions: BTreeSet::new(),
            imports: Vec::new(),
            text_relocations: false,
            writable_code: Vec::new(),
            stack: Stack::Data,
            signature: None,
        }
    }

    /// Whether it is loaded as it is, rather than linked into something first.
    pub fn is_linked(&self) -> bool {
        matches!(self.kind, Kind::Program | Kind::Library)
    }

    /// Whether it is a model that AOTInductor compiled.
    pub fn is_model(&self) -> bool {
        self.kind == Kind::Library
            && self.exports.contains("AOTInductorModelContainerCreateWithDevice")
    }

    /// Whether it is this project's library.
    pub fn is_libetmetal(&self) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        let file = name.rsplit('/').next().unwrap_or(name);
        self.kind == Kind::Library && file.starts_with("libetmetal.")
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.format, self.architecture, self.kind)?;
        match &self.platform {
            Some(platform) => write!(f, ", needs {platform}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_shown() {
        assert_eq!(OsVersion::from_packed(0x000e_0000).to_string(), "14.0");
        assert_eq!(OsVersion::parse("13.3.1").unwrap().to_string(), "13.3.1");
        assert_eq!(OsVersion::parse("14"), Some(OsVersion(14, 0, 0)));
        assert!(OsVersion::parse("2.9").unwrap() < OsVersion::parse("2.36").unwrap());
        assert_eq!((OsVersion::parse("x"), OsVersion::parse("1.2.3.4")), (None, None));
    }
}
