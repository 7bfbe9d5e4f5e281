//! `etmetal run`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use etmetal::error::Context;
use etmetal::runner::{Comparison, HostTensor, LoadMode, Module, Tolerance, Value, compare, npy};
use etmetal::{Error, Result};
use serde::Serialize;

use crate::Outcome;
use crate::call::{self, Call};
use crate::inputs::{Files, Input};
use crate::leftover::{self, Leftover};
use crate::output::{self, Style, duration_text, error_text};

/// Turns on the checked mode of the host device.
const CHECKED_VARIABLE: &str = "ETMETAL_CHECKED";

#[derive(clap::Args)]
pub struct Arguments {
    /// The program (.pte), or a folder with model.pte, inputN.npy and outputN.npy
    model: PathBuf,

    /// The method to run [default: forward, or the only one]
    #[arg(long)]
    pub method: Option<String>,

    /// A .npy file for each input, in order; without any, inputs are made at random. Floating
    /// point numbers are converted to the method's dtype
    #[arg(long = "input", value_name = "FILE")]
    inputs: Vec<PathBuf>,

    /// A .npy file for each output, in order, to compare with
    #[arg(long = "expect", value_name = "FILE")]
    expected: Vec<PathBuf>,

    /// Weights that lie outside the program (.ptd)
    #[arg(long, value_name = "FILE")]
    pub data: Vec<PathBuf>,

    /// Allowed error relative to the expected value [default: by dtype; float32 1e-4, float16
    /// 1e-2, bfloat16 2e-2, integers 0]
    #[arg(long, value_parser = tolerance)]
    rtol: Option<f64>,

    /// Allowed absolute error [default: by dtype; float32 1e-5, float16 1e-2, bfloat16 2e-2,
    /// integers 0]
    #[arg(long, value_parser = tolerance)]
    atol: Option<f64>,

    /// Execute so many times and tell the times; the first outputs are those compared
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Threads of the host device [default: one for each core]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,

    /// Seed of inputs made at random
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Write the outputs to outputN.npy in this folder
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,

    /// Tell the delegate's statistics
    #[arg(long)]
    stats: bool,

    /// Tell what the model has left behind once it is destroyed; anything is a failure
    #[arg(long)]
    track: bool,

    /// Check every load and store of the shaders that run on the host device: outside of an
    /// argument or of threadgroup memory, or without a barrier between threads. The first that
    /// must not be ends the run with its place in the shader. Many times slower
    #[arg(long)]
    checked: bool,

    /// Do each command on a second device too, on the same data, and tell where they differ: of
    /// the Metal device with the host device, or of the host device with one that checks each
    /// access of a shader
    #[arg(
        long,
        value_name = "DEVICE",
        value_parser = ["metal", "host"],
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "metal",
        conflicts_with_all = ["expected", "repeat", "save", "stats", "track", "checked"]
    )]
    compare: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What a run gave. Its JSON is the command's with `--json`; numbers JSON cannot write, infinite
/// errors for instance, are null there.
#[derive(Serialize)]
struct Report {
    model: String,
    method: String,
    executorch: String,
    inputs: Vec<InputReport>,
    outputs: Vec<OutputReport>,
    /// Absent if nothing was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_error: Option<f64>,
    load_seconds: f64,
    run_seconds: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<serde_json::Value>,
    /// What was lent to the model and not given back.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_behind: Option<Vec<Leftover>>,
}

#[derive(Serialize)]
struct InputReport {
    what: String,
    source: String,
}

#[derive(Serialize)]
struct OutputReport {
    dtype: String,
    shape: Vec<usize>,
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<ComparisonReport>,
}

/// What the values of an output are like.
#[derive(Serialize)]
struct Summary {
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    not_finite: usize,
}

#[derive(Serialize)]
pub struct ComparisonReport {
    pub pass: bool,
    max_abs_error: f64,
    max_rel_error: f64,
    out_of_tolerance: usize,
    rtol: f64,
    atol: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<Worst>,
}

#[derive(Serialize)]
struct Worst {
    index: Vec<usize>,
    actual: f64,
    expected: f64,
}

/// Runs the command.
///
/// # Errors
/// Anything that keeps the method from being run to its end.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let files = Files::find(&arguments.model, &arguments.inputs, &arguments.expected)?;
    if let Some(device) = &arguments.compare {
        return crate::compare::run(arguments, &files, device);
    }
    let report = execute(arguments, &files)?;
    if arguments.json {
        output::print_json(&report)?;
    } else {
        output::print(report.text(Style::of(&std::io::stdout())).trim_end())?;
    }
    let leaks = report.left_behind.as_ref().is_some_and(|left| !left.is_empty());
    let failed = report.pass == Some(false) || leaks;
    Ok(if failed { Outcome::Failure } else { Outcome::Success })
}

