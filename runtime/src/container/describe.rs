//! What a model library says about itself, for tools that look at programs: nothing of it is
//! loaded or run, and it may be for another machine.

use super::audit::{PROCESS, target_of};
use super::elf::{Elf, Import};
use super::macho::MachO;
use super::msl::sources_in;
use crate::Result;

/// A symbol that a library leaves to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether the library works without it.
    pub weak: bool,
}

/// A model library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryInfo<'a> {
    /// `ELF` or `Mach-O`.
    pub format: &'static str,
    /// As each system calls it: `x86-64`, `aarch64`, `arm64`.
    pub architecture: &'static str,
    /// Whether it is for machines like this one.
    pub native: bool,
    /// The libraries that it names, in its order.
    pub libraries: Vec<&'a str>,
    /// The symbols that it leaves to others, in its order.
    pub symbols: Vec<Needed<'a>>,
    /// The Metal sources in it, in the order in which they lie there.
    pub sources: Vec<&'a str>,
}

/// Describes a library. Of one that is neither 64-bit ELF nor 64-bit Mach-O only the form is told.
///
/// # Errors
/// It is no library, or damaged.
pub fn describe(bytes: &[u8]) -> Result<LibraryInfo<'_>> {
    let target = target_of(bytes)?;
    let mut info = LibraryInfo {
        format: target.format,
        architecture: target.architecture,
        native: target == PROCESS,
        libraries: Vec::new(),
        symbols: Vec::new(),
        sources: Vec::new(),
    };
    match (target.format, target.architecture) {
        (_, "32-bit" | "big-endian" | "universal") => {}
        ("ELF", _) => {
            let library = Elf::parse(bytes)?;
            info.libraries = library.needed()?;
            info.symbols = needed(&library.imports()?);
            info.sources = sources_in(library.constant_data().collect());
        }
        _ => {
            let library = MachO::parse(bytes)?;
            info.symbols = needed(&library.imports);
            info.sources = sources_in(library.constant_data());
            info.libraries = library.needed;
        }
    }
    Ok(info)
}

fn needed<'a>(imports: &[Import<'a>]) -> Vec<Needed<'a>> {
    imports.iter().map(|import| Needed { name: import.name, weak: import.weak }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::fixture;

    #[test]
    fn a_real_library_is_described_on_any_machine() {
        let library = fixture::library();
        let info = describe(&library).unwrap();
        assert_eq!((info.format, info.architecture), ("ELF", "x86-64"));
        assert_eq!(info.native, cfg!(all(target_arch = "x86_64", target_os = "linux")));
        assert!(info.libraries.contains(&"libc.so.6"));
        assert!(info.symbols.iter().any(|s| s.name == "aoti_torch_delete_tensor_object"));
        assert_eq!(info.sources.len(), 3);
    }

    #[test]
    fn damaged_libraries_are_errors() {
        let library = fixture::library();
        assert!(describe(&library[..100]).is_err());
        assert!(describe(b"no library").is_err());
    }
}
