//! The profile as a file in Chrome's trace event format, which Perfetto reads too.
//!
//! Every event is a complete one (`"ph": "X"`) with times in microseconds. A thread has one track
//! for itself and one for what it has submitted to the device.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use etmetal::{Error, Result};
use serde_json::{Map, Value, json};
use tempfile::{Builder, NamedTempFile};

use super::events::{Event, Mark, Profile, Track, Work};
use super::summary::Summary;

const PROCESS: u32 = 1;

/// A file that appears when it is whole.
pub struct TraceFile {
    path: PathBuf,
    part: NamedTempFile,
}

impl TraceFile {
    /// Makes sure that the file can be made, before anything takes long.
    ///
    /// # Errors
    /// The folder is not there or cannot be written to, or something that is no file has the name.
    pub fn create(path: &Path) -> Result<TraceFile> {
        if path.exists() && !path.is_file() {
            return Err(Error::InvalidArgument(format!(
                "cannot write the trace {}: something that is no file has that name",
                path.display()
            )));
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = Builder::new();
        builder.prefix(".trace-").suffix(".part");
        // Who may read it is up to the umask, as for any new file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let part = builder.tempfile_in(folder).map_err(|e| failed(path, &e))?;
        Ok(TraceFile { path: path.to_owned(), part })
    }

    /// Writes the trace.
    ///
    /// # Errors
    /// The file cannot be written; there is none then.
    pub fn write(self, profile: &Profile, summary: &Summary) -> Result<()> {
        let TraceFile { path, part } = self;
        write_to(part.as_file(), profile, summary).map_err(|e| failed(&path, &e))?;
        part.persist(&path).map_err(|e| failed(&path, &e.error))?;
        Ok(())
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::System(format!("cannot write the trace {}: {error}", path.display()))
}

fn write_to(file: &File, profile: &Profile, summary: &Summary) -> std::io::Result<()> {
    let mut writer = BufWriter::new(file);
    serde_json::to_writer(&mut writer, &json(profile, summary))?;
    writer.flush()
}

/// The whole trace.
fn json(profile: &Profile, summary: &Summary) -> Value {
    let mut events = names(profile, summary);
    events.extend(profile.marks.iter().map(|mark| mark_json(mark, profile.main_thread)));
    events.extend(profile.events.iter().map(event_json));
    json!({
        "displayTimeUnit": "ms",
        "otherData": {
            "model": summary.model,
            "method": summary.method,
            "device": summary.device,
            "dropped_events": summary.dropped_events,
        },
        "traceEvents": events,
    })
}

/// The number of a track: each thread has two.
fn track(thread: u32, track: Track) -> u32 {
    2 * thread + if track == Track::Device { 2 } else { 1 }
}

/// What the process and its tracks are called, and in which order they are shown.
fn names(profile: &Profile, summary: &Summary) -> Vec<Value> {
    let mut tracks: Vec<(u32, Track)> =
        profile.events.iter().map(|event| (event.thread, event.track)).collect();
    tracks.push((profile.main_thread, Track::Thread));
    tracks.sort_by_key(|&(thread, place)| track(thread, place));
    tracks.dedup();
    let meta = |name: &str, tid: u32, args: Value| json!({ "ph": "M", "pid": PROCESS, "tid": tid, "name": name, "args": args });
    let process = json!({ "name": format!("etmetal {}", summary.model) });
    let mut events = vec![meta("process_name", 0, process)];
    for (thread, place) in tracks {
        let name = match place {
            Track::Thread if thread == profile.main_thread => "calling thread".to_owned(),
            Track::Thread => format!("compiler thread {thread}"),
            Track::Device => format!("device ({})", summary.device),
        };
        let (tid, after) = (track(thread, place), thread != profile.main_thread);
        events.push(meta("thread_name", tid, json!({ "name": name })));
        // The calling thread and its device first.
        let index = tid + if after { 1000 } else { 0 };
        events.push(meta("thread_sort_index", tid, json!({ "sort_index": index })));
    }
    events
}

fn complete(name: &str, category: &str, tid: u32, start: u64, duration: u64, args: Value) -> Value {
    json!({
        "ph": "X", "pid": PROCESS, "tid": tid, "name": name, "cat": category,
        "ts": microseconds(start), "dur": microseconds(duration), "args": args,
    })
}

/// Exact: numbers of nanoseconds are far below 2^53.
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

fn mark_json(mark: &Mark, thread: u32) -> Value {
    let tid = track(thread, Track::Thread);
    complete(&mark.name, "program", tid, mark.start, mark.duration, json!({}))
}

fn event_json(event: &Event) -> Value {
    let args = match &event.work {
        Some(work) => work_json(work, event.duration),
        None => json!(event.numbers),
    };
    let tid = track(event.thread, event.track);
    complete(&event.name, &event.category, tid, event.start, event.duration, args)
}

fn work_json(work: &Work, duration: u64) -> Value {
    let mut args = Map::new();
    let mut set = |name: &str, value: Value| args.insert(name.to_owned(), value);
    // Amounts a nanosecond are billions a second.
    let time = duration.max(1) as f64;
    set("tensors", work.tensors.iter().map(|tensor| tensor.text()).collect());
    set("bytes", work.bytes.into());
    set("GB/s", (work.bytes as f64 / time).into());
    if let Some(flops) = work.flops {
        set("flops", flops.into());
        set("GFLOP/s", (flops as f64 / time).into());
    }
    if let (Some(grid), Some(group)) = (work.grid, work.group) {
        set("threads", json!(grid));
        set("threadgroup", json!(group));
    }
    Value::Object(args)
}

#[cfg(test)]
mod tests {
    use super::super::summary::testing::profile;
    use super::*;

    fn summary(profile: &Profile) -> Summary {
        Summary::of(profile, "m.pte".into(), "forward", "host: x".into())
    }

    #[test]
    fn every_event_is_on_the_track_of_its_place() {
        let profile = profile();
        let trace = json(&profile, &summary(&profile));
        let events = trace["traceEvents"].as_array().unwrap();
        let tid = |name: &str| {
            let event = events.iter().find(|e| e["name"] == name && e["ph"] == "X");
            event.unwrap_or_else(|| panic!("no {name}"))["tid"].as_u64().unwrap()
        };
        assert_eq!([tid("run 0"), tid("load forward"), tid("encode mm")], [1, 1, 1]);
        assert_eq!([tid("mm"), tid("mps_lib_0")], [2, 2]);
        assert_eq!(tid("compile a kernel"), 3);
        let names: Vec<_> = events
            .iter()
            .filter(|event| event["name"] == "thread_name")
            .map(|event| event["args"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["calling thread", "device (host: x)", "compiler thread 1"]);
    }

    #[test]
    fn commands_tell_what_they_did() {
        let profile = profile();
        let trace = json(&profile, &summary(&profile));
        let events = trace["traceEvents"].as_array().unwrap();
        let event = |name: &str| events.iter().find(|e| e["name"] == name).unwrap();
        let mm = event("mm");
        assert_eq!((&mm["ts"], &mm["dur"]), (&json!(1.0), &json!(0.4)));
        assert_eq!(
            mm["args"],
            json!({
                "tensors": ["float32[2,3]", "float32[2,5]", "float32[5,3]"], "bytes": 200,
                "GB/s": 0.5, "flops": 800, "GFLOP/s": 2.0,
            })
        );
        let kernel = &event("mps_lib_0")["args"];
        assert_eq!(
            (&kernel["threads"], &kernel["threadgroup"]),
            (&json!([8, 1, 1]), &json!([8, 1, 1]))
        );
    }

    #[test]
    fn the_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let profile = profile();
        let names = || -> Vec<_> {
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect()
        };
        let file = TraceFile::create(&path).unwrap();
        assert!(!path.exists());
        drop(file);
        assert!(names().is_empty(), "nothing stays of a trace that was not written");
        TraceFile::create(&path).unwrap().write(&profile, &summary(&profile)).unwrap();
        assert_eq!(names(), ["trace.json"]);
        let read: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, json(&profile, &summary(&profile)));
    }

    #[test]
    fn places_that_cannot_be_written_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: &Path| TraceFile::create(path).err().unwrap().to_string();
        let missing = message(&folder.path().join("no/such/folder.json"));
        assert!(missing.contains("no/such/folder.json"), "{missing}");
        assert!(message(folder.path()).contains("no file has that name"));
        assert!(message(Path::new("/dev/null")).contains("no file has that name"));
    }
}
