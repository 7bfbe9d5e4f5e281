//! The profile: what was done when, on the calling threads and on the device.
//!
//! Off, which is the default, each place that could record looks at one flag. On, it records one
//! [`Event`] under a lock. Events are kept until the process ends, at most [`MOST_EVENTS`].
//!
//! There are two kinds of track. On a thread's own track lie [`Span`]s: loads, runs, encodes,
//! commits, waits, copies. Spans of one thread nest. On the device's track lie commands, each
//! with the [`Work`] that it was: the layers above describe commands when they encode them
//! ([`CommandBuffer::describe`](crate::device::CommandBuffer::describe)), the device tells
//! when they ran ([`record_work`]).

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

mod work;

pub use work::{TensorUse, Threads, Work, WorkKind};

/// Events that are kept; later ones are counted and dropped.
pub const MOST_EVENTS: usize = 1 << 20;

static ENABLED: AtomicBool = AtomicBool::new(false);
static EVENTS: Mutex<Recorded> = Mutex::new(Recorded { events: Vec::new(), dropped: 0 });

/// Whether events are recorded.
#[inline]
pub fn enabled() -> bool {
    ENABLED.load(Relaxed)
}

/// Starts or stops recording. What was recorded stays.
pub fn enable(on: bool) {
    ENABLED.store(on, Relaxed);
}

/// What was recorded.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// In the order in which they ended.
    pub events: Vec<Event>,
    /// Events that came when [`MOST_EVENTS`] were there.
    pub dropped: u64,
}

/// Something that took time.
#[derive(Debug, Clone)]
pub struct Event {
    /// What it was.
    pub what: What,
    /// The number of the thread that did it, or that submitted it to the device.
    pub thread: u32,
    /// Nanoseconds since the profile's origin; see [`now`].
    pub start: u64,
    /// Nanoseconds that it took.
    pub duration: u64,
}

/// What an event was.
#[derive(Debug, Clone)]
pub enum What {
    /// Work of the thread.
    Span {
        /// What was done.
        name: Cow<'static, str>,
        /// The part of the runtime that did it.
        category: Category,
        /// Numbers that belong to it, by name.
        numbers: Vec<(&'static str, u64)>,
    },
    /// A command on the device.
    Work(Box<Work>),
}

/// The part of the runtime that a span belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// Loading a model.
    Load,
    /// Compiling kernels, or loading compiled ones.
    Compile,
    /// Running a model.
    Run,
    /// Moving inputs and outputs.
    Copy,
    /// Recording a command.
    Encode,
    /// Handing commands to the device.
    Submit,
    /// Waiting for the device.
    Wait,
}

impl Category {
    /// Its name in a trace.
    pub fn name(self) -> &'static str {
        match self {
            Category::Load => "load",
            Category::Compile => "compile",
            Category::Run => "run",
            Category::Copy => "copy",
            Category::Encode => "encode",
            Category::Submit => "submit",
            Category::Wait => "wait",
        }
    }
}

/// Everything recorded so far.
pub fn recorded() -> Recorded {
    EVENTS.lock().clone()
}

/// Nanoseconds since the profile's origin, which is the first call of this function.
pub fn now() -> u64 {
    since_origin(Instant::now())
}

fn since_origin(at: Instant) -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    u64::try_from(at.saturating_duration_since(origin).as_nanos()).unwrap_or(u64::MAX)
}

/// The number of the calling thread: 0, 1, … in the order in which they recorded first.
fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static NUMBER: Cell<Option<u32>> = const { Cell::new(None) };
    }
    NUMBER.get().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Relaxed);
        NUMBER.set(Some(number));
        number
    })
}

fn record(what: What, start: u64, end: u64) {
    let thread = thread_number();
    let event = Event { what, thread, start, duration: end.saturating_sub(start) };
    let mut recorded = EVENTS.lock();
    if recorded.events.len() < MOST_EVENTS {
        recorded.events.push(event);
    } else {
        recorded.dropped += 1;
    }
}

