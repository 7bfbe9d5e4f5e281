//! Which systems a wheel for Linux runs on: the `manylinux` tag, from the versions of symbols that
//! its libraries really need.

use anyhow::{Context as _, Result, ensure};
use object::elf::FileHeader64;
use object::read::elf::FileHeader;
use object::{Endianness, elf};

/// A version of symbols, as in `GLIBC_2.34`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// As `GLIBC`.
    pub name: String,
    /// As `[2, 34]`.
    pub version: Vec<u32>,
}

/// The newest libstdc++ that each policy promises, by the version of its glibc: the tables of PEP
/// 600's policies. Between two of them the older one counts.
const POLICIES: &[(u32, [u32; 3], [u32; 3])] = &[
    (5, [3, 4, 8], [1, 3, 1]),
    (12, [3, 4, 13], [1, 3, 3]),
    (17, [3, 4, 19], [1, 3, 7]),
    (24, [3, 4, 22], [1, 3, 10]),
    (28, [3, 4, 24], [1, 3, 11]),
    (31, [3, 4, 28], [1, 3, 12]),
    (34, [3, 4, 29], [1, 3, 13]),
    (35, [3, 4, 30], [1, 3, 13]),
    (39, [3, 4, 33], [1, 3, 15]),
];

/// The versions of symbols that an ELF file needs.
///
/// # Errors
/// It is no 64-bit ELF file, or a damaged one.
pub fn needed(bytes: &[u8]) -> Result<Vec<Needed>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut found = Vec::new();
    let Some((mut libraries, link)) = sections.gnu_verneed(endian, bytes)? else {
        return Ok(found);
    };
    let strings = sections.strings(endian, bytes, link)?;
    while let Some((_, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            let name = version.name(endian, strings)?;
            let name = std::str::from_utf8(name).context("a version's name is no UTF-8")?;
            found.extend(parse(name));
        }
    }
    found.sort();
    Ok(found)
}

fn parse(text: &str) -> Option<Needed> {
    let (name, version) = text.rsplit_once('_')?;
    let version = version.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    Some(Needed { name: name.to_owned(), version })
}

/// The processor, as tags name it.
fn processor(bytes: &[u8]) -> Result<&'static str> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    match header.e_machine(header.endian()?) {
        elf::EM_X86_64 => Ok("x86_64"),
        elf::EM_AARCH64 => Ok("aarch64"),
        other => anyhow::bail!("ELF machine {other:?} has no manylinux tag here"),
    }
}

/// The tag of a wheel with the ELF files `files`, as `manylinux_2_34_x86_64`.
///
/// # Errors
/// A file is damaged, they are for different processors, or need something that no policy has.
pub fn tag<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<String> {
    let (mut glibc, mut machine) = (POLICIES[0].0, None);
    for (name, bytes) in files {
        let own = processor(bytes).with_context(|| name.to_owned())?;
        ensure!(*machine.get_or_insert(own) == own, "{name} is for another processor: {own}");
        for needed in needed(bytes).with_context(|| name.to_owned())? {
            glibc = glibc.max(oldest_glibc(&needed).with_context(|| name.to_owned())?);
        }
    }
    Ok(format!("manylinux_2_{glibc}_{}", machine.context("the wheel holds no library")?))
}

/// The minor version of the oldest glibc 2 whose policy has `needed`.
fn oldest_glibc(needed: &Needed) -> Result<u32> {
    let version = needed.version.as_slice();
    let shown = || {
        let parts: Vec<_> = version.iter().map(u32::to_string).collect();
        format!("{}_{}", needed.name, parts.join("."))
    };
    let within = |limit: &[u32; 3]| version <= limit.as_slice();
    let found = match (needed.name.as_str(), version) {
        ("GLIBC", [2, minor, ..]) => Some(*minor),
        ("GLIBCXX", _) => POLICIES.iter().find(|(_, cxx, _)| within(cxx)).map(|policy| policy.0),
        ("CXXABI", _) => POLICIES.iter().find(|(_, _, abi)| within(abi)).map(|policy| policy.0),
        // libgcc's have not moved since the oldest policy, except those of its newer processors.
        ("GCC", [major, ..]) if *major < 5 => Some(17),
        _ => None,
    };
    found.with_context(|| format!("it needs {}, which no manylinux policy here has", shown()))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::testing::Lab;

    #[test]
    fn a_version_maps_to_the_oldest_policy_that_has_it() {
        let glibc = |text: &str| oldest_glibc(&parse(text).unwrap());
        assert_eq!(glibc("GLIBC_2.2.5").unwrap(), 2);
        assert_eq!(glibc("GLIBC_2.34").unwrap(), 34);
        assert_eq!(glibc("GLIBCXX_3.4.9").unwrap(), 12);
        assert_eq!(glibc("GLIBCXX_3.4.30").unwrap(), 35);
        assert_eq!(glibc("CXXABI_1.3").unwrap(), 5);
        assert_eq!(glibc("CXXABI_1.3.9").unwrap(), 24);
        let error = glibc("GLIBCXX_3.4.99").unwrap_err().to_string();
        assert_eq!(error, "it needs GLIBCXX_3.4.99, which no manylinux policy here has");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_tag_is_that_of_the_newest_symbol_that_a_library_calls() {
        let lab = Lab::new();
        let library = |name: &str, symbol: &str| {
            let body = format!("#include <unistd.h>\nlong f() {{ return (long)&{symbol}; }}");
            std::fs::read(lab.native(name, &body, &["-shared", "-nostartfiles"])).unwrap()
        };
        let old = library("old.so", "getpid");
        let new = library("new.so", "gettid");
        let minor = |files: &[(&str, &[u8])]| -> u32 {
            let tag = tag(files.iter().copied()).unwrap();
            let rest = tag.strip_prefix("manylinux_2_").unwrap();
            rest.split('_').next().unwrap().parse().unwrap()
        };
        // gettid came with glibc 2.30.
        assert!(minor(&[("old.so", &old)]) < 30);
        assert_eq!(minor(&[("old.so", &old), ("new.so", &new)]), 30);
        let error = tag([("x.so", &b"no library"[..])]).unwrap_err();
        assert!(format!("{error:#}").starts_with("x.so: "), "{error:#}");
    }
}