/// Does everything: checks what can be checked first, then loads, runs and compares.
fn execute(arguments: &Arguments, files: &Files) -> Result<Report> {
    let model = files.model.display().to_string();
    let call = Call::prepare(files, arguments.method.as_deref(), arguments.seed)?;
    let made_up = files.inputs.is_empty() && call.takes_tensors();
    if made_up && !files.expected.is_empty() {
        return Err(Error::InvalidArgument(
            "outputs are expected but no inputs are given, and for inputs made at random nobody \
             knows the outputs: name the inputs with --input"
                .into(),
        ));
    }
    let expected = read_expected(&files.expected, call.output_count)?;
    call::limit_threads(arguments.threads);
    if arguments.checked {
        // SAFETY: this program has no other thread yet.
        unsafe { std::env::set_var(CHECKED_VARIABLE, "1") };
    }
    let runtime = call::open_runtime()?;
    if arguments.stats {
        runtime.enable_stats(true);
    }
    if arguments.track {
        runtime.enable_tracking(true);
    }
    let started = Instant::now();
    let module = runtime.load(&files.model, &arguments.data, LoadMode::Mmap)?;
    module.load_method(&call.method)?;
    let load_seconds = started.elapsed().as_secs_f64();

    let (outputs, run_seconds) = execute_repeatedly(&module, &call, arguments.repeat)?;
    if let Some(folder) = &arguments.save {
        save(folder, &outputs)?;
    }

    let outputs = report_outputs(&outputs, &expected, arguments)?;
    let compared = || outputs.iter().filter_map(|o| o.comparison.as_ref());
    let stats = arguments.stats.then(|| serde_json::from_str(&runtime.stats_json()));
    drop(module);
    let left_behind = arguments.track.then(|| leftover::of(&runtime)).transpose()?;
    Ok(Report {
        model,
        executorch: runtime.executorch_version(),
        inputs: call.inputs.iter().map(InputReport::new).collect(),
        method: call.method,
        pass: (!expected.is_empty()).then(|| compared().all(|c| c.pass)),
        max_error: (!expected.is_empty())
            .then(|| compared().map(|c| c.max_abs_error).fold(0.0, f64::max)),
        load_seconds,
        run_seconds,
        stats: stats
            .transpose()
            .map_err(|e| Error::Internal(format!("the statistics are no JSON: {e}")))?,
        left_behind,
        outputs,
    })
}

/// A tolerance that can fail: NaN and infinity would pass anything.
fn tolerance(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("a tolerance is a finite number, 0 or more".to_owned()),
    }
}

fn read_expected(files: &[PathBuf], outputs: usize) -> Result<Vec<HostTensor>> {
    if !files.is_empty() && files.len() != outputs {
        return Err(Error::InvalidArgument(format!(
            "{} expected outputs given, the method gives {outputs}",
            files.len()
        )));
    }
    files.iter().map(|file| npy::read(file)).collect()
}

/// The outputs of the first execution, and the time that each took.
fn execute_repeatedly(module: &Module, call: &Call, count: u32) -> Result<(Vec<Value>, Vec<f64>)> {
    let inputs = call.values();
    let mut first = None;
    let mut seconds = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        let outputs = module.execute(&call.method, &inputs)?;
        seconds.push(started.elapsed().as_secs_f64());
        first.get_or_insert(outputs);
    }
    Ok((first.unwrap_or_default(), seconds))
}

fn save(folder: &Path, outputs: &[Value]) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::System(format!("cannot make {}: {e}", folder.display())))?;
    for (i, output) in outputs.iter().enumerate() {
        if let Value::Tensor(tensor) = output {
            npy::write(&folder.join(format!("output{i}.npy")), tensor)?;
        }
    }
    Ok(())
}

fn report_outputs(
    outputs: &[Value],
    expected: &[HostTensor],
    arguments: &Arguments,
) -> Result<Vec<OutputReport>> {
    outputs
        .iter()
        .enumerate()
        .map(|(i, output)| {
            let tensor = as_tensor(output)?;
            let comparison = expected
                .get(i)
                .map(|expected| compare_output(&tensor, expected, arguments))
                .transpose()
                .context(|| format!("output {i}"))?;
            Ok(OutputReport {
                dtype: tensor.dtype().to_string(),
                shape: tensor.sizes().to_vec(),
                summary: Summary::of(&tensor),
                comparison,
            })
        })
        .collect()
}

/// An output as a tensor: scalars have no dimensions.
pub fn as_tensor(output: &Value) -> Result<HostTensor> {
    match output {
        Value::Tensor(tensor) => Ok(tensor.clone()),
        Value::Int(value) => HostTensor::from_elements(vec![], [*value]),
        Value::Double(value) => HostTensor::from_elements(vec![], [*value as f32]),
        Value::Bool(value) => HostTensor::from_elements(vec![], [*value]),
        Value::None => HostTensor::from_elements(vec![0], [0u8; 0]),
    }
}

