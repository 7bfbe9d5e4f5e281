//! What the delegate recorded, as it tells it in JSON.

use std::collections::BTreeMap;
use std::ops::Range;

use etmetal::{Error, Result};
use serde::Deserialize;

/// Everything that is known of the load and the runs.
pub struct Profile {
    /// What this program did, first the load, then the runs.
    pub marks: Vec<Mark>,
    /// What the delegate did.
    pub events: Vec<Event>,
    /// Events that the delegate had no room for.
    pub dropped: u64,
    /// The number of the thread that loaded and ran.
    pub main_thread: u32,
}

/// Something that this program did.
pub struct Mark {
    /// `load`, `run 0`, …
    pub name: String,
    /// Nanoseconds of the delegate's clock.
    pub start: u64,
    /// Nanoseconds.
    pub duration: u64,
}

/// Where something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Track {
    /// On a thread.
    Thread,
    /// On the device, submitted by that thread.
    Device,
}

/// Something that the delegate did.
#[derive(Debug, Clone, Deserialize)]
pub struct Event {
    pub track: Track,
    pub thread: u32,
    pub name: String,
    pub category: String,
    #[serde(rename = "start_ns")]
    pub start: u64,
    #[serde(rename = "duration_ns")]
    pub duration: u64,
    /// What is known of a span.
    #[serde(default)]
    pub numbers: BTreeMap<String, u64>,
    /// What a command was.
    pub work: Option<Work>,
}

/// A command on the device.
#[derive(Debug, Clone, Deserialize)]
pub struct Work {
    pub tensors: Vec<Tensor>,
    pub bytes: u64,
    pub flops: Option<u64>,
    /// Threads of the grid.
    pub grid: Option<[u32; 3]>,
    /// Threads of a threadgroup.
    pub group: Option<[u32; 3]>,
}

/// A tensor that a command uses.
#[derive(Debug, Clone, Deserialize)]
pub struct Tensor {
    pub dtype: String,
    pub shape: Vec<i64>,
}

#[derive(Deserialize)]
struct Recorded {
    dropped: u64,
    events: Vec<Event>,
}

impl Profile {
    /// Reads what the delegate tells.
    ///
    /// # Errors
    /// It tells it in another form.
    pub fn read(json: &str, marks: Vec<Mark>) -> Result<Profile> {
        let Recorded { dropped, events } = serde_json::from_str(json)
            .map_err(|e| Error::Internal(format!("the profile cannot be read: {e}")))?;
        // Kernels may be compiled on threads of their own; nothing else is.
        let main = events.iter().rev().find(|e| e.category != "compile");
        let main_thread = main.map_or(0, |event| event.thread);
        Ok(Profile { marks, events, dropped, main_thread })
    }

    /// The load.
    pub fn load(&self) -> Option<&Mark> {
        self.marks.first()
    }

    /// The runs.
    pub fn runs(&self) -> &[Mark] {
        self.marks.get(1..).unwrap_or_default()
    }

    /// What the delegate did in the recorded runs.
    pub fn events_of_runs(&self) -> impl Iterator<Item = &Event> {
        let first = self.runs().first().map_or(u64::MAX, |mark| mark.start);
        self.events.iter().filter(move |event| event.start >= first)
    }
}

impl Mark {
    /// Seconds that it took.
    pub fn seconds(&self) -> f64 {
        seconds(self.duration)
    }
}

impl Event {
    /// Its time, in nanoseconds.
    pub fn span(&self) -> Range<u64> {
        self.start..self.start + self.duration
    }
}

impl Tensor {
    /// `float32[2,3]`.
    pub fn text(&self) -> String {
        let sizes: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        format!("{}[{}]", self.dtype, sizes.join(","))
    }
}

/// Seconds of so many nanoseconds.
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
