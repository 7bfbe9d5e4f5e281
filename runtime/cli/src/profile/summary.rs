//! The profile added up: phases of a run, and a row for each kernel and operator.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use super::events::{Event, Mark, Profile, Track, seconds};

/// What `--json` prints. Times are those of all recorded runs together, shares those of their
/// time.
#[derive(Serialize)]
pub struct Summary {
    pub model: String,
    pub method: String,
    pub device: String,
    pub load_seconds: f64,
    /// Parts of the load, in the order of their time. They nest: a part is in the time of the one
    /// that it belongs to.
    pub load_parts: Vec<Part>,
    pub run_seconds: Vec<f64>,
    pub run_parts: Vec<Part>,
    /// Kernels and operators, those that take the most time first.
    pub work: Vec<Row>,
    /// Events that there was no room for.
    pub dropped_events: u64,
}

/// A part of the time.
#[derive(Serialize)]
pub struct Part {
    pub name: String,
    pub seconds: f64,
    pub share: f64,
}

/// All calls of one kernel or operator on tensors of the same shapes.
#[derive(Serialize)]
pub struct Row {
    /// `kernel`, `op`, `copy` or `fill`.
    pub kind: String,
    pub name: String,
    /// `float32[2,3]`; of an operator outputs first.
    pub tensors: Vec<String>,
    pub calls: u64,
    pub seconds: f64,
    pub share: f64,
    /// Of one call.
    pub bytes: u64,
    pub gigabytes_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gigaflops_per_second: Option<f64>,
}