pub fn compare_output(
    actual: &HostTensor,
    expected: &HostTensor,
    arguments: &Arguments,
) -> Result<ComparisonReport> {
    let default = Tolerance::of(actual.dtype());
    let tolerance = Tolerance {
        rtol: arguments.rtol.unwrap_or(default.rtol),
        atol: arguments.atol.unwrap_or(default.atol),
    };
    Ok(ComparisonReport::new(compare(actual, expected, tolerance)?, tolerance))
}

impl InputReport {
    fn new(input: &Input) -> Self {
        let what = match &input.value {
            Value::Tensor(tensor) => format!("{} {:?}", tensor.dtype(), tensor.sizes()),
            Value::None => "none".into(),
            Value::Int(value) => format!("int {value}"),
            Value::Double(value) => format!("double {value}"),
            Value::Bool(value) => format!("bool {value}"),
        };
        Self { what, source: input.source.clone() }
    }
}

impl Summary {
    fn of(tensor: &HostTensor) -> Self {
        let values = tensor.to_f64();
        let finite = || values.iter().copied().filter(|v| v.is_finite());
        let count = finite().count();
        let some = |value: f64| (count > 0).then_some(value);
        Self {
            min: some(finite().fold(f64::INFINITY, f64::min)),
            max: some(finite().fold(f64::NEG_INFINITY, f64::max)),
            mean: some(finite().sum::<f64>() / count as f64),
            not_finite: values.len() - count,
        }
    }
}

impl ComparisonReport {
    fn new(comparison: Comparison, tolerance: Tolerance) -> Self {
        Self {
            pass: comparison.passes(),
            max_abs_error: comparison.max_abs_error,
            max_rel_error: comparison.max_rel_error,
            out_of_tolerance: comparison.out_of_tolerance,
            rtol: tolerance.rtol,
            atol: tolerance.atol,
            worst: comparison.worst.map(|w| Worst {
                index: w.index,
                actual: w.actual,
                expected: w.expected,
            }),
        }
    }
}

impl Report {
    /// The report for people. Its last line starts with the result.
    fn text(&self, style: Style) -> String {
        let mut text = format!("{}  method {}\n", self.model, self.method);
        for (i, input) in self.inputs.iter().enumerate() {
            line(&mut text, &format!("input {i}  {}  {}", input.what, input.source));
        }
        for (i, output) in self.outputs.iter().enumerate() {
            let what = format!("output {i}  {} {:?}  ", output.dtype, output.shape);
            let rest = match &output.comparison {
                Some(comparison) => comparison.text(style),
                None => output.summary.text(),
            };
            line(&mut text, &(what + &rest));
        }
        line(&mut text, &self.times());
        if let Some(stats) = &self.stats {
            line(&mut text, &format!("stats  {stats:#}"));
        }
        if let Some(left) = &self.left_behind {
            leftover::tell(&mut text, left, style);
        }
        let error = error_text(self.max_error.unwrap_or_default());
        line(
            &mut text,
            &match self.pass {
                Some(true) => format!("{}  max error {error}", style.green("PASS")),
                Some(false) => format!("{}  max error {error}", style.red("FAIL")),
                None => "DONE  nothing to compare with (--expect)".into(),
            },
        );
        text
    }

    fn times(&self) -> String {
        let mut text = format!("time  load {}", duration_text(self.load_seconds));
        let mut sorted = self.run_seconds.clone();
        sorted.sort_by(f64::total_cmp);
        if let (Some(first), [fastest, _, ..]) = (self.run_seconds.first(), sorted.as_slice()) {
            let median = sorted[sorted.len() / 2];
            let _ = write!(
                text,
                ", first run {}, fastest {}, median {} of {} runs",
                duration_text(*first),
                duration_text(*fastest),
                duration_text(median),
                sorted.len()
            );
        } else {
            let _ = write!(text, ", run {}", duration_text(self.run_seconds.iter().sum()));
        }
        text
    }
}

impl ComparisonReport {
    /// The comparison for people.
    pub fn text(&self, style: Style) -> String {
        let mut text = format!("max error {}", error_text(self.max_abs_error));
        if self.max_rel_error > 0.0 {
            let _ = write!(text, " (relative {})", error_text(self.max_rel_error));
        }
        if self.pass {
            return text + "  " + &style.green("ok");
        }
        let _ = write!(
            text,
            "  {}: {} values beyond rtol {:e}, atol {:e}",
            style.red("differs"),
            self.out_of_tolerance,
            self.rtol,
            self.atol
        );
        if let Some(worst) = &self.worst {
            let _ = write!(
                text,
                "; worst at {:?}: {} where {} is expected",
                worst.index, worst.actual, worst.expected
            );
        }
        text
    }
}

impl Summary {
    fn text(&self) -> String {
        let mut text = match (self.min, self.max, self.mean) {
            (Some(min), Some(max), Some(mean)) => {
                format!("min {min:.6}  max {max:.6}  mean {mean:.6}")
            }
            _ => "no finite values".into(),
        };
        if self.not_finite > 0 {
            let _ = write!(text, "  {} not finite", self.not_finite);
        }
        text
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
