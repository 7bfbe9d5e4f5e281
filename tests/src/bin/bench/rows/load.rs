//! The time of a load up to the first result, in a fresh process.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use etmetal_tests::fixture::{Fixture, runtime};

use crate::LOAD_ONCE;
use crate::clock;
use crate::table::Row;

/// Prints the milliseconds from opening `mlp` to its first result.
pub fn once() -> Result<()> {
    let fixture = Fixture::read("mlp");
    let runtime = runtime();
    let start = Instant::now();
    fixture.check(&fixture.load(&runtime));
    println!("{}", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

/// Load of `mlp` up to its first result, with an empty kernel cache and with a full one.
pub fn measure() -> Result<Vec<Row>> {
    let cache = tempfile::tempdir()?;
    let time = |rounds| -> Result<f64> {
        let mut best = f64::MAX;
        for _ in 0..rounds {
            let output = Command::new(std::env::current_exe()?)
                .arg(LOAD_ONCE)
                .env("ETMETAL_CACHE", cache.path())
                .output()
                .context("cannot start this program again")?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            best = best.min(String::from_utf8(output.stdout)?.trim().parse()?);
        }
        Ok(best)
    };
    let cold = time(1)?;
    let warm = time(10)?;
    let row = |what: &str, ours: f64, peer: f64, peer_name: &str, target| Row {
        what: what.into(),
        ours: format!("{ours:.1} ms"),
        peer: format!("{peer_name} {peer:.1} ms"),
        ratio: peer / ours,
        target,
    };
    let compile = compile_once()?;
    Ok(vec![
        row("mlp, cold load and first run", cold, compile, "clang alone, one kernel", 0.0),
        row("mlp, warm load and first run", warm, 20.0, "bound", 1.0),
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