impl Summary {
    /// Adds up a profile.
    pub fn of(profile: &Profile, model: String, method: &str, device: String) -> Summary {
        let run_time: u64 = profile.runs().iter().map(|run| run.duration).sum();
        Summary {
            model,
            method: method.to_owned(),
            device,
            load_seconds: profile.load().map_or(0.0, Mark::seconds),
            load_parts: load_parts(profile),
            run_seconds: profile.runs().iter().map(Mark::seconds).collect(),
            run_parts: run_parts(profile, run_time),
            work: rows(profile, run_time),
            dropped_events: profile.dropped,
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// What the loading thread did during the load.
fn load_parts(profile: &Profile) -> Vec<Part> {
    let Some(load) = profile.load() else { return Vec::new() };
    let end = load.start + load.duration;
    let mut spans: Vec<&Event> = profile
        .events
        .iter()
        .filter(|e| e.track == Track::Thread && e.thread == profile.main_thread)
        .filter(|e| matches!(e.category.as_str(), "load" | "compile") && e.start < end)
        // On a machine of one core this thread compiles; what is compiled belongs to its phase.
        .filter(|e| !e.name.ends_with("a kernel") && !e.name.ends_with("cached kernel"))
        .collect();
    spans.sort_by_key(|event| event.start);
    let part = |event: &Event| Part {
        name: event.name.clone(),
        seconds: seconds(event.duration),
        share: share(event.duration, load.duration),
    };
    spans.into_iter().map(part).collect()
}

/// The phases of the runs. The device may work while the CPU encodes: only the rest is what no
/// phase was busy with.
fn run_parts(profile: &Profile, run_time: u64) -> Vec<Part> {
    let of = |choose: &dyn Fn(&Event) -> bool| -> Vec<Range<u64>> {
        profile.events_of_runs().filter(|e| choose(e)).map(Event::span).collect()
    };
    let category =
        |name: &'static str| of(&move |e: &Event| e.track == Track::Thread && e.category == name);
    let phases = [
        ("device", of(&|e| e.track == Track::Device)),
        ("encode", category("encode")),
        ("inputs and outputs", category("copy")),
    ];
    let all = covered(phases.iter().flat_map(|(_, spans)| spans.iter().cloned()).collect());
    let times = phases.into_iter().map(|(name, spans)| (name, covered(spans)));
    times
        .chain([("rest", run_time.saturating_sub(all))])
        .map(|(name, time)| Part {
            name: name.into(),
            seconds: seconds(time),
            share: share(time, run_time),
        })
        .collect()
}

/// The time that lies in at least one of the spans.
fn covered(mut spans: Vec<Range<u64>>) -> u64 {
    spans.sort_by_key(|span| span.start);
    let (mut time, mut end) = (0, 0);
    for span in spans {
        time += span.end.saturating_sub(span.start.max(end));
        end = end.max(span.end);
    }
    time
}

fn rows(profile: &Profile, run_time: u64) -> Vec<Row> {
    #[derive(Default)]
    struct Total {
        calls: u64,
        time: u64,
        bytes: u64,
        flops: Option<u64>,
    }
    let mut totals = BTreeMap::<(String, String, Vec<String>), Total>::new();
    for event in profile.events_of_runs().filter(|e| e.track == Track::Device) {
        let Some(work) = &event.work else { continue };
        let tensors = work.tensors.iter().map(|tensor| tensor.text()).collect();
        let total =
            totals.entry((event.category.clone(), event.name.clone(), tensors)).or_default();
        total.calls += 1;
        total.time += event.duration;
        total.bytes += work.bytes;
        // The same tensors give the same number, or none.
        total.flops = work.flops.map(|flops| flops + total.flops.unwrap_or(0));
    }
    // At one a nanosecond, a billion a second.
    let rate = |amount: u64, time: u64| amount as f64 / time.max(1) as f64;
    let row = |((kind, name, tensors), total): (_, Total)| Row {
        kind,
        name,
        tensors,
        calls: total.calls,
        seconds: seconds(total.time),
        share: share(total.time, run_time),
        bytes: total.bytes / total.calls,
        gigabytes_per_second: rate(total.bytes, total.time),
        gigaflops_per_second: total.flops.map(|flops| rate(flops, total.time)),
    };
    let mut rows: Vec<Row> = totals.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    rows
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A load, a warm-up's worth of nothing, and two runs of three commands.
    pub fn profile() -> Profile {
        let json = serde_json::json!({
            "enabled": false,
            "dropped": 0,
            "events": [
                { "track": "thread", "thread": 1, "name": "compile a kernel",
                  "category": "compile", "start_ns": 20, "duration_ns": 40, "numbers": {} },
                { "track": "thread", "thread": 0, "name": "make the shaders ready",
                  "category": "compile", "start_ns": 10, "duration_ns": 60, "numbers": {} },
                { "track": "thread", "thread": 0, "name": "load forward", "category": "load",
                  "start_ns": 5, "duration_ns": 80, "numbers": {} },
                mm(1000), kernel(1500), encode(1000),
                mm(3000), kernel(3600), encode(2900),
            ],
        });
        let mark = |name: &str, start, duration| Mark { name: name.into(), start, duration };
        let marks = vec![mark("load", 0, 100), mark("run 0", 900, 1000), mark("run 1", 2900, 1000)];
        Profile::read(&json.to_string(), marks).unwrap()
    }

    fn mm(start: u64) -> serde_json::Value {
        let tensor = |m, n| serde_json::json!({ "dtype": "float32", "shape": [m, n], "bytes": 4 });
        serde_json::json!({
            "track": "device", "thread": 0, "name": "mm", "category": "op", "start_ns": start,
            "duration_ns": 400,
            "work": { "tensors": [tensor(2, 3), tensor(2, 5), tensor(5, 3)], "bytes": 200,
                      "flops": 800, "grid": null, "group": null },
        })
    }

    fn kernel(start: u64) -> serde_json::Value {
        serde_json::json!({
            "track": "device", "thread": 0, "name": "mps_lib_0", "category": "kernel",
            "start_ns": start, "duration_ns": 100,
            "work": { "tensors": [], "bytes": 50, "flops": null, "grid": [8, 1, 1],
                      "group": [8, 1, 1] },
        })
    }

    fn encode(start: u64) -> serde_json::Value {
        serde_json::json!({
            "track": "thread", "thread": 0, "name": "encode mm", "category": "encode",
            "start_ns": start, "duration_ns": 50, "numbers": { "commands": 2 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::testing::profile;
    use super::*;

    fn summary() -> Summary {
        Summary::of(&profile(), "m.pte".into(), "forward", "host: x".into())
    }

    #[test]
    fn calls_on_the_same_shapes_are_one_row() {
        let rows = summary().work;
        let [mm, kernel] = &rows[..] else { panic!("{} rows", rows.len()) };
        assert_eq!((mm.name.as_str(), mm.calls, mm.bytes), ("mm", 2, 200));
        assert_eq!(mm.tensors, ["float32[2,3]", "float32[2,5]", "float32[5,3]"]);
        assert_eq!((mm.share, mm.gigabytes_per_second), (0.4, 0.5));
        assert_eq!(mm.gigaflops_per_second, Some(2.0));
        assert_eq!((kernel.kind.as_str(), kernel.gigaflops_per_second), ("kernel", None));
    }

    #[test]
    fn parts_overlap_and_the_rest_is_what_none_covers() {
        let summary = summary();
        let parts: Vec<_> = summary.run_parts.iter().map(|p| (p.name.as_str(), p.share)).collect();
        // The first encode lies in the time of a command.
        assert_eq!(
            parts,
            [("device", 0.5), ("encode", 0.05), ("inputs and outputs", 0.0), ("rest", 0.475)]
        );
    }

    #[test]
    fn the_load_is_told_in_phases_of_its_own_thread() {
        let summary = summary();
        let names: Vec<_> = summary.load_parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["load forward", "make the shaders ready"]);
        assert_eq!(summary.load_parts[1].share, 0.6);
    }
}