/// Records that the device worked on a command of the calling thread from `start` to `end`, in
/// nanoseconds as [`now`] gives them.
pub fn record_work(work: Work, start: u64, end: u64) {
    record(What::Work(Box::new(work)), start, end);
}

/// Work of the calling thread from its making to its drop. Nothing while recording is off.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span(Option<Open>);

#[derive(Debug)]
struct Open {
    name: Cow<'static, str>,
    category: Category,
    numbers: Vec<(&'static str, u64)>,
    start: u64,
}

/// Begins a span.
#[inline]
pub fn span(category: Category, name: &'static str) -> Span {
    span_named(category, || name)
}

/// Begins a span whose name takes making.
#[inline]
pub fn span_named<N: Into<Cow<'static, str>>>(
    category: Category,
    name: impl FnOnce() -> N,
) -> Span {
    Span(enabled().then(|| Open {
        name: name().into(),
        category,
        numbers: Vec::new(),
        start: now(),
    }))
}

impl Span {
    fn end(&mut self) {
        if let Some(Open { name, category, numbers, start }) = self.0.take() {
            record(What::Span { name, category, numbers }, start, now());
        }
    }

    /// Notes a number that belongs to the span.
    pub fn number(&mut self, name: &'static str, value: u64) {
        if let Some(open) = &mut self.0 {
            open.numbers.push((name, value));
        }
    }

    /// Changes the name, once it is known what the work turned out to be.
    pub fn rename(&mut self, name: &'static str) {
        if let Some(open) = &mut self.0 {
            open.name = name.into();
        }
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_some() {
            self.end();
        }
    }
}

/// For tests that record: they share the one profile of the process, so one at a time does.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    static ONE: Mutex<()> = Mutex::new(());

    /// The events that the calling thread recorded during `work`.
    pub(crate) fn events_of(work: impl FnOnce()) -> Vec<Event> {
        let _one = ONE.lock();
        let before = recorded().events.len();
        enable(true);
        work();
        enable(false);
        let thread = thread_number();
        recorded().events.into_iter().skip(before).filter(|e| e.thread == thread).collect()
    }

    /// The names of the spans among `events`, in the order in which they ended.
    pub(crate) fn span_names(events: &[Event]) -> Vec<String> {
        let name = |event: &Event| match &event.what {
            What::Span { name, .. } => Some(name.to_string()),
            What::Work(_) => None,
        };
        events.iter().filter_map(name).collect()
    }

    /// The commands among `events`.
    pub(crate) fn works(events: &[Event]) -> Vec<Work> {
        let work = |event: &Event| match &event.what {
            What::Span { .. } => None,
            What::Work(work) => Some((**work).clone()),
        };
        events.iter().filter_map(work).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{events_of, span_names};
    use super::*;

    #[test]
    fn spans_nest_and_keep_their_numbers() {
        let events = events_of(|| {
            let mut outer = span(Category::Run, "outer");
            outer.number("bytes", 12);
            let mut inner = span_named(Category::Encode, || format!("inner {}", 1));
            inner.rename("renamed");
        });
        assert_eq!(span_names(&events), ["renamed", "outer"]);
        let [inner, outer] = &events[..] else { panic!("{events:?}") };
        assert!(outer.start <= inner.start);
        assert!(inner.start + inner.duration <= outer.start + outer.duration);
        let What::Span { category, numbers, .. } = &outer.what else { panic!("{outer:?}") };
        assert_eq!((*category, &numbers[..]), (Category::Run, &[("bytes", 12)][..]));
    }

    #[test]
    fn nothing_is_recorded_while_off() {
        let events = events_of(|| {
            enable(false);
            let mut off = span_named(Category::Run, || -> String { panic!("not even the name") });
            off.number("bytes", 1);
            drop(off);
        });
        assert!(events.is_empty(), "{events:?}");
    }

    #[test]
    fn threads_have_numbers_of_their_own() {
        let mine = thread_number();
        assert_eq!(thread_number(), mine);
        let others = std::thread::spawn(thread_number).join().unwrap();
        assert_ne!(others, mine);
    }
}
