//! `etmetal profile`: its table and its trace say the same, and what they say can be true.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Output;

use etmetal_tests::stage::{etmetal, fixture, text};
use serde_json::Value;

/// One complete event of a trace, in nanoseconds.
#[derive(Debug)]
struct Span {
    name: String,
    category: String,
    track: u64,
    start: i64,
    end: i64,
    args: Value,
}

/// A trace, read as a viewer does.
struct Trace {
    spans: Vec<Span>,
    /// Names of tracks, by number.
    tracks: BTreeMap<u64, String>,
}

impl Trace {
    fn read(path: &Path) -> Trace {
        let bytes = std::fs::read(path).unwrap();
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        let (mut spans, mut tracks) = (Vec::new(), BTreeMap::new());
        for event in json["traceEvents"].as_array().expect("a list of events") {
            let text = |key: &str| event[key].as_str().unwrap_or_else(|| panic!("{key}: {event}"));
            let track = event["tid"].as_u64().unwrap_or_else(|| panic!("tid: {event}"));
            assert_eq!(event["pid"], 1, "{event}");
            match text("ph") {
                "X" => {
                    let time = |key: &str| {
                        let micros = event[key].as_f64().unwrap_or_else(|| panic!("{event}"));
                        assert!(micros >= 0.0, "{event}");
                        (micros * 1e3).round() as i64
                    };
                    spans.push(Span {
                        name: text("name").into(),
                        category: text("cat").into(),
                        track,
                        start: time("ts"),
                        end: time("ts") + time("dur"),
                        args: event["args"].clone(),
                    });
                }
                "M" if event["name"] == "thread_name" => {
                    tracks.insert(track, event["args"]["name"].as_str().unwrap().to_owned());
                }
                "M" => {}
                other => panic!("an event of kind {other}"),
            }
        }
        Trace { spans, tracks }
    }

    fn of(&self, category: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.category == category).collect()
    }

    fn named(&self, name: &str) -> &Span {
        self.spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// The commands, by name.
    fn commands(&self) -> impl Iterator<Item = &Span> {
        let kinds = ["kernel", "op", "copy", "fill"];
        // "copy" is also the category of moving inputs and outputs.
        self.spans.iter().filter(move |s| kinds.contains(&s.category.as_str()) && s.on_device(self))
    }
}

impl Span {
    fn holds(&self, inner: &Span) -> bool {
        self.start <= inner.start && inner.end <= self.end
    }

    fn on_device(&self, trace: &Trace) -> bool {
        trace.tracks[&self.track].starts_with("device")
    }
}

fn profile(arguments: &[&str], model: &Path, trace: &Path) -> Output {
    let mut command = etmetal();
    command.arg("profile").args(arguments).arg("--trace").arg(trace).arg(model);
    command.output().expect("the staged tool starts")
}

/// The profile of a fixture: what `--json` printed, and the trace.
fn profiled(name: &str, arguments: &[&str]) -> (Value, Trace) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.json");
    let arguments = [arguments, &["--json"]].concat();
    let output = profile(&arguments, &fixture(name), &path);
    assert!(output.status.success(), "{}", text(&output));
    let summary = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}"));
    (summary, Trace::read(&path))
}

#[test]
fn spans_of_a_track_nest_and_lie_in_the_load_or_a_run() {
    let (_, trace) = profiled("mlp", &["--runs", "3", "--warmup", "1"]);
    for (number, track) in &trace.tracks {
        let spans: Vec<&Span> = trace.spans.iter().filter(|s| s.track == *number).collect();
        assert!(!spans.is_empty(), "{track} has no events");
        for (i, a) in spans.iter().enumerate() {
            for b in &spans[..i] {
                let apart = a.end <= b.start || b.end <= a.start;
                assert!(apart || a.holds(b) || b.holds(a), "{track}: {a:?} overlaps {b:?}");
            }
        }
    }
    let program = trace.of("program");
    assert_eq!(
        program.iter().map(|span| span.name.as_str()).collect::<Vec<_>>(),
        ["load", "run 0", "run 1", "run 2"]
    );
    for span in trace.spans.iter().filter(|span| span.category != "program") {
        assert!(program.iter().any(|outer| outer.holds(span)), "{span:?} lies outside");
    }
}

#[test]
fn commands_lie_in_the_execution_that_submitted_them() {
    let (summary, trace) = profiled("mlp", &["--runs", "3"]);
    let executions: Vec<&Span> =
        trace.spans.iter().filter(|span| span.name == "execute forward").collect();
    assert_eq!(executions.len(), 3);
    let counts: BTreeSet<usize> = executions
        .iter()
        .map(|execution| {
            let inside: Vec<&Span> =
                trace.commands().filter(|command| execution.holds(command)).collect();
            let busy: i64 = inside.iter().map(|command| command.end - command.start).sum();
            assert!(busy > 0 && busy <= execution.end - execution.start, "{busy} {execution:?}");
            inside.len()
        })
        .collect();
    assert_eq!(counts.len(), 1, "all runs submit the same commands: {counts:?}");
    let calls: u64 =
        summary["work"].as_array().unwrap().iter().map(|row| row["calls"].as_u64().unwrap()).sum();
    assert_eq!(trace.commands().count() as u64, calls);
    assert_eq!(calls, 3 * *counts.first().unwrap() as u64, "no command is in two runs or none");
}

