//! `etmetal profile`: where the time of a model goes.

mod events;
mod summary;
mod table;
mod trace;

use std::path::{Path, PathBuf};

use etmetal::runner::{LoadMode, Module, Runtime};
use etmetal::{Error, Result};

use crate::Outcome;
use crate::call::{self, Call};
use crate::inputs::Files;
use crate::output;
use events::{Mark, Profile};
use summary::Summary;
use trace::TraceFile;

#[derive(clap::Args)]
pub struct Arguments {
    /// The program (.pte), or a folder with model.pte and inputN.npy
    model: PathBuf,

    /// The method to run [default: forward, or the only one]
    #[arg(long)]
    method: Option<String>,

    /// A .npy file for each input, in order; without any, inputs are made at random. Floating
    /// point numbers are converted to the method's dtype
    #[arg(long = "input", value_name = "FILE")]
    inputs: Vec<PathBuf>,

    /// Weights that lie outside the program (.ptd)
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,

    /// Runs that are recorded
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Runs before those, which are not recorded
    #[arg(long, default_value_t = 1)]
    warmup: u32,

    /// Write the trace, in Chrome's trace event format, to this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Threads of the host device [default: one for each core]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,

    /// Seed of inputs made at random
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// Anything that keeps the method from being run to its end, or the trace from being written.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let files = Files::find(&arguments.model, &arguments.inputs, &[])?;
    let call = Call::prepare(&files, arguments.method.as_deref(), arguments.seed)?;
    let trace = arguments.trace.as_deref().map(TraceFile::create).transpose()?;
    call::limit_threads(arguments.threads);
    let runtime = call::open_runtime()?;
    // For the name of the device.
    runtime.enable_stats(true);
    let marks = record(&runtime, &files.model, &call, arguments)?;
    let profile = Profile::read(&runtime.profile_json(), marks)?;
    let device = device_name(&runtime.stats_json())?;
    let summary = Summary::of(&profile, files.model.display().to_string(), &call.method, device);
    if let Some(trace) = trace {
        trace.write(&profile, &summary)?;
    }
    if arguments.json {
        output::print_json(&summary)?;
    } else {
        output::print(table::text(&summary, arguments.trace.as_deref()).trim_end())?;
    }
    Ok(Outcome::Success)
}

/// Loads and runs the method while the delegate records; gives when what was done here.
fn record(
    runtime: &Runtime,
    model: &Path,
    call: &Call,
    arguments: &Arguments,
) -> Result<Vec<Mark>> {
    let mut marks = Vec::new();
    runtime.enable_profile(true);
    let module = marked(runtime, &mut marks, "load".into(), || {
        let module = runtime.load(model, &arguments.data, LoadMode::Mmap)?;
        module.load_method(&call.method)?;
        Ok(module)
    })?;
    let inputs = call.values();
    let execute = |module: &Module| module.execute(&call.method, &inputs).map(drop);
    runtime.enable_profile(false);
    for _ in 0..arguments.warmup {
        execute(&module)?;
    }
    runtime.enable_profile(true);
    for run in 0..arguments.runs {
        marked(runtime, &mut marks, format!("run {run}"), || execute(&module))?;
    }
    runtime.enable_profile(false);
    Ok(marks)
}

/// Notes when `work` was done, by the delegate's clock.
fn marked<T>(
    runtime: &Runtime,
    marks: &mut Vec<Mark>,
    name: String,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let start = runtime.profile_now();
    let result = work();
    let duration = runtime.profile_now().saturating_sub(start);
    marks.push(Mark { name, start, duration });
    result
}

/// The devices that the delegate used, for people.
fn device_name(stats: &str) -> Result<String> {
    let stats: serde_json::Value = serde_json::from_str(stats)
        .map_err(|e| Error::Internal(format!("the statistics are no JSON: {e}")))?;
    let devices = stats["devices"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |device: &serde_json::Value| {
        let text = |key: &str| device[key].as_str().unwrap_or("unknown").to_owned();
        format!("{}: {}", text("kind"), text("name"))
    };
    Ok(devices.iter().map(name).collect::<Vec<_>>().join(", "))
}
