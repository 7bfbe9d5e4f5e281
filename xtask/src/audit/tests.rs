//! The audit on real files.

use std::path::{Path, PathBuf};

use super::finding::Level;
use super::machine::Machine;
use super::target::Target;
use super::{Expectation, Report, audit, report, shim};
use crate::testing::{Lab, MAC, archive};

/// What stands for an OpenMP: the symbol by which one is known.
const OPENMP: &str = "extern \"C\" void __kmpc_fork_call() {}";
/// What uses one.
const USES_OPENMP: &str =
    "extern \"C\" void __kmpc_fork_call(); extern \"C\" void work() { __kmpc_fork_call(); }";

fn of(files: &[&Path], expected: &Expectation) -> Report {
    let files: Vec<PathBuf> = files.iter().map(|path| path.to_path_buf()).collect();
    // The tests' libraries for Macs are judged the same on every machine.
    let linux = Machine { folders: Machine::current().folders, ..linux() };
    audit(&files, expected, &linux).unwrap()
}

fn linux() -> Machine {
    let architecture = std::env::consts::ARCH.to_owned();
    Machine { format: super::image::Format::Elf, architecture, folders: Vec::new() }
}

/// The report without what depends on the machine and on the version of the linker.
fn shown(lab: &Lab, report: &Report, details: bool) -> String {
    let text = lab.shown(&report::table(report, details));
    let text = text.replace(&format!("{} Linux", std::env::consts::ARCH), "PROCESSOR Linux");
    let lines = text.lines().filter(|line| !line.starts_with("  symbols"));
    let lines = lines.map(|line| match line.split_once("; ") {
        Some((before, pages)) if line.starts_with("  signature") => {
            format!("{before}; {}", pages.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn plain(files: &[&Path]) -> Report {
    of(files, &Expectation::default())
}

fn rules(report: &Report, level: Level) -> Vec<&'static str> {
    let findings = report.files.iter().flat_map(super::FileReport::all_findings);
    findings
        .filter(|(_, finding)| finding.level == level)
        .map(|(_, finding)| finding.rule)
        .collect()
}

fn errors(report: &Report) -> Vec<&'static str> {
    rules(report, Level::Error)
}

#[test]
fn a_good_library_for_macs_has_no_errors() {
    let lab = Lab::new();
    let source = "extern \"C\" void* objc_getClass(const char*); extern \"C\" void* MTLCreateSystemDefaultDevice();
                  extern \"C\" void* f() { return objc_getClass(\"x\") ? MTLCreateSystemDefaultDevice() : 0; }";
    let args = [
        "-lobjc",
        "-framework",
        "Metal",
        "-weak_framework",
        "Foundation",
        "-Wl,-rpath,@loader_path",
    ];
    let library = lab.dylib("libgood.dylib", source, &args);
    let expected = Expectation {
        target: Some(Target::parse("aarch64-apple-darwin").unwrap()),
        minimum_os: super::image::OsVersion::parse("14.0"),
        ..Expectation::default()
    };
    let report = of(&[&library], &expected);
    insta::assert_snapshot!(shown(&lab, &report, true));
    let json: serde_json::Value = serde_json::from_str(&report::json(&report).unwrap()).unwrap();
    assert_eq!(json["ok"], true);
    assert_eq!(json["files"][0]["images"][0]["architecture"], "arm64");
    assert_eq!(json["files"][0]["images"][0]["signature"]["signer"], "linker");
}

#[test]
fn an_absolute_openmp_is_caught_and_repaired() {
    let lab = Lab::new();
    let name = "-Wl,-install_name,/opt/llvm-openmp/lib/libomp.dylib";
    lab.apple(MAC, "lib/libomp.dylib", OPENMP, &["-dynamiclib", name]);
    let pad = "-Wl,-headerpad_max_install_names";
    let user = lab.dylib("lib/libuser.dylib", USES_OPENMP, &["{}/lib/libomp.dylib", pad]);
    let openmp = lab.at("lib/libomp.dylib");
    let before = plain(&[&user, &openmp]);
    insta::assert_snapshot!("absolute_openmp", shown(&lab, &before, true));
    assert_eq!(errors(&before), ["absolute-path"]);

    let done = crate::openmp::repair::repair(&user, &[]).unwrap();
    insta::assert_snapshot!("absolute_openmp_repaired", done.join("\n"));
    crate::openmp::repair::repair(&openmp, &[]).unwrap();
    let after = plain(&[&user, &openmp]);
    assert!(after.is_good(), "{}", report::table(&after, true));
    assert_eq!(rules(&after, Level::Warning), [""; 0]);
    assert!(after.files[0].pieces[0].closure.is_whole());
    let signature = after.files[0].pieces[0].image.signature.clone().unwrap();
    assert!(signature.pages > 1 && signature.changed_pages.is_empty(), "{signature:?}");
    let again = crate::openmp::repair::repair(&user, &[]).unwrap();
    assert_eq!(again, [""; 0], "what is right is left alone");
}

#[test]
fn a_header_without_room_is_refused_and_the_file_left_alone() {
    let lab = Lab::new();
    let name = "-Wl,-install_name,/o/libomp.dylib";
    lab.apple(MAC, "libomp.dylib", OPENMP, &["-dynamiclib", name]);
    let user = lab.dylib("libuser.dylib", USES_OPENMP, &["{}/libomp.dylib", "-Wl,-headerpad,0"]);
    let before = std::fs::read(&user).unwrap();
    let far = "/a/folder/with/a/very/long/name".repeat(30);
    let error = format!("{:#}", crate::openmp::repair::repair(&user, &[far]).unwrap_err());
    assert!(error.contains("link it with -headerpad_max_install_names"), "{error}");
    assert_eq!(std::fs::read(&user).unwrap(), before);
}

#[test]
fn two_openmps_in_one_process_are_caught() {
    let lab = Lab::new();
    for folder in ["torch", "brew"] {
        lab.dylib(&format!("{folder}/libomp.dylib"), OPENMP, &[]);
        let args = [&format!("{{}}/{folder}/libomp.dylib"), &format!("-Wl,-rpath,{{}}/{folder}")];
        let args: Vec<&str> = args.iter().map(|arg| arg.as_str()).collect();
        lab.dylib(&format!("lib{folder}.dylib"), USES_OPENMP, &args);
    }
    let both = [
        "{}/libtorch.dylib",
        "{}/libbrew.dylib",
        "-Wl,-rpath,@loader_path",
        "-Wl,-needed_library,{}/libtorch.dylib",
        "-Wl,-needed_library,{}/libbrew.dylib",
    ];
    let user = lab.dylib("libuser.dylib", "extern \"C\" void f() {}", &both);
    let report = plain(&[&user]);
    assert_eq!(errors(&report), ["openmp"]);
    insta::assert_snapshot!("two_openmps", shown(&lab, &report, false));

    let (torch, brew) = (lab.at("libtorch.dylib"), lab.at("libbrew.dylib"));
    assert!(plain(&[&torch, &brew]).is_good(), "each alone is good");
    let expected = Expectation { beside: vec![torch], ..Expectation::default() };
    assert_eq!(errors(&of(&[&brew], &expected)), ["openmp"], "beside the other it is not");
}

#[test]
fn a_missing_export_is_caught() {
    let lab = Lab::new();
    let names = shim::libetmetal_symbols();
    let source = |names: &[&str]| {
        let define = |name: &&str| format!("extern \"C\" void {name}() {{}}\n");
        names.iter().map(define).collect::<String>()
    };
    let whole = lab.dylib("whole/libetmetal.dylib", &source(&names), &[]);
    assert!(plain(&[&whole]).is_good(), "{}", report::table(&plain(&[&whole]), true));
    let (last, rest) = names.split_last().unwrap();
    let surplus = [rest, &["stray"]].concat();
    let lacking = lab.dylib("lacking/libetmetal.dylib", &source(&surplus), &[]);
    let report = plain(&[&lacking]);
    assert_eq!(
        (errors(&report), rules(&report, Level::Warning)),
        (vec!["exports"], vec!["exports"])
    );
    let table = report::table(&report, false);
    assert!(table.contains(&format!("exports are missing: {last}")), "{table}");
    assert!(table.contains("stray"), "{table}");
}

#[test]
fn a_wrong_architecture_is_caught_in_the_file_and_in_its_libraries() {
    let lab = Lab::new();
    let intel = "x86_64-apple-macos14.0";
    let name = ["-dynamiclib", "-Wl,-install_name,@rpath/libdep.dylib"];
    let library = lab.apple(intel, "libdep.dylib", "extern \"C\" void f() {}", &name);
    let expected = Expectation {
        target: Some(Target::parse("aarch64-apple-darwin").unwrap()),
        ..Expectation::default()
    };
    assert_eq!(errors(&of(&[&library], &expected)), ["architecture"]);
    let simulator =
        lab.apple("arm64-apple-ios17.0-simulator", "libsim.dylib", "int x;", &["-dynamiclib"]);
    assert_eq!(
        errors(&of(&[&simulator], &expected)),
        ["architecture"],
        "same processor, other system"
    );

    lab.dylib("arm/libdep.dylib", "extern \"C\" void f() {}", &[]);
    let uses = "extern \"C\" void f(); extern \"C\" void g() { f(); }";
    let user =
        lab.dylib("libuser.dylib", uses, &["{}/arm/libdep.dylib", "-Wl,-rpath,@loader_path"]);
    let report = plain(&[&user]);
    assert_eq!(errors(&report), ["missing-library"]);
    assert!(report::table(&report, true).contains("Mach-O x86_64, not Mach-O arm64"));
}

#[test]
fn a_newer_system_than_promised_is_caught() {
    let lab = Lab::new();
    let library = lab.apple("arm64-apple-macos15.2", "libx.dylib", "int x;", &["-dynamiclib"]);
    let minimum_os = super::image::OsVersion::parse("14.0");
    let report = of(&[&library], &Expectation { minimum_os, ..Expectation::default() });
    assert_eq!(errors(&report), ["minimum-os"]);
    assert!(report::table(&report, false).contains("needs macOS 15.2, but macOS 14.0"));
}

/// A fat file of thin ones, as lipo makes it: parts at multiples of 16 KiB.
fn fat(parts: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>();
    let (mut head, mut body) = (words(&[0xcafe_babe, parts.len() as u32]), vec![0; 0x4000]);
    for (kind, variant, bytes) in parts {
        head.extend(words(&[*kind, *variant, body.len() as u32, bytes.len() as u32, 14]));
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(0x4000), 0);
    }
    body[..head.len()].copy_from_slice(&head);
    body
}

#[test]
fn every_part_of_a_fat_file_is_audited_and_repaired() {
    let lab = Lab::new();
    let parts =
        [("arm64", 0x0100_000c, 0), ("x86_64", 0x0100_0007, 3)].map(|(arch, kind, variant)| {
            let target = format!("{arch}-apple-macos14.0");
            let name = "-Wl,-install_name,/opt/o/libomp.dylib";
            let openmp = format!("{arch}/libomp.dylib");
            lab.apple(&target, &openmp, OPENMP, &["-dynamiclib", name]);
            let args = [
                "-dynamiclib",
                "-Wl,-install_name,@rpath/libfat.dylib",
                &format!("{{}}/{openmp}"),
                "-Wl,-headerpad,200",
            ];
            let thin = lab.apple(&target, &format!("{arch}/libfat.dylib"), USES_OPENMP, &args);
            (kind, variant, std::fs::read(thin).unwrap())
        });
    let path = lab.at("libfat.dylib");
    std::fs::write(&path, fat(&parts)).unwrap();
    let report = plain(&[&path]);
    assert_eq!(errors(&report), ["absolute-path", "absolute-path"]);
    let labels: Vec<_> = report.files[0].pieces.iter().map(|p| p.label.clone().unwrap()).collect();
    assert_eq!(labels, ["arm64", "x86_64"]);
    std::fs::copy(lab.at("arm64/libomp.dylib"), lab.at("libomp.dylib")).unwrap();
    crate::openmp::repair::repair(&path, &[]).unwrap();
    let repaired = plain(&[&path]);
    assert_eq!(errors(&repaired), ["missing-library"], "only the part for x86-64 lacks its OpenMP");
    let arm = &repaired.files[0].pieces[0];
    assert!(arm.findings.iter().all(|f| f.level < Level::Error), "{:?}", arm.findings);
    assert!(arm.image.signature.as_ref().unwrap().changed_pages.is_empty());
}

#[test]
fn changed_bytes_do_not_fit_the_signature() {
    let lab = Lab::new();
    let library = lab.dylib("libx.dylib", "extern \"C\" const char text[] = \"the text\";", &[]);
    let mut bytes = std::fs::read(&library).unwrap();
    let at = bytes.windows(8).position(|w| w == b"the text").unwrap();
    bytes[at] = b'T';
    std::fs::write(&library, &bytes).unwrap();
    let report = plain(&[&library]);
    assert_eq!(errors(&report), ["signature"]);
    crate::openmp::repair::repair(&library, &[]).unwrap();
    assert!(plain(&[&library]).is_good());

    let unsigned = lab.dylib("libu.dylib", "int x;", &["-Wl,-no_adhoc_codesign"]);
    assert_eq!(errors(&plain(&[&unsigned])), ["signature"]);
    crate::openmp::repair::repair(&unsigned, &[]).unwrap();
    assert!(plain(&[&unsigned]).is_good(), "{}", report::table(&plain(&[&unsigned]), true));
}

#[test]
fn an_archive_is_audited_as_one_and_a_mixed_one_is_caught() {
    let lab = Lab::new();
    let mut objects = Vec::new();
    for (name, target, source) in [
        ("a", MAC, "extern \"C\" void b(); extern \"C\" void a() { b(); }"),
        ("b", MAC, "extern \"C\" void c(); extern \"C\" void b() { c(); }"),
        ("x", "x86_64-apple-macos14.0", "extern \"C\" void x() {}"),
    ] {
        let object = lab.apple(target, &format!("{name}.o"), source, &["-c"]);
        objects.push((name, std::fs::read(object).unwrap()));
    }
    std::fs::write(lab.at("lib.a"), archive(&objects[..2], &[])).unwrap();
    std::fs::write(lab.at("mixed.a"), archive(&objects, &[])).unwrap();
    let good = plain(&[&lab.at("lib.a")]);
    let image = &good.files[0].pieces[0].image;
    assert!(good.is_good(), "{}", report::table(&good, true));
    let left: Vec<_> = image.imports.iter().map(|import| import.name.as_str()).collect();
    assert_eq!((left, image.exports.len()), (vec!["c"], 2), "b is in the archive");
    assert_eq!(errors(&plain(&[&lab.at("mixed.a")])), ["architecture"]);
}

#[cfg(target_os = "linux")]
#[test]
fn faults_of_elf_libraries_are_caught() {
    let lab = Lab::new();
    let dep = ["-shared", "-Wl,-soname,libdep.so"];
    lab.native("libdep.so", "extern \"C\" void f() {}", &dep);
    let uses = "extern \"C\" void f(); extern \"C\" void g() { f(); }";
    let good = lab.native("libgood.so", uses, &["-shared", "{}/libdep.so", "-Wl,-rpath,$ORIGIN"]);
    assert!(plain(&[&good]).is_good(), "{}", report::table(&plain(&[&good]), true));

    let lost = lab.native("lost/liblost.so", uses, &["-shared", "{}/libdep.so"]);
    assert_eq!(errors(&plain(&[&lost])), ["missing-library"]);
    let gone = lab.native(
        "libgone.so",
        "extern \"C\" void gone(); extern \"C\" void h() { gone(); }",
        &["-shared"],
    );
    let report = plain(&[&gone]);
    assert_eq!(errors(&report), ["undefined-symbol"]);
    assert!(report::table(&report, false).contains("nobody provides gone\n"));
    let stack = lab.native("libstack.so", "int x;", &["-shared", "-Wl,-z,execstack"]);
    assert_eq!(errors(&plain(&[&stack])), ["executable-stack"]);
    lab.native("libnamed.so", "extern \"C\" void f() {}", &["-shared"]);
    let absolute = lab.native("libabsolute.so", uses, &["-shared", "{}/libnamed.so"]);
    let report = plain(&[&absolute]);
    assert_eq!(
        errors(&report),
        ["absolute-path"],
        "a library without a SONAME is named by its place"
    );
    let path = "-Wl,-rpath,relative:/nowhere/of/mine";
    let rpath = lab.native("librpath.so", "int x;", &["-shared", path]);
    let report = plain(&[&rpath]);
    assert_eq!((errors(&report), rules(&report, Level::Warning)), (vec!["rpath"], vec!["rpath"]));
    let expected =
        Expectation { rpaths: vec!["/nowhere/of/mine".into()], ..Expectation::default() };
    assert_eq!(rules(&of(&[&rpath], &expected), Level::Warning), [""; 0]);
    let folder = lab.at("private");
    let left = format!("extern \"C\" const char left[] = \"{}/x.rs\";", folder.display());
    let left = lab.native("libleft.so", &left, &["-shared"]);
    let expected = Expectation { private_folders: vec![folder], ..Expectation::default() };
    assert_eq!(rules(&of(&[&left], &expected), Level::Warning), ["build-path"]);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn relocations_in_code_are_caught() {
    let lab = Lab::new();
    let source = "asm(\".text\\n.globl f\\nf: movabs $data, %rax\\nret\\n\"); extern \"C\" long data; long data = 1;";
    let library = lab.native("libtext.so", source, &["-shared", "-Wl,-z,notext"]);
    assert_eq!(errors(&plain(&[&library])), ["text-relocations"]);
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name).join("model.pte")
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn the_libraries_of_models_are_audited() {
    let report = plain(&[&fixture("mlp"), &fixture("tiny_llama")]);
    assert!(report.is_good(), "{}", report::table(&report, true));
    let image = &report.files[0].pieces[0].image;
    assert!(image.is_model() && image.imports.iter().any(|i| i.name == "aoti_torch_mps_mm_out"));
    let expected = Expectation {
        target: Some(Target::parse("aarch64-apple-darwin").unwrap()),
        ..Expectation::default()
    };
    assert_eq!(errors(&of(&[&fixture("mlp")], &expected)), ["architecture"]);
}

#[test]
fn a_model_that_calls_what_nobody_has_is_caught() {
    let lab = Lab::new();
    let bytes = std::fs::read(fixture("mlp")).unwrap();
    let replaced = |from: &[u8], to: &[u8]| {
        let mut bytes = bytes.clone();
        let at = bytes.windows(from.len()).position(|w| w == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        let path = lab.at("model.pte");
        std::fs::write(&path, bytes).unwrap();
        plain(&[&path])
    };
    let report = replaced(b"aoti_torch_mps_mm_out", b"aoti_torch_mps_qq_out");
    assert_eq!(errors(&report), ["model-data", "undefined-symbol"]);
    let table = report::table(&report, false);
    assert!(table.contains("aoti_torch_mps_qq_out (not known to this etmetal)"), "{table}");
    let report = replaced(b"\x7fELF", b"\x7fELF\x07\x07");
    assert_eq!(errors(&report), ["model-data", "damaged"]);
}

#[test]
fn a_model_for_macs_is_held_against_the_c_abi() {
    let lab = Lab::new();
    let name = "-Wl,-install_name,/opt/llvm-openmp/lib/libomp.dylib";
    lab.apple(MAC, "libomp.dylib", OPENMP, &["-dynamiclib", name]);
    let exports = [
        "AOTInductorModelContainerCreateWithDevice",
        "AOTInductorModelContainerDelete",
        "AOTInductorModelContainerRunSingleThreaded",
    ];
    let calls = ["aoti_torch_mps_mm_out", "aoti_torch_cuda_nothing", "elsewhere"];
    let source: String = calls.iter().map(|f| format!("extern \"C\" void {f}();")).collect();
    let body: String = calls.iter().map(|f| format!("{f}();")).collect();
    let define = |name: &&str| format!("extern \"C\" void {name}() {{ {body} }}\n");
    let source = source + &exports.iter().map(define).collect::<String>();
    let openmp = "-Wl,-needed_library,{}/libomp.dylib";
    let args = ["-Wl,-undefined,dynamic_lookup", openmp, "-Wl,-headerpad,200"];
    let model = lab.dylib("model.dylib", &source, &args);
    let report = plain(&[&model]);
    assert_eq!(errors(&report), ["absolute-path", "undefined-symbol"]);
    let table = report::table(&report, true);
    assert!(table.contains("nobody provides aoti_torch_cuda_nothing (not known"), "{table}");
    assert!(table.contains("1 symbols are left to libraries"), "{table}");
    assert!(table.contains("elsewhere"), "another library of the process may have it: {table}");
}

#[test]
fn a_device_is_no_library() {
    let lab = Lab::new();
    let args = ["-dynamiclib", "-Wl,-install_name,/dev/zero"];
    lab.apple(MAC, "libdep.dylib", "extern \"C\" void f() {}", &args);
    let uses = "extern \"C\" void f(); extern \"C\" void g() { f(); }";
    let user = lab.dylib("libuser.dylib", uses, &["{}/libdep.dylib"]);
    assert_eq!(errors(&plain(&[&user])), ["absolute-path"]);
}

#[test]
fn damaged_files_give_findings() {
    let lab = Lab::new();
    let mut samples: Vec<(&str, Vec<u8>)> =
        vec![("model.pte", std::fs::read(fixture("mm")).unwrap())];
    let library = lab.dylib(
        "libx.dylib",
        USES_OPENMP,
        &["-Wl,-undefined,dynamic_lookup", "-Wl,-rpath,@loader_path"],
    );
    samples.push(("x.dylib", std::fs::read(&library).unwrap()));
    samples.push(("fat.dylib", fat(&[(0x0100_000c, 0, samples[1].1.clone())])));
    let object = lab.apple(MAC, "o.o", USES_OPENMP, &["-c"]);
    samples.push(("x.a", archive(&[("o", std::fs::read(object).unwrap())], &[])));
    samples
        .push(("x.so", std::fs::read(lab.native("libx.so", USES_OPENMP, &["-shared"])).unwrap()));
    for (name, bytes) in &samples {
        assert!(super::audit_bytes(bytes).is_ok(), "{name}");
        let mut fails = 0;
        // Many places, the same ones each time.
        for step in 0..300usize {
            let at = step * 7919 % bytes.len();
            fails += usize::from(super::audit_bytes(&bytes[..at]).is_err());
            let mut changed = bytes.clone();
            // The beginning is where most is to be broken.
            changed[if step % 2 == 0 { step } else { at } % bytes.len()] ^= 0x5a;
            let _ = super::audit_bytes(&changed);
            let _ = crate::macho::signed(&changed, "x");
        }
        assert!(fails > 100, "{name}: only {fails} of 300 cuts were noticed");
    }
    for (text, bytes) in [("neither ELF", b"#!/bin/sh\n".to_vec()), ("neither", Vec::new())] {
        let path = lab.at("damaged");
        std::fs::write(&path, bytes).unwrap();
        let report = plain(&[&path]);
        assert_eq!(errors(&report), ["damaged"]);
        assert!(report::table(&report, true).contains(text));
    }
    assert_eq!(errors(&plain(&[&lab.at("not-there")])), ["damaged"]);
}
