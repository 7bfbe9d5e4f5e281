//! What a build is, for every preset, and what it refuses.

use std::path::Path;

use super::*;
use crate::preset::options::{OptionKind, recorded};
use crate::preset::schema::HOSTS;
use crate::preset::{Context, Folder, PresetError, Source as _, machine};
use crate::steps::runner::render;
use crate::toolchain::{Tool, Version};
use crate::venv::Python;

/// A workspace with the real presets and lock files and an empty `CMakeLists.txt`.
fn facts(folder: &Path, preset: &str, defines: &[&str], clang: bool) -> Facts {
    facts_on("linux", folder, preset, defines, clang).unwrap()
}

/// The same on another kind of machine.
fn facts_on(
    host: &str,
    folder: &Path,
    preset: &str,
    defines: &[&str],
    clang: bool,
) -> Result<Facts, PresetError> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in ["sdk", "zig", "bench"] {
        let path = format!("xtask/lock/requirements-{name}.txt");
        std::fs::create_dir_all(folder.join("xtask/lock")).unwrap();
        std::fs::copy(repository.join(&path), folder.join(&path)).unwrap();
    }
    std::fs::create_dir_all(folder.join("runtime")).unwrap();
    std::fs::write(folder.join("runtime/CMakeLists.txt"), "").unwrap();
    let workspace = Workspace { root: folder.to_owned(), target: folder.join("target") };
    let triple = machine::usual_triple(host);
    let defines: Vec<_> = defines.iter().map(|d| (*d).to_owned()).collect();
    let environment = Environment::default().with("HOME", "/home/me");
    let context = Context {
        host,
        triple,
        environment: &environment,
        defines: &defines,
        root: folder,
        fetched: None,
    };
    let preset = Preset::resolve(&Folder::new(repository), preset, &context)?;
    let clang = clang.then(|| {
        let path = "/usr/bin/clang++-19".into();
        MslCompiler::Clang(Tool { path, version: Version(19, 1, 7) })
    });
    let named = |set: &Sourced<String>| PathBuf::from(format!("/usr/bin/{}", set.value));
    let venv = Venv::new(
        &workspace,
        Python { path: "/usr/bin/python3.11".into(), version: Version(3, 11, 2) },
    );
    let linker = "/rust/bin/gcc-ld/ld64.lld".into();
    let toolchain = CrossToolchain::new(&preset, &workspace, &environment, &venv, linker);
    let own = match linux::is_cross(&preset) {
        true => linux::program(&preset.target),
        false => "c++".into(),
    };
    let own = || Path::new("/usr/bin").join(own);
    let cxx = preset.toolchain.cxx.as_ref().map_or_else(own, named);
    Ok(Facts {
        environment,
        rust: Rust {
            version: Version(1, 95, 0),
            verbose_version: "rustc 1.95.0".into(),
            host: triple.into(),
            sysroot: None,
        },
        venv,
        target: Target::parse(&preset.target).unwrap(),
        openmp: None,
        cxx: toolchain.as_ref().map_or(cxx, CrossToolchain::cxx),
        toolchain,
        lacks_target: false,
        launcher: preset.toolchain.launcher.as_ref().map(named),
        torch_python: None,
        preset,
        workspace,
        clang,
    })
}

fn shown(preset: &str, defines: &[&str], clang: bool, extras: Extras) -> String {
    let folder = tempfile::tempdir().unwrap();
    shown_of(&folder, &facts(folder.path(), preset, defines, clang), extras)
}

fn shown_of(folder: &tempfile::TempDir, facts: &Facts, extras: Extras) -> String {
    let steps = plan(facts, &extras).unwrap().steps;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let text: Vec<_> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| render(index, steps.len(), step, Some("not made yet")))
        .collect();
    let text = text.join("\n").replace(&folder.path().display().to_string(), "ROOT");
    text.replace(&cargo, "cargo")
}

#[test]
fn the_plan_of_the_metal_preset() {
    insta::assert_snapshot!(shown("metal", &[], true, Extras::default()));
}

#[test]
fn the_plan_without_clang_and_with_every_setting() {
    let defines = [
        "toolchain.launcher=ccache",
        "toolchain.cxxflags=-g3,-fno-omit-frame-pointer",
        "link.flags=-fuse-ld=lld",
        "build.features=checked",
    ];
    insta::assert_snapshot!(shown(
        "metal-debug",
        &defines,
        false,
        Extras { bench: true, ..Extras::default() }
    ));
}

const SOURCE: [&str; 3] = [
    "executorch.from=source",
    "executorch.path=deps/executorch",
    "executorch.options.BUILD_PORTABLE_OPS=OFF",
];

/// A checkout at `deps/executorch` below `folder`.
fn checkout(folder: &Path, version: &str, submodules: &[&str]) {
    let root = folder.join("deps/executorch");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("CMakeLists.txt"), "").unwrap();
    std::fs::write(root.join("version.txt"), version).unwrap();
    let text: String =
        submodules.iter().map(|path| format!("[submodule]\n\tpath = {path}\n")).collect();
    std::fs::write(root.join(".gitmodules"), text).unwrap();
    let presets = root.join("tools/cmake/preset");
    std::fs::create_dir_all(&presets).unwrap();
    let known = recorded::table(None).schema.options;
    let define = |name: &String| {
        let kind = if known[name].kind == OptionKind::Bool { "BOOL" } else { "STRING" };
        format!("define_overridable_option(EXECUTORCH_{name} \"\" {kind} OFF)\n")
    };
    let text: String = known.keys().map(define).collect();
    std::fs::write(presets.join("default.cmake"), text).unwrap();
}

