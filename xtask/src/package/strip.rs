//! Taking debug information out of what is shipped: it is five sixths of the bytes.
//!
//! LLVM's objcopy does it, for every format: the Rust toolchain brings one, so that it is of the
//! same version wherever that is.

use std::path::Path;

use anyhow::{Context as _, Result};
use object::read::macho::{MachOFile64, Nlist as _};
use object::{Endianness, FileKind};

use crate::environment::Environment;
use crate::macho;
use crate::process::Invocation;
use crate::toolchain::rust;
use crate::workspace::Workspace;

/// What objects of Rust's standard library carry for linkers that optimise, which Xcode's do not.
const BITCODE: [&str; 2] = ["__LLVM,__bitcode", "__LLVM,__cmdline"];

/// What strips.
#[derive(Debug, Clone)]
pub struct Strip(Invocation);

impl Strip {
    /// The Rust toolchain's objcopy, else the machine's.
    ///
    /// # Errors
    /// There is none.
    pub fn find(workspace: &Workspace, environment: &Environment) -> Result<Self> {
        let own = rust::objcopy(workspace);
        let found = own.or_else(|| environment.which("llvm-objcopy").map(Invocation::new));
        found.map(Self).context(
            "there is no objcopy of LLVM's: rustup's toolchains bring one (rust-objcopy), and \
             llvm-objcopy in PATH will do",
        )
    }

    /// The command that tells its version.
    pub fn version(&self) -> Invocation {
        self.0.clone().arg("--version")
    }

    /// The bytes of the library, program or archive at `file` without debug information; the
    /// symbols' names stay, for linkers and backtraces.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read.
    pub fn stripped(&self, file: &Path) -> Result<Vec<u8>> {
        let context = || format!("cannot strip {}", file.display());
        let bytes = std::fs::read(file).with_context(context)?;
        let is_mach_o = matches!(FileKind::parse(&*bytes), Ok(FileKind::MachO64));
        if is_mach_o && !names_objects(&bytes).with_context(context)? {
            return Ok(bytes);
        }
        let folder = tempfile::tempdir().with_context(context)?;
        let copy = folder.path().join("copy");
        let strip = self.0.clone().args(["--strip-debug", "--enable-deterministic-archives"]);
        let strip = strip.args(BITCODE.map(|section| format!("--remove-section={section}")));
        strip.arg(file).arg(&copy).read().with_context(context)?;
        let bytes = std::fs::read(&copy).with_context(context)?;
        if !is_mach_o {
            return Ok(bytes);
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        macho::signed(&bytes, &name).with_context(context)
    }
}

/// Whether a linked Mach-O file tells where its objects are, which have its debug information.
fn names_objects(bytes: &[u8]) -> Result<bool> {
    let file = MachOFile64::<Endianness>::parse(bytes)?;
    Ok(file.macho_symbol_table().iter().any(|symbol| symbol.is_stab()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::contents::{Contents, read_image};
    use crate::audit::image::Image;
    use crate::testing::{Lab, MAC};

    /// Functions of all kinds: exported, local, undefined.
    const SOURCE: &str = "extern \"C\" int other(int);\n\
        static int local(int x) { return other(x) + 1; }\n\
        extern \"C\" __attribute__((noinline)) int known(int x) { return local(x) * 3; }\n";

    fn strip() -> Strip {
        let root = Workspace::root().unwrap();
        let workspace = Workspace { target: root.join("target"), root };
        Strip::find(&workspace, &Environment::current()).unwrap()
    }

    fn has(bytes: &[u8], text: &str) -> bool {
        memchr::memmem::find(bytes, text.as_bytes()).is_some()
    }

    /// What others see of it.
    fn face(image: &Image) -> (Vec<&String>, Vec<&String>) {
        (image.exports.iter().collect(), image.imports.iter().map(|import| &import.name).collect())
    }

    #[test]
    fn a_library_for_linux_keeps_its_symbols_alone() {
        let lab = Lab::new();
        let file = lab.native("lib.so", SOURCE, &["-g", "-shared"]);
        let (before, after) = (std::fs::read(&file).unwrap(), strip().stripped(&file).unwrap());
        assert!(has(&before, ".debug_info") && !has(&after, ".debug_info"));
        assert_eq!(face(&read_image(&before).unwrap()), face(&read_image(&after).unwrap()));
        assert!(has(&after, "known") && after.len() < before.len());
    }

    #[test]
    fn objects_for_macs_in_an_archive_lose_debug_information_and_nothing_else() {
        let lab = Lab::new();
        let object = lab.apple(MAC, "a.o", SOURCE, &["-g", "-c", "-fembed-bitcode"]);
        let object = std::fs::read(object).unwrap();
        let archive = |name: &str| {
            let file = lab.at(name);
            let members = [("a.o", object.clone())];
            std::fs::write(&file, crate::testing::archive(&members, &["_known"])).unwrap();
            file
        };
        let file = archive("liba.a");
        let (before, after) = (std::fs::read(&file).unwrap(), strip().stripped(&file).unwrap());
        for section in ["__debug_info", "__bitcode"] {
            assert!(has(&before, section) && !has(&after, section), "{section}");
        }
        let faces = |bytes: &[u8]| {
            let read = Contents::read(bytes).unwrap();
            format!("{:?}", face(&read.pieces[0].image))
        };
        assert_eq!(faces(&before), faces(&after));
        // The name and age of the file do not get in.
        assert_eq!(strip().stripped(&archive("another-name.a")).unwrap(), after);
        // And it links.
        let stripped = lab.at("stripped.a");
        std::fs::write(&stripped, &after).unwrap();
        let uses = "extern \"C\" int known(int); extern \"C\" int other(int x) { return x; } \
                    int main() { return known(1); }";
        lab.apple(MAC, "program", uses, &["{}/stripped.a"]);
    }

    #[test]
    fn a_program_for_macs_names_no_objects_and_is_signed_again() {
        let lab = Lab::new();
        let source = format!("{SOURCE}int other(int x) {{ return x; }}\nint main() {{}}\n");
        let object = lab.apple(MAC, "p.o", &source, &["-g", "-c"]);
        let program = lab.at("program");
        let link = lab.cross().clang(MAC, &lab.at("sdk")).arg(&object).arg("-o").arg(&program);
        link.read().unwrap();
        let (before, after) =
            (std::fs::read(&program).unwrap(), strip().stripped(&program).unwrap());
        let path = object.display().to_string();
        assert!(has(&before, &path) && !has(&after, &path), "the object's path is N_OSO");
        let (before, after) = (read_image(&before).unwrap(), read_image(&after).unwrap());
        assert_eq!(face(&before), face(&after));
        let signature = after.signature.unwrap();
        assert_eq!((signature.problem, signature.changed_pages.len()), (None, 0));
        assert!(signature.pages > 0);
        // What names none stays as it is, with the signature that it has.
        let library = lab.dylib("libx.dylib", "int x;", &[]);
        assert_eq!(strip().stripped(&library).unwrap(), std::fs::read(&library).unwrap());
    }
}
