//! The cache of compiled kernels, seen from outside.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use super::super::harness::{checked_toolchain_at, toolchain, toolchain_at};
use super::super::toolchain::Search;
use super::*;

/// A compiler that notes each of its runs, in front of the real one.
fn counting_toolchain(dir: &Path) -> Arc<Toolchain> {
    let script = dir.join("counting-clang");
    if !script.exists() {
        let real =
            toolchain().describe().rsplit_once(": ").unwrap().1.trim_end_matches(')').to_string();
        let log = dir.join("runs");
        let text = format!("#!/bin/sh\necho run >> '{}'\nexec {real} \"$@\"\n", log.display());
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let search = Search { explicit: Some(script.into_os_string()), ..Search::default() };
    Toolchain::find_with(&search, &dir.join("cache"), Flavor::Loops).unwrap()
}

fn runs(dir: &Path) -> usize {
    std::fs::read_to_string(dir.join("runs")).unwrap_or_default().lines().count()
}

fn source(constant: u32) -> String {
    with_header(&format!("kernel void f(device uint* o) {{ o[0] = {constant}; }}"))
}

fn run(module: &Module) -> u32 {
    let mut out = [0u32];
    Dispatch::new([1, 1, 1], [1, 1, 1]).arg(&mut out).run(&module.compile("f").unwrap());
    out[0]
}

#[test]
fn a_warm_cache_runs_no_compiler() {
    let dir = tempfile::tempdir().unwrap();
    let cold = Module::parse(&source(3), &counting_toolchain(dir.path())).unwrap();
    assert_eq!(run(&cold), 3);
    assert_eq!(runs(dir.path()), 4, "--version, preprocessor, headers, compiler");
    let toolchain = counting_toolchain(dir.path());
    let warm = Module::parse(&source(3), &toolchain).unwrap();
    assert_eq!(warm.kernels(), cold.kernels());
    assert_eq!(run(&warm), 3);
    assert_eq!(runs(dir.path()), 4);
    let other = Module::parse(&source(4), &toolchain).unwrap();
    assert_eq!(run(&other), 4);
    assert_eq!(runs(dir.path()), 6);
}

/// The real compiler, but for the loops of kernels, which it refuses.
fn toolchain_without_loops(dir: &Path) -> Arc<Toolchain> {
    let script = dir.join("refusing-clang");
    if !script.exists() {
        let real =
            toolchain().describe().rsplit_once(": ").unwrap().1.trim_end_matches(')').to_string();
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in *-shared*) ;; *) exec {real} \"$@\" ;; esac\n\
             unit=$(cat)\ncase \"$unit\" in\n\
             *MSL_ROWS_ENTRY*) echo 'entry:1:1: error: no loops here' >&2; exit 1 ;;\nesac\n\
             printf '%s' \"$unit\" | {real} \"$@\"\n"
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let search = Search { explicit: Some(script.into_os_string()), ..Search::default() };
    Toolchain::find_with(&search, &dir.join("cache"), Flavor::Loops).unwrap()
}

#[test]
fn loops_that_do_not_compile_are_told_of_whether_cached_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let source = include_str!("../testdata/layernorm.metal");
    for _ in 0..2 {
        let module = Module::parse(source, &toolchain_without_loops(dir.path())).unwrap();
        let kernel = &module.kernels()[0];
        assert_eq!(kernel.fission, Outcome::Split(Shape::Rows));
        let native = module.compile(&kernel.name).unwrap();
        assert!(!native.loops());
        let why = native.fallback.unwrap();
        assert!(why.contains("no loops here") && why.contains(&kernel.name), "{why}");
    }
    let module = Module::parse(source, toolchain()).unwrap();
    let native = module.compile(&module.kernels()[0].name).unwrap();
    assert!(native.loops() && native.fallback.is_none());
}

