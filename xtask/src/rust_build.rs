//! The Rust side: the static library that CMake links, and the `etmetal` program.

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::preset::{Preset, platform};
use crate::process::{Invocation, quote};
use crate::steps::{Action, Input, Step};
use crate::toolchain::apple::{self, CrossToolchain};
use crate::toolchain::launcher::knows_rustc;
use crate::toolchain::rust::Rust;
use crate::toolchain::{identity, linux};
use crate::workspace::{Workspace, cargo};

/// Variables of the environment that change what cargo makes.
const VARIABLES: [&str; 12] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "AR",
    "LDFLAGS",
    "SDKROOT",
    "MACOSX_DEPLOYMENT_TARGET",
];

/// `cargo` as for the stage: no path of this machine gets into what it makes, as the sources,
/// cargo's own folder and the sources of Rust's standard library are remapped. Whoever wants to share compiled crates with the stage's
/// build has to use the same.
pub fn staged_cargo(workspace: &Workspace, rust: &Rust, environment: &Environment) -> Invocation {
    let flags: Vec<_> = path_names(workspace, environment)
        .into_iter()
        .chain(library_names(rust))
        .map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()))
        .collect();
    let cargo = cargo(&workspace.root).without_env("CARGO_BUILD_TARGET");
    // Flags in the environment would make cargo forget those of the command line.
    for (name, separator) in [("CARGO_ENCODED_RUSTFLAGS", "\u{1f}"), ("RUSTFLAGS", " ")] {
        if let Some(given) = environment.get(name) {
            let given = given.to_string_lossy().into_owned();
            let all: Vec<_> = std::iter::once(given).chain(flags).collect();
            return cargo.env(name, all.join(separator));
        }
    }
    let flags: Vec<_> = flags.iter().map(|flag| format!("{flag:?}")).collect();
    let key = "target.'cfg(all())'.rustflags";
    cargo.arg("--config").arg(format!("{key}=[{}]", flags.join(", ")))
}

/// What folders of this machine are called in what is made, the most specific last.
fn path_names(workspace: &Workspace, environment: &Environment) -> Vec<(PathBuf, String)> {
    let mut names = vec![(workspace.root.clone(), "/etmetal".to_owned())];
    if let Some(home) = cargo_home(environment) {
        // Compilers start in the folder of a crate, and know it by its real name.
        let inner = ["registry", "git"].map(|name| (home.join(name), format!("/cargo/{name}")));
        names.push((home, "/cargo".to_owned()));
        names.extend(inner.into_iter().filter(|(folder, _)| real_name(folder).is_some()));
    }
    if !workspace.target.starts_with(&workspace.root) {
        names.push((workspace.target.clone(), "/etmetal/target".to_owned()));
    }
    let real: Vec<_> = names
        .iter()
        .filter_map(|(folder, name)| Some((real_name(folder)?, name.clone())))
        .collect();
    names.extend(real);
    names
}

/// The same for the sources of the standard library: where they are installed, the compiler takes
/// their real names for the ones that it has without them.
fn library_names(rust: &Rust) -> Vec<(PathBuf, String)> {
    let Some((folder, name)) = rust.library_sources() else { return Vec::new() };
    let real = real_name(&folder).map(|real| (real, name.clone()));
    [(folder, name)].into_iter().chain(real).collect()
}

/// Where a folder really is, if links lead to it.
fn real_name(folder: &Path) -> Option<PathBuf> {
    folder.canonicalize().ok().filter(|real| real != folder)
}

/// Where cargo keeps what it has downloaded.
pub fn cargo_home(environment: &Environment) -> Option<PathBuf> {
    let named = environment.get("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(environment.get("HOME")?).join(".cargo")))
}

/// The values of the variables `names` as inputs of a step.
pub fn variables(environment: &Environment, names: &[&str]) -> Vec<Input> {
    let set = names.iter().filter_map(|name| Some((*name, environment.get(name)?)));
    set.map(|(name, value)| {
        Input::Value(format!("the variable {name}"), value.to_string_lossy().into_owned())
    })
    .collect()
}

/// The steps of one preset's Rust side.
#[derive(Debug)]
pub struct RustBuild<'a> {
    /// The working copy.
    pub workspace: &'a Workspace,
    /// The preset.
    pub preset: &'a Preset,
    /// The compiler.
    pub rust: &'a Rust,
    /// The environment.
    pub environment: &'a Environment,
    /// The C++ compiler: it links for other machines.
    pub cxx: &'a Path,
    /// The program that compilers are started with.
    pub launcher: Option<&'a Path>,
    /// What compiles and links for an Apple system from elsewhere, where it is provided.
    pub toolchain: Option<&'a CrossToolchain>,
    /// Whether Rust's standard library for the target is still to be installed.
    pub lacks_target: bool,
}

