use super::flaky::tests::day;
use super::*;

fn input(name: &str) -> Input {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/triage").join(name);
    Input { name: name.to_owned(), ..Input::read(&path).unwrap() }
}

fn no_flaky() -> Flaky {
    Flaky::parse("", day(1)).unwrap()
}

fn of_logs(names: &[&str]) -> Vec<Failure> {
    let inputs =
        Inputs { logs: names.iter().map(|name| input(name)).collect(), ..Inputs::default() };
    triage(&inputs, &no_flaky()).unwrap()
}

/// One line a failure.
fn shown(failures: &[Failure]) -> String {
    let line = |f: &Failure| {
        let what = f.test.as_deref().unwrap_or(&f.found_by);
        let place = f.place.as_deref().map_or(String::new(), |place| format!(" at {place}"));
        let more = if f.more > 0 { format!(" +{}", f.more) } else { String::new() };
        format!("{:?} {} | {what} | {}{place}{more} | {}\n", f.class, f.job, f.error, f.source)
    };
    failures.iter().map(line).collect()
}

fn log(name: &str) -> String {
    shown(&of_logs(&[name]))
}

#[test]
fn rust() {
    insta::assert_snapshot!(log("cargo-test.log"), @r#"
    New test/linux-x64 | tests::matmul::rows_are_summed | assertion `left == right` failed: row 3 of out at src/lib.rs:4:40 | cargo-test.log:45
    New test/linux-x64 | tests::matmul::shapes_are_checked | called `Result::unwrap()` on an `Err` value: "gather: index 9 is outside of 0..8" at src/lib.rs:6:177 | cargo-test.log:53
    "#);
    insta::assert_snapshot!(log("rustc.log"), @"New lint/linux-x64 | rustc | error[E0308]: mismatched types at src/lib.rs:2:34 +1 | rustc.log:32");
    insta::assert_snapshot!(log("crash.log"), @"New test/linux-x64 | cargo test | (signal: 11, SIGSEGV: invalid memory reference) | crash.log:39");
    insta::assert_snapshot!(log("nextest.log"), @"
    New nextest | etmetal::models mlp_is_right | mlp: output 0, element 3: 0.25 is not 0.5 at tests/tests/models.rs:41:5 | nextest.log:17
    New nextest | etmetal device::tests::a_null_buffer_is_refused | it failed | nextest.log:20
    Flaky nextest | etmetal stream::tests::a_wait_ends | no answer in 100 ms at runtime/src/stream.rs:77:9 | nextest.log:9
    ");
    insta::assert_snapshot!(log("sanitizer.log"), @"New unit/linux-x64 | sanitizer | AddressSanitizer: heap-buffer-overflow on address 0x602000000118 at pc 0x55d1c0a1 bp 0x7ffd2 sp 0x7ffc8 | sanitizer.log:32");
}

#[test]
fn native_builds() {
    insta::assert_snapshot!(log("cmake.log"), @r#"New unit/linux-arm64/metal | CMake | Could not find a package configuration file provided by "executorch" with at CMakeLists.txt:4 | cmake.log:37"#);
    insta::assert_snapshot!(log("ninja.log"), @"New unit/linux-arm64/metal | compiler | no viable conversion from 'int' to 'std::string' (aka 'basic_string<char>') at /home/runner/work/etmetal/etmetal/runtime/glue.cpp:3:15 +1 | ninja.log:36");
    insta::assert_snapshot!(log("ctest.log"), @"
    New test/linux-x64 | consumer | Failed | ctest.log:33
    New test/linux-x64 | crash | Exception: SegFault | ctest.log:39
    New test/linux-x64 | hangs | Timeout | ctest.log:42
    ");
    insta::assert_snapshot!(log("linker.log"), @"New unit/linux-arm64/metal | linker | undefined symbol: missing(int) +1 | linker.log:31");
}

#[test]
fn python() {
    insta::assert_snapshot!(log("pytest.log"), @"
    New python/linux-x64/metal/3.12 | tests/test_export.py::test_shapes | AssertionError: assert [1, 2] == [... | pytest.log:38
    New python/linux-x64/metal/3.12 | tests/test_export.py::test_model | OSError: no model.pte | pytest.log:44
    Flaky python/linux-x64/metal/3.12 | tests/test_export.py::test_flaky | it failed | pytest.log:40
    ");
}

#[test]
fn infrastructure_explains_what_comes_of_it() {
    insta::assert_snapshot!(log("shutdown.log"), @"Infrastructure test/linux-x64 | the runner was shut down | The runner has received a shutdown signal. This can happen when the runner service is stopped, or a manually started runner is canceled. | shutdown.log:35");
    insta::assert_snapshot!(log("disk.log"), @"Infrastructure test/linux-x64 | disk | error: failed to write to `target/checked/deps/rmetaXyZ/full.rmeta`: No space left on device (os error 28) | disk.log:32");
    insta::assert_snapshot!(log("network.log"), @"Infrastructure lint/linux-x64 | network | [6] Could not resolve hostname (Could not resolve host: index.example.org) | network.log:44");
    insta::assert_snapshot!(log("apt.log"), @"Infrastructure test/linux-x64 | network | Temporary failure resolving 'archive.example.org' | apt.log:32");
    insta::assert_snapshot!(log("no-log.log"), @"Infrastructure no-log | no log | the log is empty | no-log.log:1");
    insta::assert_snapshot!(log("cut.log"), @"Infrastructure test/linux-x64 | no log | the log ends before the job does | cut.log:1");
    insta::assert_snapshot!(log("gitlab-system.log"), @"Infrastructure gitlab-system | the runner failed | ERROR: Job failed (system failure): aborted: terminated | gitlab-system.log:6");
}

#[test]
fn cancelled_is_no_failure_but_a_timeout_is() {
    insta::assert_snapshot!(log("cancelled.log"), @"Cancelled test/linux-x64 | cancelled | The operation was canceled. | cancelled.log:37");
    insta::assert_snapshot!(log("gitlab-cancelled.log"), @"Cancelled gitlab-cancelled | cancelled | ERROR: Job failed: canceled | gitlab-cancelled.log:6");
    insta::assert_snapshot!(log("timeout.log"), @"New test/linux-x64 | timeout | The job has exceeded the maximum execution time of 1h30m0s | timeout.log:32");
}

#[test]
fn what_passed_has_no_failures_whatever_it_wrote() {
    assert_eq!(log("passed.log"), "");
    assert_eq!(log("gitlab-passed.log"), "");
}

#[test]
fn logs_of_gitlab_and_of_several_jobs() {
    insta::assert_snapshot!(log("gitlab.log"), @"New gitlab | rustfmt | Diff in /builds/etmetal/etmetal/runtime/src/lib.rs:12: at /builds/etmetal/etmetal/runtime/src/lib.rs | gitlab.log:5");
    insta::assert_snapshot!(log("several-jobs.log"), @r#"
    New lint/linux-x64 | rustfmt | Diff in /home/runner/work/etmetal/etmetal/xtask/src/main.rs:7: at /home/runner/work/etmetal/etmetal/xtask/src/main.rs | several-jobs.log:7
    New test/linux-x64 | tests::matmul::rows_are_summed | assertion `left == right` failed: row 3 of out at src/lib.rs:4:40 | several-jobs.log:31
    New test/linux-x64 | tests::matmul::shapes_are_checked | called `Result::unwrap()` on an `Err` value: "gather: index 9 is outside of 0..8" at src/lib.rs:6:177 | several-jobs.log:39
    Infrastructure bench/linux-x64/metal | the runner failed | The hosted runner encountered an error while running your job. (Error Type: Disconnect). | several-jobs.log:59
    "#);
}

#[test]
fn what_the_base_has_too_is_a_broken_trunk() {
    let inputs = Inputs {
        logs: vec![input("cargo-test.log"), input("cmake.log")],
        base: vec![input("base.log"), input("cmake.log")],
        ..Inputs::default()
    };
    insta::assert_snapshot!(shown(&triage(&inputs, &no_flaky()).unwrap()), @r#"
    New test/linux-x64 | tests::matmul::shapes_are_checked | called `Result::unwrap()` on an `Err` value: "gather: index 9 is outside of 0..8" at src/lib.rs:6:177 | cargo-test.log:53
    BrokenTrunk test/linux-x64 | tests::matmul::rows_are_summed | assertion `left == right` failed: row 3 of out at src/lib.rs:4:40 | cargo-test.log:45
    BrokenTrunk unit/linux-arm64/metal | CMake | Could not find a package configuration file provided by "executorch" with at CMakeLists.txt:4 | cmake.log:37
    "#);
    let inputs = Inputs {
        junit: vec![input("pytest.xml")],
        base: vec![input("pytest.xml")],
        ..Inputs::default()
    };
    let failures = triage(&inputs, &no_flaky()).unwrap();
    assert!(failures.iter().all(|failure| failure.class == Class::BrokenTrunk), "{failures:?}");
}

#[test]
fn what_passes_in_a_later_attempt_is_flaky() {
    let failures = of_logs(&["cargo-test.log", "cargo-test-attempt-2.log"]);
    insta::assert_snapshot!(shown(&failures), @r#"
    New test/linux-x64 | tests::matmul::rows_are_summed | assertion `left == right` failed: row 3 of out at src/lib.rs:4:40 | cargo-test.log:45
    Flaky test/linux-x64 | tests::matmul::shapes_are_checked | called `Result::unwrap()` on an `Err` value: "gather: index 9 is outside of 0..8" at src/lib.rs:6:177 | cargo-test.log:53
    "#);
}

#[test]
fn what_a_rule_knows_is_flaky() {
    let rules = "[[rule]]\ntest = \"*::shapes_*\"\nreason = \"a race\"\nuntil = 2026-11-30\n\
                 [[rule]]\njob = \"unit/*\"\nmessage = \"find_package\"\nreason = \"r\"\n\
                 until = 2026-11-30\n";
    let flaky = Flaky::parse(rules, day(30)).unwrap();
    let inputs = Inputs { logs: vec![input("cargo-test.log")], ..Inputs::default() };
    let failures = triage(&inputs, &flaky).unwrap();
    let classes: Vec<_> = failures.iter().map(|failure| failure.class).collect();
    assert_eq!(classes, [Class::New, Class::Flaky]);
    assert_eq!(failures[1].reason, "ci/flaky.toml: a race");
}

#[test]
fn results_of_test_runners() {
    let of = |names: &[&str]| {
        let inputs =
            Inputs { junit: names.iter().map(|n| input(n)).collect(), ..Inputs::default() };
        shown(&triage(&inputs, &no_flaky()).unwrap())
    };
    insta::assert_snapshot!(of(&["pytest.xml"]), @r#"
    New pytest | tests.test_export::test_model | failed on setup with "OSError: no model.pte" | pytest.xml
    New pytest | tests.test_export::test_shapes | AssertionError: assert [1, 2] == [1, 3] | pytest.xml
    "#);
    insta::assert_snapshot!(of(&["nextest.xml"]), @"
    New nextest | etmetal::models::mlp_is_right | thread 'mlp_is_right' panicked at tests/tests/models.rs:41:5 | nextest.xml
    Flaky nextest | etmetal::stream::tests::a_wait_ends | it failed at first | nextest.xml
    ");
    let inputs = Inputs { junit: vec![input("cmake.log")], ..Inputs::default() };
    let error = triage(&inputs, &no_flaky()).unwrap_err();
    assert_eq!(
        format!("{error:#}").split(": ").take(2).collect::<Vec<_>>().join(": "),
        "cmake.log: it is not XML"
    );
}

#[test]
fn the_summary_is_markdown() {
    let inputs = Inputs {
        logs: vec![input("cargo-test.log"), input("network.log"), input("rustc.log")],
        base: vec![input("base.log")],
        ..Inputs::default()
    };
    let failures = triage(&inputs, &no_flaky()).unwrap();
    let notes = ["ci/flaky.toml: rule 2 ended on 2026-11-10: a race".to_owned()];
    insta::assert_snapshot!(report::markdown(&failures, &notes), @r#"
    ## 2 new failures

    ### New failures (2)

    - **test/linux-x64** `tests::matmul::shapes_are_checked`: `` called `Result::unwrap()` on an `Err` value: "gather: index 9 is outside of 0..8" `` at `src/lib.rs:6:177` (cargo-test.log:53)
      <details><summary>log</summary>

      ~~~text
      thread 'tests::matmul::shapes_are_checked' (2640) panicked at src/lib.rs:6:177:
      called `Result::unwrap()` on an `Err` value: "gather: index 9 is outside of 0..8"


      failures:
          tests::matmul::rows_are_summed
          tests::matmul::shapes_are_checked

      test result: FAILED. 2 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

      error: test failed, to rerun pass `--lib`
      ##[error]Process completed with exit code 101.
      ~~~

      </details>
    - **lint/linux-x64** `rustc`: `error[E0308]: mismatched types` at `src/lib.rs:2:34`, and 1 more error (rustc.log:32)
      <details><summary>log</summary>

      ~~~text
      error[E0308]: mismatched types
       --> src/lib.rs:2:34
        |
      2 | pub fn f() -> u32 { let n: u32 = "1"; missing(n) }
        |                            ---   ^^^ expected `u32`, found `&str`
        |                            |
        |                            expected due to this

      error[E0425]: cannot find function `missing` in this scope
       --> src/lib.rs:2:39
        |
      2 | pub fn f() -> u32 { let n: u32 = "1"; missing(n) }
      ~~~

      </details>

    ### Also on the base revision (1)

    - **test/linux-x64** `tests::matmul::rows_are_summed`: `` assertion `left == right` failed: row 3 of out `` at `src/lib.rs:4:40` (cargo-test.log:45; the base revision fails in the same way)

    ### Infrastructure (1)

    - **lint/linux-x64** `network`: `[6] Could not resolve hostname (Could not resolve host: index.example.org)` (network.log:44; network)

    > ci/flaky.toml: rule 2 ended on 2026-11-10: a race
    "#);
    assert_eq!(report::markdown(&[], &[]), "## Nothing failed\n");
    let json: serde_json::Value =
        serde_json::from_str(&report::json(&failures, &notes).unwrap()).unwrap();
    assert_eq!(json["counts"]["new"], 2);
    assert_eq!(json["counts"]["broken-trunk"], 1);
    assert_eq!(json["failures"][3]["class"], "infrastructure");
}

#[test]
fn a_log_cannot_write_into_the_summary() {
    let mut failure = of_logs(&["cmake.log"]).remove(0);
    failure.job = "a*b_<img>".to_owned();
    failure.error = "x ` y\n# z".to_owned();
    failure.excerpt = vec!["~~~".to_owned(), "</details>".to_owned()];
    let text = report::markdown(&[failure], &[]);
    assert!(text.contains("a\\*b\\_&lt;img>"), "{text}");
    assert!(text.contains("`` x ` y # z ``"), "{text}");
    assert_eq!(text.matches("~~~").count(), 2, "{text}");
}
