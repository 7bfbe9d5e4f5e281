//! Models come and go: many times, several at once, from several threads, without growth.
//!
//! One test function, so that nothing else runs in the process whose memory it watches.

use std::collections::BTreeSet;

use etmetal_tests::fixture::{Fixture, runtime};
use etmetal_tests::memory::{anonymous_kib, resident_kib};

/// Loads and destroys between two looks at the memory.
const ROUNDS: usize = 1000;
/// What one stretch of [`ROUNDS`] may add: less than 3 KiB a load, and the odd stack or arena.
const SLACK_KIB: u64 = 2 * 1024;
/// Pools (fiber stacks, allocator arenas, free buffers) grow to the most that was ever in use at
/// once, and chance decides when that is: each of these stretches may be the first without growth.
/// A leak grows in all of them.
const STRETCHES: usize = 6;

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

/// Runs `stretch`, which makes [`ROUNDS`] loads and destroys, until it leaves this process's
/// memory, mappings and files as they were.
///
/// # Panics
/// It never does.
#[track_caller]
fn comes_to_rest(mut stretch: impl FnMut()) {
    let mut grown = Vec::new();
    for _ in 0..STRETCHES {
        let (libraries, files) = (executable_mappings(), open_files());
        let before = (anonymous_kib(), resident_kib());
        stretch();
        let after = (anonymous_kib(), resident_kib());
        assert_eq!(executable_mappings(), libraries, "a destroyed model is still mapped");
        assert_eq!(open_files(), files, "a destroyed model left a file open");
        if after.0 <= before.0 + SLACK_KIB && after.1 <= before.1 + SLACK_KIB {
            return;
        }
        grown.push((before, after));
    }
    panic!("each {ROUNDS} loads add memory; (anonymous, resident) KiB before and after: {grown:?}");
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
    (0..20).for_each(|_| round());
    comes_to_rest(|| (0..ROUNDS).for_each(|_| round()));
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
    comes_to_rest(|| rotation(ROUNDS / 4));
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
