//! For tests: real libraries, made by real compilers and linkers.

use std::path::{Path, PathBuf};

use crate::apple_sdk;
use crate::environment::Environment;
use crate::process::Invocation;
use crate::toolchain::cross::Cross;
use crate::toolchain::{Installer, cxx};

/// The deployment target of libraries for Macs.
pub const MAC: &str = "arm64-apple-macos14.0";

/// A folder in which libraries are built.
pub struct Lab {
    folder: tempfile::TempDir,
    cross: Cross,
    cxx: PathBuf,
}

impl Lab {
    /// An empty folder with a stand-in for Apple's SDK.
    pub fn new() -> Self {
        let environment = Environment::current();
        let folder = tempfile::tempdir().unwrap();
        apple_sdk::write(&folder.path().join("sdk")).unwrap();
        Self {
            cross: Cross::find(&environment, Installer::detect()).unwrap(),
            cxx: cxx::find(&environment, None, Installer::detect()).unwrap(),
            folder,
        }
    }

    /// What links for Macs.
    pub fn cross(&self) -> &Cross {
        &self.cross
    }

    /// What links for this machine.
    pub fn cxx(&self) -> &Path {
        &self.cxx
    }

    /// A path inside.
    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Text without the name of the folder, which is another one each time.
    pub fn shown(&self, text: &str) -> String {
        let real = self.folder.path().canonicalize().unwrap();
        text.replace(&real.display().to_string(), "LAB")
            .replace(&self.folder.path().display().to_string(), "LAB")
    }

    fn source(&self, output: &str, source: &str) -> PathBuf {
        let path = self.at(&format!("{}.cpp", output.replace('/', "-")));
        std::fs::write(&path, source).unwrap();
        std::fs::create_dir_all(self.at(output).parent().unwrap()).unwrap();
        path
    }

    /// Builds `output` from C++ for the Apple system `target`; `{}` in arguments is the folder.
    pub fn apple(&self, target: &str, output: &str, source: &str, args: &[&str]) -> PathBuf {
        let source = self.source(output, source);
        let clang = self.cross.clang(target, &self.at("sdk")).arg("-O1").arg(source);
        self.run(clang, output, args)
    }

    /// A dynamic library for Macs, called `@rpath/FILE`.
    pub fn dylib(&self, output: &str, source: &str, args: &[&str]) -> PathBuf {
        let file = Path::new(output).file_name().unwrap().to_str().unwrap();
        let name = format!("-Wl,-install_name,@rpath/{file}");
        self.apple(MAC, output, source, &[&["-dynamiclib", &name], args].concat())
    }

    /// Builds `output` from C++ for this machine.
    pub fn native(&self, output: &str, source: &str, args: &[&str]) -> PathBuf {
        let source = self.source(output, source);
        self.run(Invocation::new(&self.cxx).arg("-O1").arg("-fPIC").arg(source), output, args)
    }

    fn run(&self, compiler: Invocation, output: &str, args: &[&str]) -> PathBuf {
        let folder = self.folder.path().display().to_string();
        let args = args.iter().map(|arg| arg.replace("{}", &folder));
        let output = self.at(output);
        compiler.args(args).arg("-o").arg(&output).read().unwrap();
        output
    }
}

/// An archive in GNU's form, with the symbols of its first member in the index.
pub fn archive(members: &[(&str, Vec<u8>)], symbols: &[&str]) -> Vec<u8> {
    let head = |name: &str, size: usize| {
        format!("{:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", format!("{name}/"), 0, 0, 0, 644)
    };
    let mut names: String = symbols.iter().map(|name| format!("{name}\0")).collect();
    if names.len() % 2 == 1 {
        names.push('\0');
    }
    let size = 4 + 4 * symbols.len() + names.len();
    let first = (8 + 60 + size) as u32;
    let mut out = format!("!<arch>\n{}", head("", size)).into_bytes();
    out.extend((symbols.len() as u32).to_be_bytes());
    symbols.iter().for_each(|_| out.extend(first.to_be_bytes()));
    out.extend(names.bytes());
    for (name, bytes) in members {
        out.extend(head(name, bytes.len()).bytes());
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(2), b'\n');
    }
    out
}
