//! Reading a Mach-O shared library without trusting it.

use object::macho::{self, MachHeader64};
use object::read::macho::{LoadCommandVariant, MachHeader, Nlist, Segment};
use object::{Endianness, pod::from_bytes};

use super::elf::Import;
use crate::error::err;
use crate::{Error, Result};

/// `N_WEAK_REF` of `mach-o/nlist.h`: the symbol may be missing.
const WEAK_REFERENCE: u16 = 0x40;

/// What a Mach-O library says about itself.
#[derive(Debug)]
pub(crate) struct MachO<'a> {
    bytes: &'a [u8],
    header: &'a MachHeader64<Endianness>,
    /// Install names of the libraries it loads, in the order of their ordinals.
    pub needed: Vec<&'a str>,
    /// The symbols that it leaves to others.
    pub imports: Vec<Import<'a>>,
    /// The symbols that it defines for others.
    pub exports: Vec<&'a str>,
}

fn damaged(what: impl std::fmt::Display) -> Error {
    err!(
        InvalidProgram,
        "the model library is damaged: {what}; export the model again, or copy its .pte again"
    )
}

impl<'a> MachO<'a> {
    /// Reads a 64-bit library's load commands and symbols.
    ///
    /// # Errors
    /// Something does not lie inside the file, or it is no dynamic library.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let (header, _) = from_bytes::<MachHeader64<Endianness>>(bytes)
            .map_err(|()| damaged(format_args!("{} bytes hold no Mach-O header", bytes.len())))?;
        let endian = header.endian().map_err(damaged)?;
        let kind = header.filetype(endian);
        if kind != macho::MH_DYLIB && kind != macho::MH_BUNDLE {
            return Err(damaged("it is no dynamic library"));
        }
        let mut this =
            MachO { bytes, header, needed: Vec::new(), imports: Vec::new(), exports: Vec::new() };
        let mut commands = header.load_commands(endian, bytes, 0).map_err(damaged)?;
        let mut symbols = None;
        while let Some(command) = commands.next().map_err(damaged)? {
            match command.variant().map_err(damaged)? {
                LoadCommandVariant::Segment64(segment, _) => {
                    segment.data(endian, bytes).map_err(|()| {
                        damaged("one of its segments ends beyond the end of the file")
                    })?;
                }
                LoadCommandVariant::Dylib(dylib) => {
                    let name = command.string(endian, dylib.dylib.name).map_err(damaged)?;
                    this.needed.push(std::str::from_utf8(name).map_err(damaged)?);
                }
                LoadCommandVariant::Symtab(table) => symbols = Some(table),
                _ => {}
            }
        }
        if let Some(table) = symbols {
            this.read_symbols(endian, table)?;
        }
        Ok(this)
    }

    fn read_symbols(
        &mut self,
        endian: Endianness,
        table: &macho::SymtabCommand<Endianness>,
    ) -> Result<()> {
        let symbols =
            table.symbols::<MachHeader64<Endianness>, _>(endian, self.bytes).map_err(damaged)?;
        for symbol in symbols.iter() {
            if symbol.n_type().is_stab() || !symbol.n_type().is_ext() {
                continue;
            }
            let name = symbol.name(endian, symbols.strings()).map_err(damaged)?;
            let name = std::str::from_utf8(name).map_err(damaged)?;
            // C names carry an underscore that dlsym does not want.
            let name = name.strip_prefix('_').unwrap_or(name);
            if symbol.is_undefined() {
                let weak = symbol.n_desc(endian).0 & WEAK_REFERENCE != 0;
                self.imports.push(Import { name, weak, version: None });
            } else {
                self.exports.push(name);
            }
        }
        Ok(())
    }

    /// Bytes of the segments that are not written: where constant data lies, among other things.
    pub(crate) fn constant_data(&self) -> Vec<&'a [u8]> {
        let mut data = Vec::new();
        let Ok(endian) = self.header.endian() else { return data };
        let Ok(mut commands) = self.header.load_commands(endian, self.bytes, 0) else {
            return data;
        };
        while let Ok(Some(command)) = commands.next() {
            if let Ok(Some((segment, _))) = command.segment_64()
                && !segment.initprot(endian).contains(macho::VM_PROT_WRITE)
            {
                data.extend(segment.data(endian, self.bytes));
            }
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What clang makes for a Mac, said to be a dynamic library: linking one needs Apple's SDK.
    fn library() -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let (input, output) = (directory.path().join("model.c"), directory.path().join("model.o"));
        let source = "extern int aoti_torch_one(void);\n\
                      extern int maybe(void) __attribute__((weak_import));\n\
                      const char text[] = \"constant\";\n\
                      static int hidden(void) { return 1; }\n\
                      int run(void) { return aoti_torch_one() + (maybe ? maybe() : hidden()); }\n";
        std::fs::write(&input, source).unwrap();
        let clang = ["clang", "clang-19"].into_iter().find(|name| {
            std::process::Command::new(name)
                .args(["--target=arm64-apple-macos14.0", "-O1", "-c", "-o"])
                .args([&output, &input])
                .status()
                .is_ok_and(|status| status.success())
        });
        assert!(clang.is_some(), "clang is needed to test with Mach-O");
        let mut bytes = std::fs::read(&output).unwrap();
        bytes[12..16].copy_from_slice(&macho::MH_DYLIB.0.to_le_bytes());
        bytes
    }

    #[test]
    fn imports_and_exports_are_told() {
        let bytes = library();
        let library = MachO::parse(&bytes).unwrap();
        let imports: Vec<_> = library.imports.iter().map(|i| (i.name, i.weak)).collect();
        assert_eq!(imports.len(), 2);
        assert!(imports.contains(&("aoti_torch_one", false)), "{imports:?}");
        assert!(imports.contains(&("maybe", true)), "{imports:?}");
        assert!(library.exports.contains(&"run"), "{:?}", library.exports);
        assert!(library.needed.is_empty());
    }

    #[test]
    fn damage_never_crashes_it() {
        let bytes = library();
        for len in 0..bytes.len() {
            // What is cut off at the end may be a table that is not read.
            if let Ok(library) = MachO::parse(&bytes[..len]) {
                library.constant_data();
            }
            let mut changed = bytes.clone();
            changed[len] ^= 0xff;
            if let Ok(library) = MachO::parse(&changed) {
                library.constant_data();
            }
        }
        assert!(MachO::parse(&bytes[..bytes.len() / 4]).is_err());
    }
}
