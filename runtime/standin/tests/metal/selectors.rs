//! That every message the device may send is sent by some test.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::{diagnosis, operators, rules};

/// The selectors that the device uses, sorted.
const LISTED: &str = include_str!("../../selectors.txt");

/// What macOS 15 and newer are asked, and older systems are not.
const NEW: [&str; 6] = [
    "descriptorWithDataType:shape:",
    "initWithBuffer:offset:descriptor:",
    "initWithMPSNDArray:",
    "setMathFloatingPointFunctions:",
    "setMathMode:",
    "setPreferPackedRows:",
];
/// What only older systems are asked.
const OLD: [&str; 1] = ["setFastMathEnabled:"];

/// Names of ours, or of Rust's, that some method of the bindings has too. Whatever else the device
/// calls by a name without capitals has to be in the list.
const OURS: [&str; 19] = [
    "alloc",
    "buffers",
    "constant",
    "convolution",
    "device",
    "drain",
    "graph",
    "key",
    "lock",
    "max",
    "min",
    "now",
    "null",
    "open",
    "position",
    "release",
    "size",
    "source",
    "values",
];

/// The lines of a source without comments and the tests at its end.
fn code(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    source.lines().map(|line| code(line) + "\n").collect()
}

/// The bindings' methods that a source names: our own names have no capitals.
fn methods(source: &str) -> BTreeSet<String> {
    code(source)
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| {
            (word.starts_with("GPU") && word.len() > 3)
                || word.starts_with(|c: char| c.is_ascii_lowercase())
        })
        .filter(|word| word.contains(|c: char| c.is_ascii_uppercase()))
        .map(str::to_owned)
        .collect()
}

/// Names that a source calls: `.name(`, `::name(`.
fn calls(source: &str) -> BTreeSet<String> {
    let code = code(source);
    let name = |before: &str| -> Option<String> {
        let (rest, name) = before.rsplit_once([':', '.'])?;
        let _ = rest;
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then(|| name.to_owned())
    };
    code.match_indices('(').filter_map(|(at, _)| name(&code[..at])).collect()
}

/// Names without capitals of methods of the bindings, of any number of arguments.
fn plain_methods(source: &str) -> BTreeSet<String> {
    ["method(", "method_id("]
        .iter()
        .flat_map(|start| source.split(start).skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(selector, _)| method(selector))
        .filter(|name| !name.contains(|c: char| c.is_ascii_uppercase()))
        .collect()
}

/// What `of` gives for all sources below a folder.
fn below(folder: &Path, of: &dyn Fn(&str) -> BTreeSet<String>, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, of, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(of(&std::fs::read_to_string(path).unwrap()));
        }
    }
}

/// The device's sources.
fn device() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/device/metal")
}

/// The bindings' method of a selector.
fn method(selector: &str) -> String {
    selector.trim_end_matches(':').replace(':', "_")
}

#[test]
fn the_list_is_that_of_the_sources() {
    let mut used = BTreeSet::new();
    below(&device(), &methods, &mut used);
    let listed: BTreeSet<String> = LISTED.lines().map(method).collect();
    let missing: Vec<_> = used.difference(&listed).collect();
    assert!(missing.is_empty(), "used and not in selectors.txt: {missing:#?}");
    // Names without capitals do not stand out in the sources.
    let plain = |name: &&String| !name.contains(|c: char| c.is_ascii_uppercase());
    let unused: Vec<_> = listed.difference(&used).filter(|name| !plain(name)).collect();
    assert!(unused.is_empty(), "in selectors.txt and not used: {unused:#?}");
    assert!(LISTED.lines().is_sorted(), "selectors.txt is sorted");
}

#[test]
fn names_without_capitals_are_in_the_list_too() {
    let sources = std::env::var_os("ETMETAL_STANDIN_SOURCES");
    let sources = sources.expect("ETMETAL_STANDIN_SOURCES, which `cargo xtask test` sets");
    let mut bindings = BTreeSet::new();
    below(Path::new(&sources), &plain_methods, &mut bindings);
    assert!(bindings.contains("commit") && bindings.contains("label"), "{}", bindings.len());
    let mut called = BTreeSet::new();
    below(&device(), &calls, &mut called);
    let listed: BTreeSet<String> = LISTED.lines().map(method).collect();
    let missing: Vec<_> = called
        .intersection(&bindings)
        .filter(|name| !listed.contains(*name) && !OURS.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "called, not in selectors.txt and not ours: {missing:#?}");
}

#[test]
fn every_selector_is_sent() {
    // In a process of its own: other tests send what the device does not.
    let marker = "ETMETAL_STANDIN_ALONE";
    if std::env::var_os(marker).is_none() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "selectors::every_selector_is_sent", "--nocapture"])
            .env(marker, "1")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{}", text.concat());
        assert!(text[0].contains("1 passed"), "{}", text.concat());
        return;
    }
    operators::products_of_any_strides();
    operators::products_with_an_input();
    operators::convolutions_of_one_to_three_dimensions();
    operators::transposed_convolutions();
    operators::sorts_are_stable_and_know_nan();
    operators::cumulative_sums_and_products_wrap_and_round_as_they_should();
    rules::commands_run_in_order_when_they_are_waited_for();
    rules::a_command_buffer_goes_on_after_a_commit();
    rules::memory_of_others_is_used_in_place_and_let_go();
    rules::failures_of_the_gpu_name_the_kernels();
    rules::what_device_and_kernels_can_do_is_told();
    rules::dispatches_beyond_the_limits_are_refused_and_not_encoded();
    rules::what_the_compiler_says_comes_back();
    rules::pipelines_are_kept_across_runs();
    diagnosis::commands_are_profiled_one_by_one();
    let sent = etmetal_standin::objc::messages::sent();
    let old = std::env::var("ETMETAL_STANDIN_MACOS").is_ok_and(|version| version.starts_with("14"));
    let elsewhere: &[&str] = if old { &NEW } else { &OLD };
    let unsent: Vec<&str> = LISTED
        .lines()
        .filter(|selector| !sent.contains(*selector) && !elsewhere.contains(selector))
        .collect();
    assert!(unsent.is_empty(), "no test makes the device send {unsent:#?}");
}