#[test]
fn the_plan_of_a_source_tree() {
    let folder = tempfile::tempdir().unwrap();
    checkout(folder.path(), "1.5.0\n", &[]);
    let mut defines = SOURCE.to_vec();
    defines.extend(["executorch.options.LOG_LEVEL=Debug", "toolchain.launcher=sccache"]);
    let facts = facts(folder.path(), "metal", &defines, true);
    insta::assert_snapshot!(shown_of(&folder, &facts, Extras::default()));
}

#[test]
fn the_plan_of_a_git_revision_without_etmetal() {
    let folder = tempfile::tempdir().unwrap();
    let defines = [
        "executorch.from=git",
        "executorch.url=https://example.org/executorch.git",
        "executorch.rev=release/1.5",
        "executorch.options.BUILD_PORTABLE_OPS=OFF",
        "backend.metal=off",
    ];
    let facts = facts(folder.path(), "metal", &defines, false);
    insta::assert_snapshot!(shown_of(&folder, &facts, Extras::default()));
}

#[test]
fn a_source_tree_that_cannot_be_built_is_refused_at_once() {
    let refused = |defines: &[&str], version: &str, submodules: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        checkout(folder.path(), version, submodules);
        let defines: Vec<_> = SOURCE.iter().chain(defines).copied().collect();
        let error = match facts_on("linux", folder.path(), "metal", &defines, true) {
            Err(error) => error.into(),
            Ok(facts) => plan(&facts, &Extras::default()).err().unwrap(),
        };
        format!("{error:#}").replace(&folder.path().display().to_string(), "ROOT")
    };
    let submodules = ["third-party/json", "third-party/pybind11", "third-party/gflags"];
    let options = ["executorch.options.BUILD_SHARED=OFF", "executorch.options.BUILD_METAL=0"];
    let messages = [
        refused(&[], "1.4.0", &submodules),
        refused(&["executorch.path=gone"], "1.5.0", &[]),
        refused(&["executorch.path=deps"], "1.5.0", &[]),
        refused(&options, "1.5.0", &[]),
        refused(&["backend.metal=upstream"], "1.5.0", &[]),
        refused(&["executorch.options.BUILD_PYBIND=ON"], "1.5.0", &[]),
    ];
    insta::assert_snapshot!(messages.join("\n\n"));
}

#[test]
fn the_plan_of_every_preset_on_every_host() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for preset in Folder::new(repository).names() {
        for host in HOSTS {
            let folder = tempfile::tempdir().unwrap();
            let text = match facts_on(host, folder.path(), &preset, &[], true) {
                Err(error) => error.render(false),
                Ok(mut facts) => {
                    facts.torch_python = Some("/torch/bin/python".into());
                    shown_of(&folder, &facts, Extras::default())
                }
            };
            insta::assert_snapshot!(format!("dry_run_{preset}_{host}"), text);
        }
    }
}

#[test]
fn a_package_is_made_of_the_stripped_stage() {
    let defines = ["package.archive=tar.zst", "package.strip=on"];
    let text = shown("metal", &defines, true, Extras::default());
    let (_, tail) = text.split_once("--install").unwrap();
    insta::assert_snapshot!(tail);
}

#[test]
fn flags_of_the_environment_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut facts = facts(folder.path(), "metal", &[], true);
    facts.environment = facts.environment.with("RUSTFLAGS", "-C target-cpu=native");
    let text = shown_of(&folder, &facts, Extras::default());
    assert!(
        text.contains(
            "env -u CARGO_BUILD_TARGET RUSTFLAGS='-C target-cpu=native \
             --remap-path-prefix=ROOT=/etmetal --remap-path-prefix=/home/me/.cargo=/cargo' \
             cargo build --release"
        ),
        "{text}"
    );
}

#[test]
fn a_plan_is_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |defines: &[&str], spoil: &dyn Fn()| {
        let error = match facts_on("linux", folder.path(), "metal", defines, true) {
            Err(error) => error.into(),
            Ok(facts) => {
                spoil();
                plan(&facts, &Extras::default()).err().unwrap()
            }
        };
        format!("{error:#}").replace(&folder.path().display().to_string(), "ROOT")
    };
    let nothing = || {};
    let version = refused(&["executorch.version=1.4.0"], &nothing);
    insta::assert_snapshot!(version, @"-D executorch.version=1.4.0: the preset wants ExecuTorch 1.4.0, but ROOT/xtask/lock/requirements-sdk.txt pins 1.5.1: change one of them");
    let off = refused(&["backend.metal=off"], &nothing);
    insta::assert_snapshot!(off, @r#"-D backend.metal=off: `backend.metal = "off"`: the SDK is built already, so that nothing is left to build; build ExecuTorch from source with `executorch.from = "git"`"#);
    let lists = folder.path().join("runtime/CMakeLists.txt");
    let missing = refused(&[], &|| std::fs::remove_file(&lists).unwrap());
    insta::assert_snapshot!(missing, @"ROOT/runtime/CMakeLists.txt is missing: is the working copy whole?");
}
