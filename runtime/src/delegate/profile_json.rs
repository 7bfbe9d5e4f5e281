//! The profile, as JSON for tools.

use std::ffi::c_char;

use serde_json::{Map, Value, json};

use super::ffi::write_text;
use crate::profile::{self, Event, TensorUse, What, Work};

/// Everything recorded so far.
pub fn json() -> Value {
    let recorded = profile::recorded();
    json!({
        "enabled": profile::enabled(),
        "dropped": recorded.dropped,
        "events": recorded.events.iter().map(event_json).collect::<Vec<_>>(),
    })
}

/// An event; `track` is where it happened, `thread` or `device`.
fn event_json(event: &Event) -> Value {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    set("thread", event.thread.into());
    set("start_ns", event.start.into());
    set("duration_ns", event.duration.into());
    match &event.what {
        What::Span { name, category, numbers } => {
            set("track", "thread".into());
            set("name", name.as_ref().into());
            set("category", category.name().into());
            let numbers = numbers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
            set("numbers", Value::Object(numbers.collect()));
        }
        What::Work(work) => {
            set("track", "device".into());
            set("name", work.name.as_str().into());
            set("category", work.kind.name().into());
            set("work", work_json(work));
        }
    }
    Value::Object(fields)
}

fn work_json(work: &Work) -> Value {
    json!({
        "tensors": work.tensors.iter().map(tensor_json).collect::<Vec<_>>(),
        "bytes": work.bytes,
        "flops": work.flops,
        "grid": work.threads.map(|threads| threads.grid),
        "group": work.threads.map(|threads| threads.group),
    })
}

fn tensor_json(tensor: &TensorUse) -> Value {
    json!({
        "dtype": tensor.dtype.name(),
        "shape": tensor.sizes.as_slice(),
        "bytes": tensor.bytes,
    })
}

/// Turns the profile on or off for the process. What was recorded stays.
#[unsafe(no_mangle)]
pub extern "C" fn etmetal_profile_enable(on: bool) {
    profile::enable(on);
}

/// The time now, in nanoseconds since the profile's origin.
#[unsafe(no_mangle)]
pub extern "C" fn etmetal_profile_now() -> u64 {
    profile::now()
}

/// The profile as JSON; returns the bytes needed without the final NUL and writes at most
/// `capacity` bytes including it.
///
/// # Safety
/// `buffer` is null or may be written for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etmetal_profile_json(buffer: *mut c_char, capacity: usize) -> usize {
    let text = std::panic::catch_unwind(|| json().to_string()).unwrap_or_default();
    // SAFETY: as the caller promises.
    unsafe { write_text(&text, buffer, capacity) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Category, Threads, WorkKind};
    use crate::tensor::DType;

    #[test]
    fn spans_and_commands_have_their_fields() {
        let (name, numbers) = ("commit".into(), vec![("commands", 3)]);
        let what = What::Span { name, category: Category::Submit, numbers };
        let span = Event { what, thread: 2, start: 5, duration: 7 };
        assert_eq!(
            event_json(&span),
            json!({
                "thread": 2, "start_ns": 5, "duration_ns": 7, "track": "thread",
                "name": "commit", "category": "submit", "numbers": { "commands": 3 },
            })
        );
        let tensor = TensorUse::new(DType::F32, &[2, 3], &[3, 1]);
        let mut work = Work::on(WorkKind::Kernel, "mps_lib_0".into(), vec![tensor]);
        work.threads = Some(Threads { grid: [6, 1, 1], group: [6, 1, 1] });
        let what = What::Work(Box::new(work));
        let command = event_json(&Event { what, thread: 0, start: 1, duration: 2 });
        assert_eq!((&command["track"], &command["category"]), (&"device".into(), &"kernel".into()));
        assert_eq!(
            command["work"],
            json!({
                "tensors": [{ "dtype": "float32", "shape": [2, 3], "bytes": 24 }],
                "bytes": 24, "flops": null, "grid": [6, 1, 1], "group": [6, 1, 1],
            })
        );
    }
}
