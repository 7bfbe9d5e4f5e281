//! Real model data for the tests of this module.

use std::path::PathBuf;

/// The repository's `tests/fixtures` directory.
pub(crate) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures")
}

/// The x86-64 Linux library inside `mlp/model.pte`.
pub(crate) fn library() -> Vec<u8> {
    library_of(&std::fs::read(directory().join("mlp/model.pte")).unwrap())
}

/// The library in a program: from the ELF identification to the end of its section headers,
/// which stand last in the file.
fn library_of(program: &[u8]) -> Vec<u8> {
    let start = program.windows(4).position(|w| w == b"\x7fELF").expect("a model library");
    let elf = &program[start..];
    let number = |at: usize, size: usize| {
        elf[at..at + size].iter().rev().fold(0usize, |n, &b| n << 8 | usize::from(b))
    };
    let (sections_at, section_size, section_count) = (number(40, 8), number(58, 2), number(60, 2));
    elf[..sections_at + section_size * section_count].to_vec()
}

/// A library that g++ makes of a C++ source, as it makes models: with thread-local objects and
/// unique symbols.
pub(crate) fn compile(source: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (directory.path().join("model.cpp"), directory.path().join("model.so"));
    std::fs::write(&input, source).unwrap();
    let status = std::process::Command::new("g++")
        .args(["-std=c++17", "-shared", "-fPIC", "-O1", "-o"])
        .args([&output, &input])
        .status()
        .expect("g++ is needed to test with libraries such as models are");
    assert!(status.success(), "g++ failed");
    std::fs::read(output).unwrap()
}
