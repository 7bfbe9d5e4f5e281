//! Snippets that Metal accepts, and snippets that it refuses with what it says about them.
//!
//! Each has the section of the *Metal Shading Language Specification* that decides, or the words
//! of Apple's compiler where they are known ("Apple").

mod conversions;
mod kernels;
mod language;
mod pointers;
mod storage;
mod types;

use std::path::Path;

use super::super::harness::module;
use super::super::lex::lex;

/// What becomes of a snippet.
enum Expect {
    /// It compiles.
    Accept,
    /// It is refused, with this in the message.
    Refuse(&'static str),
    /// Metal accepts it, this device says that it cannot do it.
    NotHere(&'static str),
}
use Expect::{Accept, NotHere, Refuse};

/// Name, source, expectation.
type Row = (&'static str, &'static str, Expect);

/// Stands before every snippet.
const PRELUDE: &str = "#include <metal_stdlib>\nusing namespace metal;\n";

/// The tables by name.
const TABLES: [(&str, &[Row]); 6] = [
    ("language", language::LANGUAGE),
    ("pointers", pointers::POINTERS),
    ("conversions", conversions::CONVERSIONS),
    ("storage", storage::STORAGE),
    ("kernels", kernels::KERNELS),
    ("types", types::TYPES),
];

/// A kernel whose compilation takes the snippet along.
const PROBE: &str = "kernel void table_probe(device float* out [[buffer(0)]]) { out[0] = 1; }";

/// Reads a source as a device would, and compiles one kernel of it if asked to.
fn run(source: &str, kernel: Option<&str>) -> Result<(), String> {
    let module = module(source).map_err(|e| e.to_string())?;
    kernel.map_or(Ok(()), |kernel| module.compile(kernel).map(|_| ()).map_err(|e| e.to_string()))
}

/// Whether the row can share a compilation with others.
fn shares(row: &Row) -> bool {
    matches!(row, (_, source, Accept) if !source.contains("kernel") && !source.contains('#'))
}

/// What is wrong about a row, if anything is.
fn verdict(table: &str, row: &Row) -> Option<String> {
    let (name, source, expect) = row;
    let source = format!("{PRELUDE}{source}\n{PROBE}\n");
    // What shares a compilation is only read here.
    let result = run(&source, (!shares(row)).then_some("table_probe"));
    match (result, expect) {
        (Ok(()), Accept) => None,
        (Err(text), Refuse(part) | NotHere(part)) if text.contains(part) => None,
        (Ok(()), Refuse(part) | NotHere(part)) => {
            Some(format!("{table}: {name}: accepted, not {part:?}"))
        }
        (Err(text), _) => Some(format!("{table}: {name}: {text}")),
    }
}

#[test]
fn each_snippet_fares_as_with_metal() {
    let rows: Vec<_> =
        TABLES.iter().flat_map(|(table, rows)| rows.iter().map(move |row| (table, row))).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    let work = || {
        while let Some((table, row)) =
            rows.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        {
            wrong.lock().unwrap().extend(verdict(table, row));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn accepted_snippets_compile_together() {
    let mut source = PRELUDE.to_string();
    let rows = TABLES.iter().flat_map(|(_, rows)| rows.iter()).filter(|row| shares(row));
    for (i, (_, text, _)) in rows.enumerate() {
        source.push_str(&format!("namespace row_{i} {{\n{text}\n}}\n"));
    }
    source.push_str(PROBE);
    run(&source, Some("table_probe")).unwrap_or_else(|text| panic!("{text}"));
}

#[test]
fn any_part_of_a_program_is_survived() {
    for (_, rows) in TABLES {
        for (_, source, _) in rows {
            let tokens = lex(source).unwrap();
            for cut in 0..tokens.len() {
                // Only that they return is of interest.
                _ = super::check(&tokens[..cut]);
                _ = super::check(&tokens[cut..]);
                let hole: Vec<_> = [&tokens[..cut], &tokens[cut + 1..]].concat();
                _ = super::check(&hole);
            }
        }
    }
}

/// The shaders in a model: texts between NULs that define a kernel.
fn shaders(model: &[u8]) -> Vec<String> {
    let texts = model.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
    texts
        .filter(|text| text.contains("#include <metal") && text.contains("kernel void"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_shaders_of_the_models_are_accepted() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let mut count = 0;
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let Ok(model) = std::fs::read(entry.unwrap().path().join("model.pte")) else { continue };
        for shader in shaders(&model) {
            if let Err(error) = module(&shader) {
                panic!("{error}");
            }
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} shaders were found");
}
