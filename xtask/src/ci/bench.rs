//! `cargo xtask bench --suite ci`: how long people wait for `cargo xtask ci`. It measures this
//! program as it was built, and asserts nothing.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::matrix::Matrix;
use super::triage::flaky::Flaky;
use super::triage::{Input, Inputs, triage};

/// Prints a table of times with their targets.
///
/// # Errors
/// A part gave a wrong result.
pub fn measure() -> Result<()> {
    let rows = [
        ("10,000 combinations, 20 includes, 20 excludes", expansion()?, 50),
        ("triage of a 50 MB log with 3 failures", log(&quiet_log())?, 1000),
        ("triage of a 50 MB log of passing tests", log(&busy_log())?, 1000),
    ];
    println!("{:48}  {:>9}  {:>9}  {:>9}", "what", "time", "processor", "target");
    for (what, (time, processor), target) in rows {
        let [time, processor] = [time, processor].map(|time| time.as_secs_f64() * 1e3);
        println!("{what:48}  {time:6.1} ms  {processor:6.1} ms  {target:6} ms");
    }
    Ok(())
}

/// The time of the shortest of five runs, and that which the processor spent on it: where others use
/// the machine too, the first is longer.
fn best(mut work: impl FnMut() -> Result<()>) -> Result<(Duration, Duration)> {
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        let (start, processor) = (Instant::now(), processor_time()?);
        work()?;
        best = best.min((start.elapsed(), processor_time()?.saturating_sub(processor)));
    }
    Ok(best)
}

fn processor_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::ProcessCPUTime).try_into()?)
}

fn expansion() -> Result<(Duration, Duration)> {
    let axis = |name: &str| {
        let values = (0..10).map(|n| Value::from(format!("{name}{n}"))).collect();
        (name.to_owned(), values)
    };
    let entry = |value: Value| value.as_object().cloned().unwrap_or_default();
    let matrix = Matrix {
        axes: ["a", "b", "c", "d"].map(axis).to_vec(),
        include: (0..20).map(|n| entry(json!({ "a": format!("a{}", n % 10), "x": n }))).collect(),
        exclude: (0..20)
            .map(|n| entry(json!({ "b": format!("b{n}"), "c": format!("c{n}"), "d": "d1" })))
            .collect(),
    };
    best(|| {
        let expansion = matrix.expand()?;
        ensure!(expansion.combinations.len() == 9900, "{}", expansion.combinations.len());
        Ok(())
    })
}

fn log(log: &str) -> Result<(Duration, Duration)> {
    let input = Input { name: "job.log".to_owned(), bytes: log.as_bytes().to_vec() };
    let inputs = Inputs { logs: vec![input], ..Inputs::default() };
    let expected = log.matches(" ... FAILED\n").count();
    best(|| {
        let failures = triage(&inputs, &Flaky::default())?;
        ensure!(failures.len() == expected, "{} failures, not {expected}", failures.len());
        Ok(())
    })
}

const SIZE: usize = 50_000_000;

const FAILURE: &str = "2026-11-30T07:24:03.1234567Z test ops::a_test_NUMBER ... FAILED\n";

/// Mostly the lines of compilers, with colours.
fn quiet_log() -> String {
    let line = "2026-11-30T07:24:03.1234567Z \u{1b}[1m\u{1b}[92m   Compiling\u{1b}[0m \
                etmetal-shaders v0.1.0 (/home/runner/work/etmetal/etmetal/runtime/shaders)\n";
    fill(line)
}

/// Every line is one that a rule looks at.
fn busy_log() -> String {
    fill("2026-11-30T07:24:03.1234567Z test device::host::graph::tests::case_NUMBER ... ok\n")
}

fn fill(line: &str) -> String {
    let mut log = String::with_capacity(SIZE + 200);
    let mut failures = 0;
    for number in 0.. {
        log.push_str(&line.replace("NUMBER", &number.to_string()));
        if log.len() > SIZE / 3 * (failures + 1) {
            log.push_str(&FAILURE.replace("NUMBER", &number.to_string()));
            failures += 1;
        }
        if log.len() >= SIZE {
            break;
        }
    }
    log
}