impl RustBuild<'_> {
    fn folder(&self) -> PathBuf {
        let target = &self.workspace.target;
        let target =
            if self.is_cross() { target.join(&self.preset.target) } else { target.clone() };
        target.join(self.preset.build.cargo_folder())
    }

    fn is_cross(&self) -> bool {
        self.preset.target != self.rust.host
    }

    /// Whether there is a program: on iOS, programs are applications.
    pub fn has_program(&self) -> bool {
        !platform::is_ios(&self.preset.target)
    }

    /// `libetmetal.a`.
    pub fn library(&self) -> PathBuf {
        self.folder().join("libetmetal.a")
    }

    /// The program `etmetal`.
    pub fn program(&self) -> PathBuf {
        self.folder().join("etmetal")
    }

    /// The key of [`RustBuild::step`]: presets that share a profile share what cargo makes.
    pub fn key(&self) -> String {
        let profile = self.preset.build.cargo_folder();
        match self.is_cross() {
            true => format!("rust-{profile}-{}", self.preset.target),
            false => format!("rust-{profile}"),
        }
    }

    /// Makes both in one go, so that the crate is compiled once.
    pub fn step(&self) -> Step {
        let sources =
            ["runtime", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"];
        let mut inputs: Vec<_> =
            sources.iter().map(|path| Input::Path(self.workspace.root.join(path))).collect();
        inputs.push(Input::Value("rustc".into(), self.rust.verbose_version.clone()));
        inputs.extend(variables(self.environment, &VARIABLES));
        inputs.extend(self.toolchain.map(|toolchain| Input::Step(toolchain.key())));
        if linux::is_cross(self.preset) {
            inputs.push(Input::Value("the C++ compiler".into(), identity(self.cxx)));
        }
        let add_target = self.lacks_target.then(|| {
            let add = Invocation::new("rustup").args(["target", "add", &self.preset.target]);
            Action::Run(add.cwd(&self.workspace.root))
        });
        let mut outputs = vec![self.library().into()];
        if self.has_program() {
            outputs.push(self.program().into());
        }
        Step {
            name: if self.has_program() { "Rust library and program" } else { "Rust library" },
            key: self.key(),
            inputs,
            actions: add_target.into_iter().chain([Action::Run(self.cargo_build())]).collect(),
            outputs,
            hint: "see the compiler's messages in the log, or run the command above by hand"
                .to_owned(),
        }
    }

    /// The oldest Apple system to run on, as rustc reads it.
    fn deployment_target(&self) -> Option<(&'static str, &str)> {
        let (_, system) = self.preset.target.split_once("-apple-")?;
        let version = self.preset.toolchain.deployment_target.as_ref()?;
        let is_ios = system.starts_with("ios");
        let name = if is_ios { "IPHONEOS_DEPLOYMENT_TARGET" } else { "MACOSX_DEPLOYMENT_TARGET" };
        Some((name, &version.value))
    }

    /// cargo with what it has to know of the target. `--config` stands before the command, all of
    /// it: cargo forgets it for one that stands behind.
    fn cargo(&self) -> Invocation {
        let cargo = staged_cargo(self.workspace, self.rust, self.environment);
        let cargo = match self.deployment_target() {
            Some((name, version)) => cargo.env(name, version),
            None => cargo,
        };
        if linux::is_cross(self.preset) {
            return linux::cargo(self.preset, self.cxx, cargo);
        }
        if !platform::is_apple(&self.preset.target) {
            return cargo;
        }
        // A dependency compiles a few lines of Objective-C, from cargo's folder.
        let flags: Vec<_> = path_names(self.workspace, self.environment)
            .into_iter()
            .map(|(folder, name)| format!("-ffile-prefix-map={}={name}", folder.display()))
            .map(|flag| quote(flag.as_ref()))
            .collect();
        let variable = format!("CFLAGS_{}", self.preset.target.replace('-', "_"));
        let cargo = cargo
            .env("ZERO_AR_DATE", "1")
            .env("CC_SHELL_ESCAPED_FLAGS", "1")
            .env(&variable, flags.join(" "));
        match self.toolchain {
            Some(toolchain) => toolchain.cargo(cargo),
            None => apple::cross_cargo(self.preset, self.cxx, cargo),
        }
    }

    fn cargo_build(&self) -> Invocation {
        let profile = &self.preset.build.profile.value;
        let features = &self.preset.build.features;
        let mut invocation = self.cargo();
        invocation = match profile.as_str() {
            "release" => invocation.args(["build", "--release"]),
            profile => invocation.args(["build", "--profile", profile]),
        };
        invocation = invocation.args(["-p", "etmetal"]);
        if self.has_program() {
            invocation = invocation.args(["-p", "etmetal-cli"]);
        }
        if self.is_cross() {
            invocation = invocation.arg("--target").arg(&self.preset.target);
        }
        if let Some(launcher) = self.launcher.filter(|launcher| knows_rustc(launcher))
            && self.environment.get("RUSTC_WRAPPER").is_none()
        {
            invocation = invocation.env("RUSTC_WRAPPER", launcher);
        }
        if features.is_empty() {
            return invocation;
        }
        // Features are those of the library: qualified, because two packages are built.
        let qualified: Vec<_> = features.iter().map(|name| format!("etmetal/{name}")).collect();
        invocation.arg("--features").arg(qualified.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::Memory;

    #[test]
    fn folders_are_renamed_by_the_name_that_links_give_them_and_by_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        let (home, real) = (place.join("home"), place.join("real/registry"));
        std::fs::create_dir_all(&real).unwrap();
        std::fs::create_dir(&home).unwrap();
        std::os::unix::fs::symlink(&real, home.join("registry")).unwrap();
        let workspace = Workspace { root: place.join("root"), target: place.join("root/target") };
        let environment = Environment::default().with("CARGO_HOME", &home);
        let names = path_names(&workspace, &environment);
        let name = |path: PathBuf| {
            // The last that fits is the one that counts.
            let (folder, name) = names.iter().rfind(|(folder, _)| path.starts_with(folder))?;
            Some(format!("{name}/{}", path.strip_prefix(folder).unwrap().display()))
        };
        let wanted = Some("/cargo/registry/src/a.rs".to_owned());
        assert_eq!(name(home.join("registry/src/a.rs")), wanted);
        assert_eq!(name(real.join("src/a.rs")), wanted, "where compilers are started");
        assert_eq!(name(home.join("config.toml")).unwrap(), "/cargo/config.toml");
        assert_eq!(name(place.join("root/runtime/x.rs")).unwrap(), "/etmetal/runtime/x.rs");
        assert_eq!(name(place.join("elsewhere")), None);
    }

    /// Makes a program whose code comes from the standard library, as `cargo xtask build` does.
    fn program(rust: &Rust, workspace: &Workspace, folder: &Path) -> Vec<u8> {
        let text = "fn main() { let mut v = vec![1]; v.insert(std::env::args().count(), 2); }";
        std::fs::write(folder.join("main.rs"), text).unwrap();
        let names = library_names(rust).into_iter();
        let names =
            names.map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()));
        let sysroot = rust.sysroot.as_ref().unwrap();
        let rustc = crate::toolchain::rust::rustc(workspace).args(names).arg("--sysroot");
        let rustc = rustc.arg(sysroot).args(["-Copt-level=3", "-g"]).arg(folder.join("main.rs"));
        rustc.arg("-o").arg(folder.join("main")).read().unwrap();
        std::fs::read(folder.join("main")).unwrap()
    }

    /// A toolchain with the libraries of `real`, where sources are installed or are not.
    fn link_toolchain(real: &Path, to: &Path, has_sources: bool) {
        let libraries = to.join("lib/rustlib");
        std::fs::create_dir_all(&libraries).unwrap();
        let triple = crate::preset::machine::triple();
        let of_real = real.join("lib/rustlib").join(&triple);
        std::os::unix::fs::symlink(of_real, libraries.join(triple)).unwrap();
        if has_sources {
            // The file by which the compiler knows that they are there.
            let std = libraries.join("src/rust/library/std/src");
            std::fs::create_dir_all(&std).unwrap();
            std::fs::write(std.join("lib.rs"), "").unwrap();
        }
    }

    #[test]
    fn a_program_is_the_same_with_and_without_the_sources_of_the_standard_library() {
        let root = Workspace::root().unwrap();
        let workspace = Workspace { target: root.join("target"), root };
        let rust = Rust::find(&workspace, &Memory::default()).unwrap();
        // The same toolchain twice, once with sources and once without.
        let folder = tempfile::tempdir().unwrap();
        let made = [true, false].map(|has_sources| {
            let toolchain = folder.path().join(format!("toolchain-{has_sources}"));
            link_toolchain(rust.sysroot.as_ref().unwrap(), &toolchain, has_sources);
            let rust = Rust { sysroot: Some(toolchain), ..rust.clone() };
            program(&rust, &workspace, folder.path())
        });
        assert!(made[0] == made[1]);
        let has = |text: &str| memchr::memmem::find(&made[0], text.as_bytes()).is_some();
        assert!(has("/rustc/") && !has(&folder.path().join("toolchain").display().to_string()));
    }
}
