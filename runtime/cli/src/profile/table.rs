//! The summary for people.

use std::fmt::Write;
use std::path::Path;

use super::summary::{Part, Row, Summary};
use crate::output::duration_text;

/// Columns of the table and on which side they are flush.
const COLUMNS: [(&str, Side); 8] = [
    ("kernel or operator", Side::Left),
    ("calls", Side::Right),
    ("time", Side::Right),
    ("share", Side::Right),
    ("bytes", Side::Right),
    ("GB/s", Side::Right),
    ("GFLOP/s", Side::Right),
    ("tensors", Side::Left),
];

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

/// The whole text, `trace` being where the trace was written.
pub fn text(summary: &Summary, trace: Option<&Path>) -> String {
    let mut text = format!("{}  method {}\n", summary.model, summary.method);
    if !summary.device.is_empty() {
        let _ = writeln!(text, "device  {}", summary.device);
    }
    let _ = writeln!(
        text,
        "load  {}{}",
        duration_text(summary.load_seconds),
        parts(&summary.load_parts)
    );
    let _ = writeln!(text, "{}", runs(&summary.run_seconds));
    let _ = writeln!(text, "time of a run {}", parts(&summary.run_parts));
    text.push('\n');
    if summary.work.is_empty() {
        text.push_str("nothing ran on the device\n");
    } else {
        text.push_str(&table(&summary.work));
    }
    if summary.dropped_events > 0 {
        let _ = writeln!(
            text,
            "\n{} events are missing here and in the trace, there was no room for them: use fewer \
             --runs",
            summary.dropped_events
        );
    }
    if let Some(trace) = trace {
        let _ = writeln!(
            text,
            "\ntrace  {}  (opens in https://ui.perfetto.dev and chrome://tracing)",
            trace.display()
        );
    }
    text
}

fn runs(seconds: &[f64]) -> String {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(fastest), Some(median)) = (sorted.first(), sorted.get(sorted.len() / 2)) else {
        return "no runs".into();
    };
    format!(
        "{} runs  fastest {}, median {}, together {}",
        sorted.len(),
        duration_text(*fastest),
        duration_text(*median),
        duration_text(sorted.iter().sum())
    )
}

/// `  (name 1.2 ms 34%, …)`.
fn parts(parts: &[Part]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let part = |part: &Part| {
        format!("{} {} {:.0}%", part.name, duration_text(part.seconds), part.share * 100.0)
    };
    format!("  ({})", parts.iter().map(part).collect::<Vec<_>>().join(", "))
}

fn table(rows: &[Row]) -> String {
    let header = COLUMNS.map(|(name, _)| name.to_owned());
    let lines: Vec<[String; 8]> = std::iter::once(header).chain(rows.iter().map(cells)).collect();
    let width = |column: usize| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    for line in &lines {
        let mut padded = String::new();
        for ((cell, (_, side)), width) in line.iter().zip(COLUMNS).zip(widths) {
            let _ = match side {
                Side::Left => write!(padded, "{cell:<width$}  "),
                Side::Right => write!(padded, "{cell:>width$}  "),
            };
        }
        let _ = writeln!(text, "{}", padded.trim_end());
    }
    text
}

fn cells(row: &Row) -> [String; 8] {
    [
        row.name.clone(),
        row.calls.to_string(),
        duration_text(row.seconds),
        format!("{:.1}%", row.share * 100.0),
        row.bytes.to_string(),
        format!("{:.2}", row.gigabytes_per_second),
        row.gigaflops_per_second.map(|rate| format!("{rate:.2}")).unwrap_or_default(),
        row.tensors.join(" "),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::summary::testing::profile;
    use super::*;

    #[test]
    fn a_summary_reads_well() {
        let summary = Summary::of(&profile(), "m.pte".into(), "forward", "host: x".into());
        assert_eq!(
            text(&summary, Some(Path::new("t.json"))),
            "\
m.pte  method forward
device  host: x
load  0.1 µs  (load forward 0.1 µs 80%, make the shaders ready 0.1 µs 60%)
2 runs  fastest 1.0 µs, median 1.0 µs, together 2.0 µs
time of a run   (device 1.0 µs 50%, encode 0.1 µs 5%, inputs and outputs 0.0 µs 0%, rest 0.9 µs 48%)

kernel or operator  calls    time  share  bytes  GB/s  GFLOP/s  tensors
mm                      2  0.8 µs  40.0%    200  0.50     2.00  float32[2,3] float32[2,5] float32[5,3]
mps_lib_0               2  0.2 µs  10.0%     50  0.50

trace  t.json  (opens in https://ui.perfetto.dev and chrome://tracing)
"
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut summary = Summary::of(&profile(), "m.pte".into(), "forward", String::new());
        summary.work.clear();
        summary.dropped_events = 3;
        let text = text(&summary, None);
        assert!(text.contains("nothing ran on the device"), "{text}");
        assert!(text.contains("3 events are missing"), "{text}");
    }
}
