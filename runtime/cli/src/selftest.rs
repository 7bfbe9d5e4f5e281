//! `etmetal selftest`: a report of a whole device, for people whose hardware nobody has tried.

use std::fmt::Write;
use std::path::PathBuf;

use etmetal::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::call;
use crate::output::{self, Style, error_text};

#[derive(clap::Args)]
pub struct Arguments {
    /// The device to check
    #[arg(long, value_parser = ["metal", "host"], default_value = "metal")]
    device: String,

    /// A folder of models to run: folders with model.pte, inputN.npy and outputN.npy
    #[arg(long, value_name = "FOLDER")]
    models: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The report.
#[derive(Serialize, Default)]
struct Report {
    etmetal: String,
    executorch: String,
    system: Vec<(String, String)>,
    device: Option<Device>,
    limits: Option<serde_json::Value>,
    checks: Vec<Check>,
    passed: usize,
    failed: usize,
    skipped: usize,
    /// What ended it before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Device {
    kind: String,
    name: String,
}

#[derive(Serialize, Deserialize)]
struct Check {
    group: String,
    name: String,
    outcome: String,
    elements: usize,
    /// Null where it is infinite.
    largest_error: Option<f64>,
    why: Option<String>,
}

/// A line of the library's.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Device { system: Vec<(String, String)>, device: Device, limits: serde_json::Value },
    Check(Check),
    Error { error: String },
}

/// Runs the command.
///
/// # Errors
/// The library cannot be loaded, or does not speak this version's language.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let runtime = call::open_runtime()?;
    let style = Style::of(&std::io::stdout());
    let mut report = Report {
        etmetal: env!("CARGO_PKG_VERSION").to_owned(),
        executorch: runtime.executorch_version(),
        ..Report::default()
    };
    if !arguments.json {
        output::print(&report.head())?;
    }
    let mut failure = None;
    let mut take = |line: &str| -> Result<()> {
        let line = serde_json::from_str(line)
            .map_err(|e| Error::Internal(format!("a line of the self-test is {line:?}: {e}")))?;
        let text = report.take(line, style);
        if arguments.json { Ok(()) } else { output::print(&text) }
    };
    let mut on_line = |line: &str| {
        if failure.is_none() {
            failure = take(line).err();
        }
    };
    runtime.selftest(Some(&arguments.device), arguments.models.as_deref(), &mut on_line)?;
    if let Some(error) = failure {
        return Err(error);
    }
    if arguments.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.foot(style))?;
    }
    let good = report.failed == 0 && report.passed > 0 && report.error.is_none();
    Ok(if good { Outcome::Success } else { Outcome::Failure })
}

impl Report {
    fn head(&self) -> String {
        format!("etmetal {}, ExecuTorch {}", self.etmetal, self.executorch)
    }

    /// Takes a line and gives it as text.
    fn take(&mut self, line: Line, style: Style) -> String {
        match line {
            Line::Device { system, device, limits } => {
                let mut text = String::new();
                for (name, value) in &system {
                    let _ = writeln!(text, "{name:10} {value}");
                }
                let _ = writeln!(text, "device     {}: {}", device.kind, device.name);
                let _ = write!(text, "limits     {limits}");
                self.system = system;
                (self.device, self.limits) = (Some(device), Some(limits));
                text
            }
            Line::Check(check) => {
                match &*check.outcome {
                    "PASS" => self.passed += 1,
                    "SKIPPED" => self.skipped += 1,
                    _ => self.failed += 1,
                }
                let text = check.text(style);
                self.checks.push(check);
                text
            }
            Line::Error { error } => {
                let text = format!("{} {error}", style.red("error:"));
                self.error = Some(error);
                text
            }
        }
    }

    fn foot(&self, style: Style) -> String {
        let Report { passed, failed, skipped, .. } = self;
        let result = match (self.error.is_some() || *failed > 0, *passed) {
            (false, 1..) => style.green("PASS"),
            _ => style.red("FAIL"),
        };
        format!("{result}  {passed} passed, {failed} failed, {skipped} skipped")
    }
}

impl Check {
    fn text(&self, style: Style) -> String {
        let Check { group, name, outcome, elements, .. } = self;
        let padded = format!("{outcome:7}");
        let outcome = match &**outcome {
            "PASS" => style.green(&padded),
            "FAIL" => style.red(&padded),
            _ => padded,
        };
        let error = self.largest_error.map_or("infinite".to_owned(), error_text);
        let mut text = format!("{outcome}  {group:8}  {name:44}  {elements:6}  error {error}");
        if let Some(why) = &self.why {
            let _ = write!(text, "\n         {why}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn lines_of_the_library_become_a_report() {
        let mut report = Report::default();
        let style = Style::plain();
        let mut take = |text: &str| report.take(serde_json::from_str(text).unwrap(), style);
        let device = take(
            r#"{"system":[["system","x"]],"device":{"kind":"metal","name":"M"},"limits":{"simd":32}}"#,
        );
        assert_eq!(device, "system     x\ndevice     metal: M\nlimits     {\"simd\":32}");
        let pass = take(
            r#"{"group":"graph","name":"mm","outcome":"PASS","elements":9,"largest_error":1e-7,"why":null}"#,
        );
        assert!(pass.starts_with("PASS     graph     mm  ") && pass.ends_with("error 1.00e-7"));
        let fail = take(
            r#"{"group":"graph","name":"mm","outcome":"FAIL","elements":9,"largest_error":null,"why":"it is not"}"#,
        );
        assert!(fail.contains("error infinite\n         it is not"), "{fail}");
        assert!(report.foot(style).starts_with("FAIL  1 passed, 1 failed, 0 skipped"));
        let mut report = Report::default();
        report.take(Line::Error { error: "no GPU".into() }, style);
        assert!(report.foot(style).starts_with("FAIL"));
    }

    #[test]
    fn the_metal_device_is_checked_unless_another_is_named() {
        let device = |args: &[&str]| Parsed::try_parse_from(args).map(|p| p.arguments.device);
        assert_eq!(device(&["x"]).unwrap(), "metal");
        assert_eq!(device(&["x", "--device", "host"]).unwrap(), "host");
        assert!(device(&["x", "--device", "gpu"]).is_err());
    }
}
