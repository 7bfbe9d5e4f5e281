//! What is built for Macs on Linux, read back. As `--preset macos-cross` builds it, but with the
//! Rust side unoptimised, which takes less than half of the time.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use xtask::apple_sdk;
use xtask::audit::finding::{Finding, Level};
use xtask::audit::image::{Image, Kind, OsVersion, Provider};
use xtask::audit::machine::Machine;
use xtask::audit::shim;
use xtask::audit::signature::Signer;
use xtask::audit::target::Target;
use xtask::audit::{Expectation, Exports, audit, contents, report};
use xtask::workspace::Workspace;

const TRIPLE: &str = "aarch64-apple-darwin";

/// Builds what is missing of the preset and gives back its stage.
fn stage() -> &'static Path {
    static STAGE: OnceLock<PathBuf> = OnceLock::new();
    STAGE.get_or_init(|| {
        let mut build = Command::new(env!("CARGO_BIN_EXE_xtask"));
        build.args(["build", "--preset", "metal-debug", "-D", &format!("build.target={TRIPLE}")]);
        build.args(["-D", "toolchain.deployment_target=14.0", "-D", "toolchain.cxxflags=-O2"]);
        build.env("CXXFLAGS_aarch64_apple_darwin", "-O2");
        build.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        // Not the one in the environment: the build makes that environment where it is not there.
        if let Some(python) = std::env::var_os("ETMETAL_BASE_PYTHON") {
            build.env("ETMETAL_PYTHON", python);
        }
        let output = build.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Workspace::find().unwrap().stage("metal-debug", TRIPLE)
    })
}

fn image(file: &str) -> Image {
    let path = stage().join(file);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    contents::read_image(&bytes).unwrap()
}

/// Checks what is the same for all that is linked.
fn check_header(image: &Image, kind: Kind) {
    let platform = image.platform.as_ref().unwrap();
    assert_eq!((image.kind, image.architecture.as_str()), (kind, "arm64"));
    assert_eq!((platform.name, platform.minimum), ("macOS", OsVersion(14, 0, 0)));
    let signature = image.signature.as_ref().unwrap();
    assert_eq!(signature.signer, Signer::Linker, "{signature:?}");
    assert!(signature.pages > 10 && signature.changed_pages.is_empty(), "{signature:?}");
    assert_eq!(signature.problem, None);
}

/// Every import is of a library that has it: for Apple's, as far as the table of stubs knows, which
/// holds what libraries for macOS 14 are known to use.
fn check_imports(image: &Image) {
    let stubs = apple_sdk::stubs();
    let executorch = self::image("lib/libexecutorch.dylib");
    for import in &image.imports {
        let Provider::Library(index) = import.provider else {
            panic!("{} is looked up in no library in particular", import.name);
        };
        let library = image.libraries[index].name.as_str();
        let has = match library {
            "@rpath/libexecutorch.dylib" => executorch.exports.contains(&import.name),
            _ => {
                let stub = stubs.iter().find(|stub| stub.install_name == library);
                let stub = stub.unwrap_or_else(|| panic!("{library} is not in the table"));
                let in_c = format!("_{}", import.name);
                stub.symbols.iter().any(|symbol| *symbol == in_c || *symbol == import.name)
            }
        };
        assert!(has, "{library} has no {}", import.name);
    }
    assert!(image.imports.len() > 50, "{}", image.imports.len());
}

fn libraries(image: &Image) -> BTreeSet<&str> {
    assert!(image.libraries.iter().all(|library| !library.weak && !library.reexported));
    image.libraries.iter().map(|library| library.name.as_str()).collect()
}