#[test]
fn fibers_are_compiled_for_the_first_launch_that_needs_them() {
    let dir = tempfile::tempdir().unwrap();
    let source = super::fission::with_helpers(
        "kernel void f(device float* o, uint2 at [[thread_position_in_grid]]) {
         auto row = at.x; auto r0_index = at.y;
         threadgroup float shared[4];
         float value = r0_index;
         auto sum = c10::metal::threadgroup_sum(shared, value, r0_index * 1, 64);
         if (r0_index == 0) o[row] = sum; }",
    );
    let run = |module: &Module, threads| {
        let mut out = [0.0f32; 4];
        let kernel = module.compile("f").unwrap();
        assert!(kernel.loops());
        assert_eq!(kernel.static_threadgroup_memory, 16);
        Dispatch::new([4, threads, 1], [1, threads, 1]).arg(&mut out).run(&kernel);
        out
    };
    let module = Module::parse(&source, &counting_toolchain(dir.path())).unwrap();
    assert_eq!(run(&module, 64), [2016.0; 4]);
    let compiled = runs(dir.path());
    assert_eq!(compiled, 4, "--version, preprocessor, headers, loops");
    // The loops are for 64 threads; of more, the first 64 are summed up.
    for _ in 0..2 {
        assert_eq!(run(&module, 128), [2016.0; 4]);
        assert_eq!(runs(dir.path()), compiled + 1, "fibers, then from the cache");
    }
}

#[test]
fn kernels_of_the_checked_mode_are_others() {
    let dir = tempfile::tempdir().unwrap();
    let (fast, checked) = (toolchain_at(dir.path()), checked_toolchain_at(dir.path()));
    for _ in 0..2 {
        let module = Module::parse(&source(8), &fast).unwrap();
        assert_eq!(module.compile("f").unwrap().mode, LaunchMode::Plain);
        let module = Module::parse(&source(8), &checked).unwrap();
        assert_eq!(module.compile("f").unwrap().mode, LaunchMode::Fibers);
        assert_eq!(run(&module), 8);
    }
    let names = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name());
    let libraries = names.filter(|name| name.to_string_lossy().ends_with(".so"));
    assert_eq!(libraries.count(), 2);
}

#[test]
fn damaged_entries_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let toolchain = counting_toolchain(dir.path());
    assert_eq!(run(&Module::parse(&source(5), &toolchain).unwrap()), 5);
    for entry in std::fs::read_dir(dir.path().join("cache")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.truncate(bytes.len() / 2);
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let again = counting_toolchain(dir.path());
    let before = runs(dir.path());
    assert_eq!(run(&Module::parse(&source(5), &again).unwrap()), 5);
    let after = runs(dir.path());
    assert_eq!(after, before + 3, "preprocessor, compiler with the damaged headers, compiler");
    assert_eq!(run(&Module::parse(&source(5), &again).unwrap()), 5);
    assert_eq!(runs(dir.path()), after);
}

#[test]
fn without_a_cache_everything_still_works() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("cache"), b"a file, not a directory").unwrap();
    let toolchain = counting_toolchain(dir.path());
    let module = Module::parse(&source(6), &toolchain).unwrap();
    assert_eq!(run(&module), 6);
    assert_eq!(run(&module), 6);
}

#[test]
fn many_threads_share_a_cache() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // A toolchain of its own: as another process would.
                let toolchain = counting_toolchain_existing(dir.path());
                for constant in [1, 2] {
                    assert_eq!(
                        run(&Module::parse(&source(constant), &toolchain).unwrap()),
                        constant
                    );
                }
            });
        }
    });
    let left = std::fs::read_dir(dir.path().join("cache")).unwrap();
    let hidden =
        left.filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0, "no temporary files");
}

fn counting_toolchain_existing(dir: &Path) -> Arc<Toolchain> {
    let search = Search { path: std::env::var_os("PATH"), ..Search::default() };
    Toolchain::find_with(&search, &dir.join("cache"), Flavor::Loops).unwrap()
}

#[test]
fn several_kernels_compile_at_once() {
    let source = with_header(
        "kernel void a(device int* o) { o[0] = 1; }\nkernel void b(device int* o) { o[0] = missing; }\n\
         kernel void c(device int* o) { o[0] = 3; }",
    );
    let module = module(&source);
    // The mistake is in one kernel; clang sees all of them.
    let module = module.unwrap();
    let results = compile_all(&[(&module, "a"), (&module, "zzz"), (&module, "c")], 2);
    assert!(results.iter().all(Result::is_err));
    assert!(results[1].as_ref().unwrap_err().to_string().contains("zzz"));
    let fine = Module::parse(&source.replace("missing", "2"), toolchain()).unwrap();
    let results = compile_all(&[(&fine, "a"), (&fine, "b"), (&fine, "c")], 2);
    let values: Vec<i32> = results
        .iter()
        .map(|native| {
            let mut out = [0];
            Dispatch::new([1, 1, 1], [1, 1, 1]).arg(&mut out).run(native.as_ref().unwrap());
            out[0]
        })
        .collect();
    assert_eq!(values, [1, 2, 3]);
}
