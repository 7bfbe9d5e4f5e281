//! Models come and go: many times, several at once, from several threads, without growth.
//!
//! One test function, so that nothing else runs in the process whose memory it watches.

use std::collections::BTreeSet;

use etmetal_tests::fixture::{Fixture, runtime};
use etmetal_tests::memory::{anonymous_kib, resident_kib};

/// Loads and destroys of one model.
const ROUNDS: usize = 1000;
/// Memory that may come and go with the allocator's and the buffer pool's habits.
const SLACK_KIB: u64 = 8 * 1024;

/// Files and anonymous memory files that are mapped and executable: loaded libraries.
fn executable_mappings() -> BTreeSet<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    maps.lines()
        .filter(|line| line.split_whitespace().nth(1).is_some_and(|p| p.contains('x')))
        .filter_map(|line| line.split_whitespace().nth(5).map(str::to_owned))
        .collect()
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc is mounted").count()
}

#[track_caller]
fn flat(what: &str, before: u64, after: u64) {
    assert!(
        after <= before + SLACK_KIB,
        "{what} grew from {before} KiB after the first rounds to {after} KiB"
    );
}

#[test]
fn loading_and_destroying_leaves_nothing_behind() {
    let runtime = runtime();
    one_model_many_times(&runtime);
    six_models_in_rotation_from_four_threads(&runtime);
    one_model_used_by_four_threads_at_once(&runtime);
    dropping_a_model_leaves_the_others_alone(&runtime);
}

fn one_model_many_times(runtime: &etmetal::runner::Runtime) {
    let mlp = Fixture::read("mlp");
    let round = || mlp.check(&mlp.load(runtime));
    for _ in 0..20 {
        round();
    }
    let libraries = executable_mappings();
    let files = open_files();
    let (anonymous, resident) = (anonymous_kib(), resident_kib());
    for _ in 20..ROUNDS {
        round();
    }
    flat("anonymous memory", anonymous, anonymous_kib());
    flat("resident memory", resident, resident_kib());
    assert_eq!(executable_mappings(), libraries, "a destroyed model is still mapped");
    assert_eq!(open_files(), files, "a destroyed model left a file open");
}

fn six_models_in_rotation_from_four_threads(runtime: &etmetal::runner::Runtime) {
    let names = ["mlp", "add", "linear_bias", "layernorm", "embedding", "reductions"];
    let models: Vec<Fixture> = names.map(Fixture::read).into();
    let rotation = |rounds: usize| {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let models = &models;
                scope.spawn(move || {
                    for i in 0..rounds {
                        let model = &models[(i + thread) % models.len()];
                        model.check(&model.load(runtime));
                    }
                });
            }
        });
    };
    rotation(12);
    let libraries = executable_mappings();
    let (anonymous, resident) = (anonymous_kib(), resident_kib());
    rotation(ROUNDS / 4);
    flat("anonymous memory", anonymous, anonymous_kib());
    flat("resident memory", resident, resident_kib());
    assert_eq!(executable_mappings(), libraries, "a destroyed model is still mapped");
}

fn one_model_used_by_four_threads_at_once(runtime: &etmetal::runner::Runtime) {
    let model = Fixture::read("layernorm");
    let module = model.load(runtime);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    model.check(&module);
                }
            });
        }
    });
}

fn dropping_a_model_leaves_the_others_alone(runtime: &etmetal::runner::Runtime) {
    let (a, b) = (Fixture::read("linear_bias"), Fixture::read("mlp"));
    let kept = a.load(runtime);
    let twin = a.load(runtime);
    a.check(&kept);
    for _ in 0..5 {
        let other = b.load(runtime);
        b.check(&other);
        a.check(&twin);
        drop(other);
        a.check(&kept);
    }
    drop(twin);
    a.check(&kept);
}
