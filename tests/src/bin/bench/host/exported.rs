//! Models of `bench_models.py`, exported for this machine when they are measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use etmetal::runner::{HostTensor, LoadMode, Value};
use etmetal_tests::fixture::runtime;
use etmetal_tests::stage;

use crate::bench::Bench;
use crate::table::Row;

/// The model `name` on an input of the sizes `input`, against the same module in PyTorch.
///
/// # Errors
/// PyTorch is not installed, or the export or a run fails.
pub fn measure(bench: &mut Bench, name: &str, input: &[usize], target: f64) -> Result<Row> {
    ensure!(
        bench.has_pytorch(),
        "{name} is exported by PyTorch: set ETMETAL_PYTHON to one that has it"
    );
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let program = export(name, folder.path())?;
    let runtime = runtime();
    let module = runtime.load(&program, &[], LoadMode::default())?;
    let count: usize = input.iter().product();
    let numbers = (0..count).map(|i| (i % 251) as f32 / 251.0 - 0.5);
    let inputs = [Value::Tensor(HostTensor::from_elements(input.to_vec(), numbers)?)];
    let threads = bench.threads();
    let request = format!("module {} {name}", folder_of_models().display());
    let (ours, (peer, by)) = bench.race_peer(threads, &request, || {
        module.execute("forward", &inputs)?;
        Ok(())
    })?;
    Ok(Row::of_times(&format!("{name}, whole model"), ours, (peer, &by), target))
}

fn folder_of_models() -> PathBuf {
    stage::repository().join("tests/src/bin/bench/host")
}

/// Exports a model into `folder` and compares what it gives on the host device with PyTorch.
fn export(name: &str, folder: &Path) -> Result<PathBuf> {
    let python = std::env::var_os("ETMETAL_PYTHON").context("ETMETAL_PYTHON is not set")?;
    let program = folder.join(format!("{name}.pte"));
    let paths = [stage::repository().join("python/src"), folder_of_models()];
    let output = Command::new(&python)
        .args(["-m", "etmetal.export", "--target", "host", "--check", "--out"])
        .arg(&program)
        .arg(format!("bench_models:{name}"))
        .env("PYTHONPATH", std::env::join_paths(paths)?)
        .env("ETMETAL_LIB", stage::library())
        .output()
        .with_context(|| format!("cannot start {}", python.display()))?;
    let said = stage::text(&output);
    ensure!(output.status.success(), "{name} cannot be exported:\n{said}");
    Ok(program)
}
