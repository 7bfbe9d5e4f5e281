//! Building for Apple systems on another machine.
//!
//! Nothing of Apple's is needed: zig, which is pinned, brings a clang with the headers of libc++
//! and Darwin; LLVM's linker links against [stubs](crate::apple_sdk). [`CrossToolchain`] puts them
//! together as programs that CMake, cargo and people call like any compiler. Where an SDK of
//! Apple's is named, it takes the place of the stubs and the headers; where a C++ compiler is
//! named, that is used as it is, and needs such an SDK.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::install::{Installer, Package};
use super::{cross, rust};
use crate::environment::Environment;
use crate::preset::{Preset, platform};
use crate::process::{Invocation, quote};
use crate::steps::{Action, Input, Step};
use crate::venv::Venv;
use crate::workspace::Workspace;

/// Whether `preset` is built for an Apple system on another.
pub fn is_cross(preset: &Preset) -> bool {
    platform::is_apple(&preset.target) && preset.host != "macos"
}

/// Apple's SDK, where one is named.
fn named_sysroot(preset: &Preset, environment: &Environment) -> Option<PathBuf> {
    let named = preset.toolchain.sysroot.as_ref().map(|set| PathBuf::from(&set.value));
    named.or_else(|| environment.get("SDKROOT").map(PathBuf::from))
}

/// What clang calls the target, where it has to be told.
pub fn clang_triple(preset: &Preset) -> Option<String> {
    if !is_cross(preset) {
        return None;
    }
    let (architecture, system) = preset.target.split_once("-apple-")?;
    let architecture = if architecture == "aarch64" { "arm64" } else { architecture };
    let version = preset.toolchain.deployment_target.as_ref();
    let version = version.map_or("", |set| set.value.as_str());
    Some(match system {
        "ios" => format!("{architecture}-apple-ios{version}"),
        "ios-sim" => format!("{architecture}-apple-ios{version}-simulator"),
        _ => format!("{architecture}-apple-macosx{version}"),
    })
}

/// Checks that a compiler that the preset names has an SDK to link with: `xcrun` finds it on Macs
/// only.
///
/// # Errors
/// There is none, with how to name one.
pub fn check_sysroot(preset: &Preset, environment: &Environment) -> Result<()> {
    let Some(cxx) = preset.toolchain.cxx.as_ref().filter(|_| is_cross(preset)) else {
        return Ok(());
    };
    if named_sysroot(preset, environment).is_none() {
        bail!(
            "{}: `toolchain.cxx` names a compiler for {} on {}, which needs Apple's SDK: name its \
             folder with `-D toolchain.sysroot=/path/to/MacOSX.sdk`, ETMETAL_TOOLCHAIN_SYSROOT or \
             SDKROOT; without `toolchain.cxx`, a compiler that needs none is provided",
            cxx.origin,
            preset.target,
            preset.host
        );
    }
    Ok(())
}

/// `cargo` with what it has to know to compile C and to link with `cxx`, the compiler that the
/// preset names, for an Apple system.
pub fn cross_cargo(preset: &Preset, cxx: &Path, cargo: Invocation) -> Invocation {
    let Some(triple) = clang_triple(preset) else { return cargo };
    let mut flags = vec![format!("--target={triple}")];
    let mut cargo = cargo;
    if let Some(sysroot) = &preset.toolchain.sysroot {
        // rustc asks xcrun otherwise.
        cargo = cargo.env("SDKROOT", &sysroot.value);
        flags.push(format!("-isysroot{}", sysroot.value));
    }
    let compile = flags.join(" ");
    flags.extend(preset.link.flags.iter().cloned());
    let arguments: Vec<_> = flags.iter().map(|flag| format!("\"-Clink-arg={flag}\"")).collect();
    let key = format!("target.{}", preset.target);
    let variable = variable(&preset.target);
    let cc = preset.toolchain.cc.as_ref().map_or(cxx.as_os_str(), |cc| cc.value.as_ref());
    cargo
        .env(&format!("CC_{variable}"), cc)
        .env(&format!("CXX_{variable}"), cxx)
        .env(&format!("CFLAGS_{variable}"), &compile)
        .env(&format!("CXXFLAGS_{variable}"), &compile)
        .arg("--config")
        .arg(format!("{key}.linker={:?}", cxx.display().to_string()))
        .arg("--config")
        .arg(format!("{key}.rustflags=[{}]", arguments.join(", ")))
}

