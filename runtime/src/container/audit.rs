//! The audit of a model library before it is loaded: will it load here, and if not, why not.

use object::elf;
use object::macho;

use super::elf::{Elf, Import};
use super::macho::MachO;
use crate::Result;
use crate::error::err;

/// Prefix of the C ABI that only this runtime may answer: another library in the process (torch)
/// may define the same names, for tensors that are not ours.
const RUNTIME_PREFIX: &str = "aoti_";

/// OpenMP runtimes. Exports name one even if no symbol of it is used.
const OPENMP: [&str; 3] = ["libomp", "libgomp", "libiomp"];

/// What the audit must know of the process.
pub trait Environment {
    /// Whether this runtime itself exports the symbol.
    fn runtime_exports(&self, symbol: &str) -> bool;
    /// Makes a library's symbols known, looking in `directories` first; false if there is none.
    fn open(&mut self, library: &str, directories: &[&str]) -> bool;
    /// Whether the opened libraries, or those of the process, have the symbol, in the given
    /// version if there is one.
    fn resolves(&self, symbol: &str, version: Option<&str>) -> bool;
}

/// What the audit found that the loading must know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Libraries that do not exist and that no symbol needs.
    pub unneeded: Vec<String>,
}

/// A library format and architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub format: &'static str,
    pub architecture: &'static str,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // "universal" begins with a consonant's sound.
        let vowel = self.architecture.starts_with(['a', 'x', 'i'])
            || self.architecture.starts_with("unknown");
        let article = if vowel { "an" } else { "a" };
        write!(f, "{article} {} {}", self.architecture, self.format)
    }
}

/// The form that this process loads.
pub(super) const PROCESS: Target = Target {
    format: if cfg!(target_vendor = "apple") { "Mach-O" } else { "ELF" },
    // As each system calls it.
    architecture: if cfg!(all(target_arch = "aarch64", target_vendor = "apple")) {
        "arm64"
    } else if cfg!(target_arch = "x86_64") {
        "x86-64"
    } else {
        std::env::consts::ARCH
    },
};

/// The form of a library, from its first bytes.
pub(super) fn target_of(bytes: &[u8]) -> Result<Target> {
    let half = |at: usize| bytes.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let word =
        |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    match word(0) {
        Some(0x464c_457f) => {
            let architecture = match (bytes.get(4), bytes.get(5), half(18)) {
                (Some(1), ..) => "32-bit",
                (_, Some(2), _) => "big-endian",
                (.., Some(machine)) if machine == elf::EM_X86_64.0 => "x86-64",
                (.., Some(machine)) if machine == elf::EM_AARCH64.0 => "aarch64",
                _ => "unknown-architecture",
            };
            Ok(Target { format: "ELF", architecture })
        }
        Some(macho::MH_MAGIC_64) => {
            let architecture = match word(4) {
                Some(cpu) if cpu == macho::CPU_TYPE_ARM64.0 => "arm64",
                Some(cpu) if cpu == macho::CPU_TYPE_X86_64.0 => "x86-64",
                _ => "unknown-architecture",
            };
            Ok(Target { format: "Mach-O", architecture })
        }
        Some(0xbeba_feca | 0xbfba_feca) => {
            Ok(Target { format: "Mach-O", architecture: "universal" })
        }
        _ => Err(err!(
            InvalidProgram,
            "the model library is damaged: its {} bytes begin with {:02x?}, which is no shared \
             library; export the model again, or copy its .pte again",
            bytes.len(),
            &bytes[..bytes.len().min(4)]
        )),
    }
}

/// Checks that a library is one that this process can load.
///
/// # Errors
/// It is for another system or architecture, or damaged.
pub fn check_target(bytes: &[u8]) -> Result<()> {
    let target = target_of(bytes)?;
    if target == PROCESS {
        return Ok(());
    }
    let flag = if cfg!(target_vendor = "apple") { "macos-arm64" } else { "host" };
    Err(err!(
        InvalidProgram,
        "the model library is {target}; this process needs {PROCESS}: export with target {flag}"
    ))
}

/// Audits a library: its form, its integrity, and that everything it needs is here.
///
/// # Errors
/// [`Error::InvalidProgram`](crate::Error::InvalidProgram) if it is damaged or for another
/// machine; [`Error::NotFound`](crate::Error::NotFound) naming every library and symbol that is
/// missing.
pub fn audit(bytes: &[u8], environment: &mut dyn Environment) -> Result<Findings> {
    check_target(bytes)?;
    if PROCESS.format == "ELF" {
        let library = Elf::parse(bytes)?;
        library.validate()?;
        audit_needs(&library.needed()?, &library.search_paths()?, &library.imports()?, environment)
    } else {
        let library = MachO::parse(bytes)?;
        audit_needs(&library.needed, &[], &library.imports, environment)
    }
}