#[test]
fn a_run_is_told_from_its_inputs_to_its_outputs() {
    let (summary, trace) = profiled("mlp", &["--runs", "1", "--warmup", "0"]);
    for (outer, inner) in [
        ("load", "load forward"),
        ("load forward", "check and link the library"),
        ("load forward", "make the shaders ready"),
        ("load forward", "make the container"),
        ("load forward", "take the weights"),
        ("run 0", "execute forward"),
        ("execute forward", "take inputs"),
        ("execute forward", "run the model"),
        ("run the model", "commit"),
        ("execute forward", "copy outputs"),
    ] {
        assert!(trace.named(outer).holds(trace.named(inner)), "{inner} is not in {outer}");
    }
    assert!(trace.named("take inputs").end <= trace.named("run the model").start);
    assert!(trace.named("run the model").end <= trace.named("copy outputs").start);
    let encoded = trace.of("encode").len();
    assert_eq!(encoded, trace.commands().count(), "each command is encoded once");
    assert_eq!(trace.named("commit").args["commands"], encoded);
    let compiled = trace.of("compile").iter().filter(|s| s.name.contains("kernel")).count();
    let libraries = &trace.named("make the shaders ready").args["shader_libraries"];
    assert_eq!(*libraries, compiled, "one kernel each");

    let seconds = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    let run = trace.named("run 0");
    let told = seconds(&summary["run_seconds"][0]) * 1e9;
    assert_eq!(told.round() as i64, run.end - run.start, "both tell the same time");
    let busy: f64 =
        summary["work"].as_array().unwrap().iter().map(|row| seconds(&row["share"])).sum();
    assert!(busy > 0.0 && busy <= 1.0, "{busy}");
}

#[test]
fn products_tell_their_shapes_bytes_and_operations() {
    // One product, of matrices [3, 4] and [4, 5].
    let (summary, trace) = profiled("mm", &["--runs", "2"]);
    let row = &summary["work"][0];
    assert_eq!(row["name"], "mm", "{row}");
    assert_eq!(row["kind"], "op");
    assert_eq!(row["calls"], 2);
    let shapes: Vec<Vec<u64>> = row["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tensor| {
            let sizes = tensor.as_str().unwrap().strip_prefix("float32[").unwrap();
            sizes.trim_end_matches(']').split(',').map(|n| n.parse().unwrap()).collect()
        })
        .collect();
    let [out, a, b] = &shapes[..] else { panic!("{row}") };
    let (m, k, n) = (a[0], a[1], b[1]);
    assert_eq!((out[..] == [m, n], b[0]), (true, k), "{row}");
    assert_eq!(row["bytes"], 4 * (m * n + m * k + k * n));
    let mm = trace.named("mm");
    assert_eq!(mm.args["flops"], 2 * m * n * k);
    assert_eq!(mm.args["tensors"], row["tensors"]);
    let rate = mm.args["GFLOP/s"].as_f64().unwrap();
    let expected = (2 * m * n * k) as f64 / (mm.end - mm.start) as f64;
    assert!((rate - expected).abs() <= 1e-9 * expected, "{rate} {expected}");
}

#[test]
fn kernels_tell_their_threads_and_bytes() {
    let (_, trace) = profiled("add", &["--runs", "1"]);
    let kernels = trace.of("kernel");
    let [kernel] = &kernels[..] else { panic!("{kernels:?}") };
    assert!(kernel.name.starts_with("mps_lib_"), "{kernel:?}");
    let tensors = kernel.args["tensors"].as_array().unwrap();
    assert_eq!(tensors.len(), 3, "two to add, one for the sum: {kernel:?}");
    let product = |value: &Value| -> u64 {
        value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).product()
    };
    let threads = product(&kernel.args["threads"]);
    assert_eq!(kernel.args["bytes"], 3 * 4 * threads, "one thread an element: {kernel:?}");
    assert!(product(&kernel.args["threadgroup"]) <= 1024);
    assert!(kernel.args.get("flops").is_none(), "nobody knows: {kernel:?}");
}

#[test]
fn attention_and_small_weights_have_known_operations() {
    for (name, op) in [
        ("sdpa_bfloat16", "scaled_dot_product_attention"),
        ("linear_bias_int4_bfloat16", "_linear_fp_act_4bit_weight"),
        ("cnn", "convolution"),
        ("addmm", "addmm"),
    ] {
        let (summary, _) = profiled(name, &["--runs", "1"]);
        let rows = summary["work"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == op);
        let row = row.unwrap_or_else(|| panic!("{name} has no {op}: {rows:?}"));
        assert!(row["gigaflops_per_second"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn people_get_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("t.json");
    let output = profile(&["--runs", "2", "--seed", "3"], &fixture("mlp"), &trace);
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    for part in ["kernel or operator", "calls", "GFLOP/s", "mm", "mps_lib_0", "2 runs", "t.json"] {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
    assert_eq!(Trace::read(&trace).of("program").len(), 3);
}

#[test]
fn what_cannot_be_done_is_said_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("no/trace.json");
    let output = profile(&[], &fixture("mlp"), &missing);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("cannot write the trace"), "{}", text(&output));

    let trace = dir.path().join("trace.json");
    let broken = dir.path().join("broken.pte");
    std::fs::write(&broken, "no program").unwrap();
    let output = profile(&[], &broken, &trace);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the program is there");

    let output = profile(&["--runs", "0"], &fixture("mlp"), &trace);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}
