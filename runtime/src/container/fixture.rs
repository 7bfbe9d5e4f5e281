//! Real model data for the tests of this module.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

/// The repository's `tests/fixtures` directory.
pub(crate) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures")
}

/// The x86-64 Linux library inside `mlp/model.pte`.
pub(crate) fn library() -> Vec<u8> {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    let read = || library_of(&std::fs::read(directory().join("mlp/model.pte")).unwrap());
    LIBRARY.get_or_init(read).clone()
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
/// unique symbols. The same source is compiled once.
pub(crate) fn compile(source: &str) -> Vec<u8> {
    static COMPILED: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap();
    compiled.entry(source.to_owned()).or_insert_with(|| compile_now(source)).clone()
}

fn compile_now(source: &str) -> Vec<u8> {
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

/// The payload of the test model.
pub(crate) const MODEL_KEYS: &[u8] = b"l_so_blob\nw_weights_blob";

/// The blobs of the test model (`testdata/model.cpp`): a weight that counts from 1, a cache that
/// is 100.
pub(crate) fn model_data(defines: &str) -> BTreeMap<String, Arc<Vec<u8>>> {
    let library = compile(&format!("{defines}\n{}", include_str!("testdata/model.cpp")));
    let weight: Vec<u8> = (1..=16).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let cache = [100f32.to_le_bytes(); 16].concat();
    let weight = if defines.contains("UNPADDED") { &weight[..60] } else { &weight };
    BTreeMap::from([
        ("l_so_blob".to_owned(), Arc::new(library)),
        ("w_weights_blob".to_owned(), Arc::new([weight, &cache].concat())),
    ])
}
