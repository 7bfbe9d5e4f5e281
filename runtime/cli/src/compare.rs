//! `etmetal run --compare`: the model on two devices, and where they differ.

use std::fmt::Write;

use etmetal::runner::{LoadMode, Runtime, Value};
use etmetal::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::call::{self, Call};
use crate::inputs::Files;
use crate::output::{self, Style, error_text};
use crate::run::{Arguments, ComparisonReport, as_tensor, compare_output};

/// What the library has found.
#[derive(Serialize, Deserialize)]
struct Comparison {
    subject: Device,
    reference: Device,
    /// Commands that were done on both.
    commands: usize,
    /// Those that differ.
    different: usize,
    compared: Vec<Command>,
}

#[derive(Serialize, Deserialize)]
struct Device {
    kind: String,
    name: String,
}

#[derive(Serialize, Deserialize)]
struct Command {
    command: String,
    elements: usize,
    /// Null where it is infinite.
    largest_error: Option<f64>,
    failure: Option<String>,
    different: Vec<Operand>,
}

#[derive(Serialize, Deserialize)]
struct Operand {
    operand: String,
    dtype: String,
    elements: usize,
    count: usize,
    largest_error: Option<f64>,
    at: usize,
    subject: Option<f64>,
    reference: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    model: String,
    method: String,
    #[serde(flatten)]
    comparison: Comparison,
    /// The outputs of the whole model on the device, against those on the host device.
    outputs: Vec<ComparisonReport>,
    pass: bool,
}

/// Runs the model on `device` and on the reference.
///
/// # Errors
/// There is no such device, or anything keeps the method from being run to its end.
pub fn run(arguments: &Arguments, files: &Files, device: &str) -> Result<Outcome> {
    let call = Call::prepare(files, arguments.method.as_deref(), arguments.seed)?;
    call::limit_threads(arguments.threads);
    let runtime = call::open_runtime()?;
    let subject = outputs_on(&runtime, arguments, files, &call, &format!("compare {device}"))?;
    let text = runtime.comparison_json();
    let comparison: Comparison = serde_json::from_str(&text)
        .map_err(|e| Error::Internal(format!("what was compared cannot be read: {e}")))?;
    let reference = outputs_on(&runtime, arguments, files, &call, "host")?;
    let outputs = subject
        .iter()
        .zip(&reference)
        .map(|(s, r)| compare_output(&as_tensor(s)?, &as_tensor(r)?, arguments))
        .collect::<Result<Vec<_>>>()?;
    let pass = comparison.different == 0 && outputs.iter().all(|output| output.pass);
    let model = files.model.display().to_string();
    let report = Report { model, method: call.method, comparison, outputs, pass };
    if arguments.json {
        output::print_json(&report)?;
    } else {
        output::print(report.text(Style::of(&std::io::stdout())).trim_end())?;
    }
    Ok(if pass { Outcome::Success } else { Outcome::Failure })
}

/// The outputs of one run on a device.
fn outputs_on(
    runtime: &Runtime,
    arguments: &Arguments,
    files: &Files,
    call: &Call,
    device: &str,
) -> Result<Vec<Value>> {
    runtime.use_device(Some(device))?;
    let module = runtime.load(&files.model, &arguments.data, LoadMode::Mmap)?;
    module.load_method(&call.method)?;
    module.execute(&call.method, &call.values())
}

impl Report {
    fn text(&self, style: Style) -> String {
        let Comparison { subject, reference, commands, different, compared } = &self.comparison;
        let mut text = format!("{}  method {}\n", self.model, self.method);
        let _ = writeln!(text, "device     {}: {}", subject.kind, subject.name);
        let _ = writeln!(text, "reference  {}: {}", reference.kind, reference.name);
        for (number, command) in compared.iter().enumerate() {
            let _ = writeln!(text, "{}", command.text(number, style));
        }
        for (i, output) in self.outputs.iter().enumerate() {
            let _ = writeln!(text, "output {i}  {}", output.text(style));
        }
        let first = compared.iter().position(|command| !command.agrees());
        let result = if self.pass { style.green("PASS") } else { style.red("FAIL") };
        let _ = write!(text, "{result}  {commands} commands, {different} differ");
        if let Some(first) = first {
            let _ = write!(text, ", the first is command {first}, {}", compared[first].command);
        }
        text + "\n"
    }
}

impl Command {
    fn agrees(&self) -> bool {
        self.failure.is_none() && self.different.is_empty()
    }

    fn text(&self, number: usize, style: Style) -> String {
        let error = self.largest_error.map_or("infinite".to_owned(), error_text);
        let mut text = format!(
            "{number:5}  {}  {} elements, largest error {error}",
            self.command, self.elements
        );
        let result = if self.agrees() { style.green("ok") } else { style.red("differs") };
        let _ = write!(text, "  {result}");
        if let Some(failure) = &self.failure {
            let _ = write!(text, "\n       {failure}");
        }
        for operand in &self.different {
            let _ = write!(text, "\n       {}", operand.text());
        }
        text
    }
}

impl Operand {
    fn text(&self) -> String {
        let number = |value: Option<f64>| value.map_or("not finite".to_owned(), |v| v.to_string());
        format!(
            "{} ({}): {} of {} elements differ, by up to {}; element {} is {}, not {}",
            self.operand,
            self.dtype,
            self.count,
            self.elements,
            self.largest_error.map_or("infinity".to_owned(), error_text),
            self.at,
            number(self.subject),
            number(self.reference)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_command_that_differs_is_told() {
        let comparison = serde_json::from_str(
            r#"{"subject":{"kind":"metal","name":"M"},"reference":{"kind":"host","name":"H"},
            "commands":2,"different":1,"compared":[
            {"command":"copy","elements":8,"largest_error":0.0,"failure":null,"different":[]},
            {"command":"kernel \"k\" of mps_lib_0","elements":4,"largest_error":null,
             "failure":null,"different":[{"operand":"buffer(0)","dtype":"float32","elements":4,
             "count":1,"largest_error":null,"at":2,"subject":null,"reference":1.5}]}]}"#,
        )
        .unwrap();
        let (model, method) = ("m.pte".to_owned(), "forward".to_owned());
        let report = Report { model, method, comparison, outputs: vec![], pass: false };
        let text = report.text(Style::plain());
        assert_eq!(
            text,
            "m.pte  method forward\n\
             device     metal: M\n\
             reference  host: H\n    \
             0  copy  8 elements, largest error 0  ok\n    \
             1  kernel \"k\" of mps_lib_0  4 elements, largest error infinite  differs\n       \
             buffer(0) (float32): 1 of 4 elements differ, by up to infinity; element 2 is not \
             finite, not 1.5\n\
             FAIL  2 commands, 1 differ, the first is command 1, kernel \"k\" of mps_lib_0\n"
        );
    }
}
