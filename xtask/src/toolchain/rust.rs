//! The Rust compiler.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::{Memory, Version};
use crate::process::Invocation;
use crate::workspace::Workspace;

/// The triple of Macs: their code is type-checked from everywhere.
pub const APPLE: &str = "aarch64-apple-darwin";

/// Where the standard library for `triple` is, if it is installed.
pub fn target_library(workspace: &Workspace, triple: &str) -> Option<PathBuf> {
    let asked = rustc(workspace).args(["--print", "target-libdir", "--target", triple]).read();
    let folder = PathBuf::from(asked.ok()?.trim());
    folder.is_dir().then_some(folder)
}

/// Installs the standard library for `triple` where it is not.
///
/// # Errors
/// rustup is not there or cannot get it, with what it said.
pub fn provide(workspace: &Workspace, triple: &str) -> Result<()> {
    if target_library(workspace, triple).is_some() {
        return Ok(());
    }
    let rustup = Invocation::new("rustup").args(["target", "add", triple]).cwd(&workspace.root);
    // Where it failed is of no use; why it did, is.
    let added = rustup.env("RUST_BACKTRACE", "0").read();
    added.map(drop).map_err(|error| {
        anyhow::anyhow!(
            "Rust's standard library for {triple} is not installed, and `rustup target add \
             {triple}` cannot install it: {}",
            reason(&format!("{error:#}"))
        )
    })
}

/// Why a program of Rust's failed, in one line, from what it said.
fn reason(said: &str) -> String {
    let start = said.lines().position(|line| line.starts_with("error: ")).unwrap_or(0);
    let lines = said.lines().skip(start).map(|line| line.strip_prefix("error: ").unwrap_or(line));
    let lines: Vec<_> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// The linker for Mach-O that the toolchain brings along, if it does.
pub fn mach_o_linker(workspace: &Workspace) -> Option<PathBuf> {
    let linker = tools(&sysroot(workspace)?).join("gcc-ld/ld64.lld");
    linker.is_file().then_some(linker)
}

/// LLVM's objcopy, if the toolchain brings it along.
pub fn objcopy(workspace: &Workspace) -> Option<Invocation> {
    let sysroot = sysroot(workspace)?;
    let program = tools(&sysroot).join("rust-objcopy");
    // Its LLVM is the compiler's, which it does not find by itself.
    let libraries = sysroot.join("lib");
    program.is_file().then(|| Invocation::new(program).env("LD_LIBRARY_PATH", libraries))
}

/// The folder of the toolchain.
fn sysroot(workspace: &Workspace) -> Option<PathBuf> {
    match beside_cargo() {
        Some(rustc) => Some(rustc.parent()?.parent()?.to_owned()),
        None => Some(rustc(workspace).args(["--print", "sysroot"]).read().ok()?.trim().into()),
    }
}

/// Where the tools lie that rustc calls.
fn tools(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib").join(crate::preset::machine::triple()).join("bin")
}

/// The compiler that cargo uses in the repository, to be run.
pub fn rustc(workspace: &Workspace) -> Invocation {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Invocation::new(program).cwd(&workspace.root)
}

/// The compiler beside the cargo that runs this program. Unlike what is called `rustc` in `PATH`,
/// which may be rustup's, it is the compiler itself.
fn beside_cargo() -> Option<PathBuf> {
    if std::env::var_os("RUSTC").is_some() {
        return None;
    }
    let rustc = PathBuf::from(std::env::var_os("CARGO")?).with_file_name("rustc");
    rustc.is_file().then_some(rustc)
}

/// The compiler that cargo uses in the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rust {
    /// Its version.
    pub version: Version,
    /// Everything it says of itself: changes with every build of the compiler.
    pub verbose_version: String,
    /// The triple that it compiles for unless told otherwise.
    pub host: String,
    /// The toolchain's folder, where that can be told.
    pub sysroot: Option<PathBuf>,
}

impl Rust {
    /// Asks the compiler, or `memory` where that is safe.
    ///
    /// # Errors
    /// There is none, or it says no host.
    pub fn find(workspace: &Workspace, memory: &Memory) -> Result<Self> {
        let text = match beside_cargo() {
            Some(path) => memory.ask(&Invocation::new(&path).arg("-vV"), &path)?,
            None => rustc(workspace).arg("-vV").read()?,
        };
        Ok(Self { sysroot: sysroot(workspace), ..Self::parse(&text)? })
    }

    fn parse(text: &str) -> Result<Self> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        Ok(Self {
            version: field("release: ")
                .and_then(Version::in_text)
                .context("`rustc -vV` names no release")?,
            host: field("host: ").context("`rustc -vV` names no host")?.trim().to_owned(),
            verbose_version: text.to_owned(),
            sysroot: None,
        })
    }

    /// Where the sources of the standard library are if somebody has installed them (rustup's
    /// `rust-src`), and what the compiler calls that folder in what it makes if nobody has.
    pub fn library_sources(&self) -> Option<(PathBuf, String)> {
        let mut lines = self.verbose_version.lines();
        let hash = lines.find_map(|line| line.strip_prefix("commit-hash: "))?;
        let sources = self.sysroot.as_ref()?.join("lib/rustlib/src/rust");
        (hash != "unknown").then(|| (sources, format!("/rustc/{hash}")))
    }

    /// The name of the host in presets: `linux`, `macos`.
    ///
    /// # Errors
    /// Another host: it is not supported.
    pub fn preset_host(&self) -> Result<&'static str> {
        match self.host.as_str() {
            host if host.contains("-linux-") => Ok("linux"),
            host if host.ends_with("-apple-darwin") => Ok("macos"),
            host => anyhow::bail!("etmetal builds on Linux and macOS, not on {host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_rustup_failed_is_one_line() {
        let said = "`cd /x && rustup target add y` failed (exit status 1):\ninfo: downloading\n\
                    error: component download failed for rust-std-y\n\nCaused by:\n    0: could \
                    not download\n    1: 404\n";
        let wanted =
            "component download failed for rust-std-y Caused by: 0: could not download 1: 404";
        assert_eq!(reason(said), wanted);
        let none = "cannot start `rustup target add y`: is rustup installed?";
        assert_eq!(reason(none), none);
    }

    #[test]
    fn the_compiler_tells_release_and_host() {
        let text = "rustc 1.95.0 (x)\nbinary: rustc\nhost: aarch64-apple-darwin\nrelease: 1.95.0\n";
        let rust = Rust::parse(text).unwrap();
        assert_eq!((rust.version, rust.preset_host().unwrap()), (Version(1, 95, 0), "macos"));
        assert_eq!(
            Rust::parse("release: 1.95.0\n").unwrap_err().to_string(),
            "`rustc -vV` names no host"
        );
        let other = Rust { host: "x86_64-pc-windows-msvc".into(), ..rust };
        assert_eq!(
            other.preset_host().unwrap_err().to_string(),
            "etmetal builds on Linux and macOS, not on x86_64-pc-windows-msvc"
        );
    }
}