/// A triple as the names of variables end with it.
fn variable(triple: &str) -> String {
    triple.replace('-', "_")
}

/// The linker to cross-link with: that of the Rust toolchain, which is the same wherever that is;
/// else the machine's.
///
/// # Errors
/// There is neither, with how to install one.
pub fn find_linker(workspace: &Workspace, environment: &Environment) -> Result<PathBuf> {
    if let Some(linker) = rust::mach_o_linker(workspace) {
        return Ok(linker);
    }
    cross::find_linker(environment).with_context(|| {
        format!(
            "there is no linker for macOS: rustup's toolchains bring one, and \
             `{}` installs one",
            Installer::detect().command(Package::Lld)
        )
    })
}

/// A C++ compiler, linker and SDK for an Apple system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossToolchain {
    /// Rust's name of the target.
    triple: String,
    /// Clang's.
    clang: String,
    /// Everything that is written.
    folder: PathBuf,
    /// The folder of the package that brings zig.
    zig: PathBuf,
    linker: PathBuf,
    /// Apple's SDK, where one is named.
    sysroot: Option<PathBuf>,
}

/// How libc++'s headers are to be used, which zig leaves to the command line: as those of Apple's
/// systems, of which only what the oldest supported one has.
const LIBCXX: [&str; 15] = [
    "-D_LIBCPP_ABI_VERSION=1",
    "-D_LIBCPP_ABI_NAMESPACE=__1",
    "-D_LIBCPP_HAS_THREADS=1",
    "-D_LIBCPP_HAS_MONOTONIC_CLOCK=1",
    "-D_LIBCPP_HAS_TERMINAL=1",
    "-D_LIBCPP_HAS_FILESYSTEM=1",
    "-D_LIBCPP_HAS_RANDOM_DEVICE=1",
    "-D_LIBCPP_HAS_LOCALIZATION=1",
    "-D_LIBCPP_HAS_UNICODE=1",
    "-D_LIBCPP_HAS_WIDE_CHARACTERS=1",
    "-D_LIBCPP_HAS_MUSL_LIBC=0",
    "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1",
    "-D_LIBCPP_PSTL_BACKEND_SERIAL",
    "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
    "-D_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE",
];

