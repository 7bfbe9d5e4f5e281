//! The time of a load up to the first result, in a fresh process.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use etmetal_tests::fixture::{Fixture, runtime};

use crate::LOAD_ONCE;
use crate::clock;
use crate::table::Row;

/// Prints the milliseconds of loading the fixture `name`, and those up to its first result.
pub fn once(name: &str) -> Result<()> {
    let fixture = Fixture::read(name);
    let runtime = runtime();
    let start = Instant::now();
    let module = fixture.load(&runtime);
    let loaded = start.elapsed();
    fixture.check(&module);
    println!("{} {}", loaded.as_secs_f64() * 1e3, start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

/// Milliseconds of loading a model in a fresh process, up to its first result.
pub struct Times {
    /// With an empty kernel cache.
    pub cold: f64,
    /// With a full one; the load alone and up to the result.
    pub warm: f64,
    pub warm_run: f64,
}

/// Measures the loads of the fixture `name`.
pub fn times(name: &str) -> Result<Times> {
    let cache = tempfile::tempdir()?;
    let time = |rounds| -> Result<(f64, f64)> {
        let mut best = (f64::MAX, f64::MAX);
        for _ in 0..rounds {
            let output = Command::new(std::env::current_exe()?)
                .args([LOAD_ONCE, name])
                .env("ETMETAL_CACHE", cache.path())
                .output()
                .context("cannot start this program again")?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout)?;
            let (load, run) = text.trim().split_once(' ').context("no times")?;
            best = (best.0.min(load.parse()?), best.1.min(run.parse()?));
        }
        Ok(best)
    };
    let (_, cold) = time(1)?;
    let (warm, warm_run) = time(10)?;
    Ok(Times { cold, warm, warm_run })
}

/// A row of milliseconds.
pub fn row(what: &str, ours: f64, (peer, name): (f64, &str), target: f64) -> Row {
    Row {
        what: what.into(),
        ours: format!("{ours:.1} ms"),
        peer: format!("{name} {peer:.1} ms"),
        ratio: peer / ours,
        target,
    }
}

/// Load of `mlp` up to its first result, with an empty kernel cache and with a full one.
pub fn measure() -> Result<Vec<Row>> {
    let times = times("mlp")?;
    let alone = (compile_once()?, "clang alone, one kernel");
    Ok(vec![
        row("mlp, cold load and first run", times.cold, alone, 0.0),
        row("mlp, warm load and first run", times.warm_run, (20.0, "bound"), 1.0),
    ])
}

/// Milliseconds of compiling one small C++ file with the compiler of the staged build.
fn compile_once() -> Result<f64> {
    let list = etmetal_tests::stage::stage().join("lib/etmetal/msl-compiler");
    let words = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let mut words = words.lines();
    let compiler = PathBuf::from(words.next().context("no compiler in the stage")?);
    let dir = tempfile::tempdir()?;
    let source = dir.path().join("one.cpp");
    std::fs::write(
        &source,
        "extern \"C\" void f(float* a) { for (int i = 0; i < 9; i++) a[i] += 1; }",
    )?;
    let rest: Vec<&str> = words.collect();
    let time = clock::best(3, &mut || -> Result<()> {
        let status = Command::new(&compiler)
            .args(&rest)
            .args(["-O3", "-fPIC", "-c", "-o"])
            .arg(dir.path().join("one.o"))
            .arg(&source)
            .status()?;
        ensure!(status.success(), "the staged compiler fails");
        Ok(())
    })?;
    Ok(time.as_secs_f64() * 1e3)
}
