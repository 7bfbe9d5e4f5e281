//! That exactly the C ABI is exported, whatever link-time optimisation does to code that nothing
//! calls: from a library and from a program, as ELF and as Mach-O.

use std::path::PathBuf;

use super::*;
use crate::audit::contents::read_image;
use crate::audit::image::Image;
use crate::preset::Settings;
use crate::process::Invocation;
use crate::testing::{Lab, MAC};
use crate::toolchain::rust;
use crate::workspace::Workspace;

/// A crate that defines the C ABI, and what has no place among it, in a module of its own as
/// libetmetal's are. Without the standard library: optimising that takes its time.
fn shims() -> String {
    let functions = shim::libetmetal_symbols().into_iter().enumerate().map(|(index, name)| {
        format!("    #[unsafe(no_mangle)] pub extern \"C\" fn {name}() -> usize {{ {index} }}\n")
    });
    format!(
        "#![no_std]\nmod abi {{\n{}    #[unsafe(no_mangle)] pub extern \"C\" fn stray_c() {{}}\n}}\n\
         #[inline(never)] pub fn stray_rust(text: &str) -> usize {{ text.len() }}\n",
        functions.collect::<String>()
    )
}

const PANICS: &str = "#[panic_handler] fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }\n";

/// A library that calls none of it.
const LIBRARY: &str = "#![no_std]\npub use shims::stray_rust;\n";

/// A program that calls none of it.
const PROGRAM: &str = "#![no_std]\n#![no_main]\nuse shims as _;\n\
     #[unsafe(no_mangle)] extern \"C\" fn main() -> i32 { 0 }\n";

/// Builds for one target.
struct Rustc<'a> {
    lab: &'a Lab,
    workspace: &'a Workspace,
    target: Target,
    lto: &'static str,
    link: Link,
}

impl Rustc<'_> {
    fn is_apple(&self) -> bool {
        self.target.format == Format::MachO
    }

    fn linkage(&self) -> Linkage<'_> {
        let deployment_target = self.is_apple().then_some(OsVersion(14, 0, 0));
        Linkage { target: &self.target, deployment_target, link: &self.link, rpaths: &[] }
    }

    fn file(&self, name: &str) -> PathBuf {
        let folder = self.lab.at(&format!("{}-{}", self.target.triple, self.lto));
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(name)
    }

    fn exports(&self) -> PathBuf {
        let file = self.file("exports");
        std::fs::write(&file, export_list(&self.target, &[])).unwrap();
        file
    }

    /// Compiles the crate `name` to `output`.
    fn compile(&self, name: &str, source: &str, kind: &str, output: &str, more: &[String]) {
        let file = self.file(&format!("{name}.rs"));
        std::fs::write(&file, source).unwrap();
        // Optimising needs a whole program or library.
        let lto = if kind == "rlib" { "off" } else { self.lto };
        rust::rustc(self.workspace)
            .args(["--edition=2024", "-Copt-level=1", "-Cpanic=abort", "-Cdebuginfo=0"])
            .args([format!("--crate-type={kind}"), format!("--crate-name={name}")])
            .args([format!("--target={}", self.target.triple), format!("-Clto={lto}")])
            .args(more.iter().cloned())
            // rustc asks xcrun otherwise.
            .env("SDKROOT", self.lab.at("sdk"))
            .arg("-o")
            .arg(self.file(output))
            .arg(file)
            .read()
            .unwrap();
    }

    fn shims(&self) -> String {
        format!("--extern=shims={}", self.file("libshims.rlib").display())
    }

    /// The compiler that links, with what it has to know of the target.
    fn linker(&self) -> Invocation {
        match self.is_apple() {
            true => self.lab.cross().clang(MAC, &self.lab.at("sdk")),
            false => Invocation::new(self.lab.cxx()),
        }
    }

    fn library(&self) -> Image {
        let top = format!("{LIBRARY}{PANICS}");
        self.compile("top", &top, "staticlib", "libtop.a", &[self.shims()]);
        let output = self.file("libetmetal");
        self.linker()
            .arg(if self.is_apple() { "-dynamiclib" } else { "-shared" })
            .args(self.linkage().shared_library("libetmetal", &self.exports()))
            .args(self.linkage().whole_archive(&self.file("libtop.a")))
            .arg("-o")
            .arg(&output)
            .read()
            .unwrap();
        read_image(&std::fs::read(output).unwrap()).unwrap()
    }

    fn program(&self) -> Image {
        let linker = self.linker();
        let flags = linker.arguments().iter().map(|arg| arg.to_string_lossy().into_owned());
        let flags = flags.chain(self.linkage().program(&self.exports()));
        let mut more = vec![self.shims(), format!("-Clinker={}", linker.program().display())];
        more.extend(flags.map(|flag| format!("-Clink-arg={flag}")));
        if !self.is_apple() {
            more.push("-Clink-arg=-lc".to_owned());
        }
        self.compile("program", &format!("{PROGRAM}{PANICS}"), "bin", "program", &more);
        read_image(&std::fs::read(self.file("program")).unwrap()).unwrap()
    }
}

/// Everything that is exported, and nothing besides: of programs for Macs, the mark of the header.
fn check(image: &Image, what: &str) {
    let mut exports = image.exports.clone();
    exports.remove("_mh_execute_header");
    let wanted = shim::libetmetal_symbols().into_iter().map(str::to_owned).collect();
    let more: Vec<_> = exports.difference(&wanted).collect();
    let less: Vec<_> = wanted.difference(&exports).collect();
    assert!(more.is_empty() && less.is_empty(), "{what}: too many {more:?}, missing {less:?}");
}

fn in_every_mode(triple: &str) {
    let lab = Lab::new();
    let root = Workspace::root().unwrap();
    let workspace = Workspace { target: root.join("target"), root };
    if rust::target_library(&workspace, triple).is_none() {
        let add = Invocation::new("rustup").args(["target", "add", triple]);
        add.cwd(&workspace.root).read().unwrap();
    }
    for lto in ["off", "thin", "fat"] {
        let target = Target::parse(triple).unwrap();
        let link = Link::read(&Settings::default());
        let rustc = Rustc { lab: &lab, workspace: &workspace, target, lto, link };
        rustc.compile("shims", &shims(), "rlib", "libshims.rlib", &[]);
        check(&rustc.library(), &format!("the library for {triple}, LTO {lto}"));
        check(&rustc.program(), &format!("the program for {triple}, LTO {lto}"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn elf_exports_exactly_the_c_abi_in_every_lto_mode() {
    in_every_mode(&crate::preset::machine::triple());
}

#[test]
fn mach_o_exports_exactly_the_c_abi_in_every_lto_mode() {
    in_every_mode("aarch64-apple-darwin");
}