fn audit_needs(
    needed: &[&str],
    directories: &[&str],
    imports: &[Import<'_>],
    environment: &mut dyn Environment,
) -> Result<Findings> {
    let missing: Vec<&str> =
        needed.iter().copied().filter(|library| !environment.open(library, directories)).collect();
    let unresolved: Vec<&Import<'_>> =
        imports.iter().filter(|import| !is_provided(import, environment)).collect();
    let openmp_is_used = unresolved.iter().any(|import| is_openmp_symbol(import.name));
    let (unneeded, missing): (Vec<&str>, Vec<&str>) =
        missing.into_iter().partition(|library| is_openmp(library) && !openmp_is_used);
    if missing.is_empty() && unresolved.is_empty() {
        return Ok(Findings { unneeded: unneeded.into_iter().map(str::to_owned).collect() });
    }
    Err(missing_error(&missing, &unresolved))
}

fn is_provided(import: &Import<'_>, environment: &dyn Environment) -> bool {
    if environment.runtime_exports(import.name) || import.weak {
        return true;
    }
    !import.name.starts_with(RUNTIME_PREFIX)
        && environment.resolves(import.name, import.version.map(|(version, _)| version))
}

fn is_openmp(library: &str) -> bool {
    let file = library.rsplit('/').next().unwrap_or(library);
    OPENMP.iter().any(|name| file.starts_with(name))
}

fn is_openmp_symbol(symbol: &str) -> bool {
    ["GOMP_", "omp_", "__kmpc_"].iter().any(|prefix| symbol.starts_with(prefix))
}

fn missing_error(libraries: &[&str], symbols: &[&Import<'_>]) -> crate::Error {
    use std::fmt::Write;
    let mut text = String::from("the model library needs what is not here:");
    // Writing to a string cannot fail.
    for library in libraries {
        let _ = write!(text, "\n  library {library}: not found");
        if is_openmp(library) {
            text.push_str(" (install it, or export the model without OpenMP)");
        }
    }
    for import in symbols {
        let _ = write!(text, "\n  symbol {}", import.name);
        if import.name.starts_with(RUNTIME_PREFIX) {
            text.push_str(": not an operator that this version of etmetal has");
        } else if let Some((version, library)) = import.version {
            let _ = write!(text, ": {library} here has no version {version} of it");
        } else {
            text.push_str(": no library here defines it");
        }
    }
    err!(NotFound, "{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    use crate::Error;
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    use crate::container::fixture;

    /// A process that has libc's and libstdc++'s symbols by assumption.
    #[derive(Default)]
    pub(crate) struct Fake {
        missing_libraries: Vec<&'static str>,
        missing_symbols: Vec<&'static str>,
    }

    impl Environment for Fake {
        fn runtime_exports(&self, symbol: &str) -> bool {
            symbol.starts_with("aoti_torch_") && !self.missing_symbols.contains(&symbol)
        }
        fn open(&mut self, library: &str, _: &[&str]) -> bool {
            !self.missing_libraries.contains(&library)
        }
        fn resolves(&self, symbol: &str, _: Option<&str>) -> bool {
            !self.missing_symbols.contains(&symbol)
        }
    }

    #[test]
    fn targets_read_as_english() {
        let text = |architecture| Target { format: "ELF", architecture }.to_string();
        assert_eq!(text("x86-64"), "an x86-64 ELF");
        assert_eq!(text("32-bit"), "a 32-bit ELF");
        assert_eq!(text("universal"), "a universal ELF");
        assert_eq!(text("unknown-architecture"), "an unknown-architecture ELF");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_real_model_passes() {
        let findings = audit(&fixture::library(), &mut Fake::default()).unwrap();
        assert_eq!(findings, Findings::default());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn everything_that_is_missing_is_named_at_once() {
        let mut fake = Fake {
            missing_libraries: vec!["libstdc++.so.6"],
            missing_symbols: vec!["aoti_torch_mps_mm_out", "aoti_torch_clone", "strtol"],
        };
        let error = audit(&fixture::library(), &mut fake).unwrap_err();
        assert!(matches!(error, Error::NotFound(_)));
        let text = error.to_string();
        for name in ["libstdc++.so.6", "aoti_torch_mps_mm_out", "aoti_torch_clone"] {
            assert!(text.contains(name), "{name} is not in {text}");
        }
        assert!(text.contains("symbol strtol: libc.so.6 here has no version GLIBC_"), "{text}");
    }

    #[test]
    fn an_unused_openmp_is_dropped_and_a_used_one_named() {
        let import = |name| Import { name, weak: false, version: None };
        let mut fake = Fake {
            missing_libraries: vec!["/opt/llvm/lib/libomp.dylib", "libx.so"],
            missing_symbols: vec!["__kmpc_fork_call"],
        };
        let needed = ["/opt/llvm/lib/libomp.dylib"];
        let findings = audit_needs(&needed, &[], &[import("free")], &mut fake).unwrap();
        assert_eq!(findings.unneeded, needed);
        let used = audit_needs(&needed, &[], &[import("__kmpc_fork_call")], &mut fake);
        let text = used.unwrap_err().to_string();
        assert!(text.contains("libomp.dylib") && text.contains("__kmpc_fork_call"), "{text}");
        assert!(audit_needs(&["libx.so"], &[], &[], &mut fake).is_err());
    }

    #[test]
    fn torchs_symbols_do_not_count_as_ours() {
        let import = Import { name: "aoti_unknown", weak: false, version: None };
        assert!(audit_needs(&[], &[], &[import], &mut Fake::default()).is_err());
    }

    #[test]
    fn foreign_libraries_are_told_apart() {
        let mut mach = 0xfeed_facfu32.to_le_bytes().to_vec();
        mach.extend(macho::CPU_TYPE_ARM64.0.to_le_bytes());
        mach.resize(64, 0);
        if !cfg!(target_vendor = "apple") {
            let text = check_target(&mach).unwrap_err().to_string();
            assert!(text.contains("is an arm64 Mach-O; this process needs an"), "{text}");
            assert!(text.ends_with("export with target host"), "{text}");
        }
        let text = check_target(b"#!/bin/sh\n").unwrap_err().to_string();
        assert!(text.contains("damaged"), "{text}");
        assert!(check_target(b"").is_err());
    }
}