#[test]
fn the_library_is_what_a_mac_loads() {
    let library = image("lib/libetmetal.dylib");
    check_header(&library, Kind::Library);
    check_imports(&library);
    assert_eq!(library.name.as_deref(), Some("@rpath/libetmetal.dylib"));
    assert_eq!(library.rpaths, ["@loader_path"]);
    let frameworks = [
        ("CoreGraphics", 'A'),
        ("Foundation", 'C'),
        ("Metal", 'A'),
        ("MetalPerformanceShaders", 'A'),
        ("MetalPerformanceShadersGraph", 'A'),
    ];
    let frameworks = frameworks.map(|(name, version)| {
        format!("/System/Library/Frameworks/{name}.framework/Versions/{version}/{name}")
    });
    let mut wanted: BTreeSet<_> = frameworks.iter().map(String::as_str).collect();
    wanted.extend(["/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"]);
    wanted.extend(["/usr/lib/libobjc.A.dylib", "@rpath/libexecutorch.dylib"]);
    assert_eq!(libraries(&library), wanted);
    let exports: BTreeSet<_> = library.exports.iter().map(String::as_str).collect();
    assert_eq!(exports, shim::libetmetal_symbols().into_iter().collect());
}

#[test]
fn the_program_is_what_a_mac_starts() {
    let program = image("bin/etmetal");
    check_header(&program, Kind::Program);
    check_imports(&program);
    let foreign = |name: &&str| !name.starts_with("/usr/lib/") && !name.starts_with("/System/");
    assert_eq!(libraries(&program).into_iter().find(foreign), None);
    // It loads libetmetal by its path, and must not answer models in its place.
    let exports: Vec<_> = program.exports.iter().filter(|name| shim::is_of_models(name)).collect();
    assert!(exports.is_empty(), "{exports:?}");
}

#[test]
fn the_static_library_holds_the_whole_delegate() {
    let bytes = std::fs::read(stage().join("lib/libetmetal.a")).unwrap();
    let archive = contents::Contents::read(&bytes).unwrap();
    let [piece] = archive.pieces.as_slice() else { panic!("{:?}", archive.findings) };
    assert_eq!((piece.image.kind, piece.image.architecture.as_str()), (Kind::Archive, "arm64"));
    // The runner is not in it: applications use ExecuTorch's own.
    let runner: BTreeSet<_> = shim::c_api().into_iter().collect();
    let wanted = shim::libetmetal_symbols();
    let missing = wanted.iter().filter(|name| !piece.image.exports.contains(**name));
    let missing: Vec<_> = missing.filter(|name| !runner.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let delegate = |name: &&String| name.starts_with("etmetal_delegate_");
    assert_eq!(piece.image.exports.iter().filter(delegate).count(), 4);
    // What registers the backend with ExecuTorch.
    let registers = "_ZN10executorch7runtime16register_backendERKNS0_7BackendE";
    assert!(piece.image.imports.iter().any(|import| import.name == registers));
}

#[test]
fn nothing_in_the_stage_is_of_this_machine() {
    let files = xtask::audit::stage::binaries(stage()).unwrap();
    assert!(files.len() >= 5, "{files:?}");
    let workspace = Workspace::find().unwrap();
    let home = std::env::var_os("CARGO_HOME").or_else(|| std::env::var_os("HOME"));
    let expected = Expectation {
        target: Some(Target::parse(TRIPLE).unwrap()),
        minimum_os: OsVersion::parse("14.0"),
        exports: Exports::ByName,
        private_folders: [Some(workspace.root), home.map(PathBuf::from)]
            .into_iter()
            .flatten()
            .collect(),
        ..Expectation::default()
    };
    let found = audit(&files, &expected, &Machine::current()).unwrap();
    let table = report::table(&found, true);
    assert!(found.is_good(), "{table}");
    for file in found.files.iter().filter(|file| file.path.to_string_lossy().contains("etmetal")) {
        let findings: Vec<_> = file.all_findings().collect();
        // Notes are about the machine on which Rust's standard library was built.
        let of_ours =
            |finding: &Finding| finding.rule == "build-path" && finding.level > Level::Note;
        let paths = findings.iter().find(|(_, finding)| of_ours(finding));
        assert!(paths.is_none(), "{findings:?}");
    }
    assert!(!stage().join("lib/etmetal/msl-compiler").exists());
}