impl CrossToolchain {
    /// The toolchain of `preset`; nothing where the machine's own compiler is used.
    pub fn new(
        preset: &Preset,
        workspace: &Workspace,
        environment: &Environment,
        venv: &Venv,
        linker: PathBuf,
    ) -> Option<Self> {
        if preset.toolchain.cxx.is_some() {
            return None;
        }
        Some(Self {
            clang: clang_triple(preset)?,
            triple: preset.target.clone(),
            folder: workspace.target.join("apple").join(&preset.target),
            zig: venv.site_packages().join("ziglang"),
            linker,
            sysroot: named_sysroot(preset, environment),
        })
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// The C compiler, which compiles Objective-C too.
    pub fn cc(&self) -> PathBuf {
        self.program("clang")
    }

    /// The C++ compiler, which links.
    pub fn cxx(&self) -> PathBuf {
        self.program("clang++")
    }

    /// What makes archives.
    pub fn ar(&self) -> PathBuf {
        self.program("ar")
    }

    /// What indexes archives.
    pub fn ranlib(&self) -> PathBuf {
        self.program("ranlib")
    }

    /// What CMake asks for and never calls.
    pub fn install_name_tool(&self) -> PathBuf {
        self.program("install_name_tool")
    }

    /// The SDK: Apple's, or the stand-in for it. CMake knows the system by the folder's name.
    pub fn sdk(&self) -> PathBuf {
        let name = match self.triple.split_once("-apple-") {
            Some((_, "ios")) => "iPhoneOS.sdk",
            Some((_, "ios-sim")) => "iPhoneSimulator.sdk",
            _ => "MacOSX.sdk",
        };
        self.sysroot.clone().unwrap_or_else(|| self.folder.join(name))
    }

    /// The key of [`CrossToolchain::step`].
    pub fn key(&self) -> String {
        format!("toolchain-{}", self.triple)
    }

    /// Writes the programs and the stubs; the step `zig` brings zig.
    pub fn step(&self, zig: &Step) -> Step {
        let mut actions = vec![
            Action::Remove(self.folder.clone()),
            Action::MakeFolder(self.folder.join("bin")),
            self.write(&self.cc(), &self.compiler(false)),
            self.write(&self.cxx(), &self.compiler(true)),
            self.write(&self.ar(), &self.zig("ar")),
            self.write(&self.ranlib(), &self.zig("ranlib")),
            self.write(
                &self.install_name_tool(),
                "echo 'error: everything is linked under its final name' >&2; exit 1",
            ),
        ];
        let mut outputs = vec![self.cc(), self.cxx(), self.ar(), self.ranlib()];
        if self.sysroot.is_none() {
            actions.push(Action::AppleSdk(self.sdk()));
            outputs.push(self.sdk().join("SDKSettings.json"));
        }
        Step {
            name: "Compiler and SDK stubs for Apple systems",
            key: self.key(),
            inputs: vec![
                Input::Step(zig.key.clone()),
                Input::Value("the linker".into(), super::identity(&self.linker)),
                Input::Value("the stubs".into(), crate::apple_sdk::fingerprint()),
            ],
            actions,
            outputs: outputs.into_iter().map(Into::into).collect(),
            hint: format!("check that {} may be written", self.folder.display()),
        }
    }

    fn write(&self, path: &Path, command: &str) -> Action {
        let triple = &self.triple;
        let text = format!("#!/bin/sh\n# For {triple}; written by `cargo xtask`.\n{command}\n");
        Action::WriteProgram(path.to_owned(), text)
    }

    fn zig(&self, tool: &str) -> String {
        format!("exec {} {tool} \"$@\"", quote(self.zig.join("zig").as_os_str()))
    }

    /// The command of the compiler.
    fn compiler(&self, cxx: bool) -> String {
        let mut words = Vec::new();
        let mut word = |text: String| words.push(quote(text.as_ref()));
        word(self.zig.join("zig").display().to_string());
        word("clang".into());
        if cxx {
            word("--driver-mode=g++".into());
        }
        word(format!("--target={}", self.clang));
        word(format!("-isysroot{}", self.sdk().display()));
        word("-fuse-ld=lld".into());
        word(format!("--ld-path={}", self.linker.display()));
        // Objects' paths, by which debuggers find what was not linked in, help nobody elsewhere.
        word("-Wl,-S".into());
        // What links is given when only compiling, and the other way round.
        word("-Wno-unused-command-line-argument".into());
        let lib = self.zig.join("lib");
        if self.sysroot.is_none() {
            let own: &[&str] = if cxx { &["libcxx/include", "libcxxabi/include"] } else { &[] };
            word("-nostdinc".into());
            for folder in own.iter().chain(&["include", "libc/include/any-darwin-any"]) {
                word(format!("-isystem{}", lib.join(folder).display()));
            }
            if cxx {
                word("-nostdinc++".into());
                LIBCXX.iter().for_each(|define| word((*define).into()));
                // The oldest systems' libc++ has no operator for it.
                word("-fno-sized-deallocation".into());
            }
        } else {
            // zig keeps clang's own headers where clang does not look.
            word("-nobuiltininc".into());
            word(format!("-isystem{}", lib.join("include").display()));
        }
        word(format!("-ffile-prefix-map={}=/zig", lib.display()));
        word(format!("-ffile-prefix-map={}=/sdk", self.sdk().display()));
        format!("exec {} \"$@\"", words.join(" "))
    }

    /// `cargo` with what it has to know to compile C++ and to link.
    pub fn cargo(&self, cargo: Invocation) -> Invocation {
        let variable = variable(&self.triple);
        cargo
            // rustc asks xcrun otherwise.
            .env("SDKROOT", self.sdk())
            .env(&format!("CC_{variable}"), self.cc())
            .env(&format!("CXX_{variable}"), self.cxx())
            .env(&format!("AR_{variable}"), self.ar())
            .arg("--config")
            .arg(format!("target.{}.linker={:?}", self.triple, self.cxx().display().to_string()))
    }
}
