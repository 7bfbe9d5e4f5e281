//! The stream: where one thread records commands, and when they are submitted.
//!
//! Commands go into a command buffer that is made on first use and committed in three ways:
//! when enough commands have gathered ([`Stream::adaptive`]), explicitly ([`Stream::commit`]), or
//! because the CPU wants to look at memory ([`Stream::commit_and_wait`]). Until then nothing has
//! run: **whoever reads or writes tensor memory on the CPU waits first.**
//!
//! A stream belongs to one thread, as its command buffer does. The state of the kernel call that
//! is being encoded lives here too, not in the kernel, so that several threads can run one model
//! at once.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use crate::device::{
    BufferRef, CommandBuffer, Continued, Device, Dispatch, Executable, Grid, Operand, Submission,
};
use crate::error::{Context as _, err};
use crate::graph::GraphKey;
use crate::kernel::{Arguments, Kernel};
use crate::profile::{self, Category, Span, TensorUse, Threads, Work, WorkKind};
use crate::{Error, Result};

/// Commands after which [`Stream::adaptive`] commits, unless `ETMETAL_FLUSH_INTERVAL` says
/// otherwise. Large enough to make the cost of a commit small, small enough to keep the device
/// busy while the CPU encodes on.
pub const DEFAULT_FLUSH_INTERVAL: usize = 64;

/// Environment variable for the number of commands after which a stream commits by itself.
pub const FLUSH_INTERVAL_VARIABLE: &str = "ETMETAL_FLUSH_INTERVAL";

/// What a stream has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Kernel calls.
    pub dispatches: u64,
    /// Copies of byte ranges.
    pub copies: u64,
    /// Fills of byte ranges.
    pub fills: u64,
    /// Op graphs.
    pub graphs: u64,
    /// Command buffers submitted.
    pub commits: u64,
    /// Times the CPU waited for the device.
    pub waits: u64,
}

/// One thread's queue of commands on one device. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Stream(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    device: Arc<dyn Device>,
    flush_interval: usize,
    /// The command buffer being recorded; made on first use.
    recording: RefCell<Option<Box<dyn CommandBuffer>>>,
    /// Committed work that nobody has waited for.
    in_flight: RefCell<VecDeque<Box<dyn Submission>>>,
    /// The first failure of committed work since the last wait.
    failure: RefCell<Option<Error>>,
    /// The kernel call being encoded.
    encoding: RefCell<Option<Encoding>>,
    stats: Cell<StreamStats>,
}

/// A kernel call whose arguments are being set.
#[derive(Debug)]
struct Encoding {
    kernel: Kernel,
    arguments: Arguments,
}

thread_local! {
    /// The streams that [`Stream::enter`] made current, innermost last.
    static CURRENT: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a stream current; see [`Stream::enter`].
#[derive(Debug)]
pub struct StreamGuard {
    stream: Stream,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        // Guards may be dropped out of order; each takes the innermost entry of its own stream.
        CURRENT.with_borrow_mut(|streams| {
            if let Some(at) = streams.iter().rposition(|s| Rc::ptr_eq(&s.0, &self.stream.0)) {
                streams.remove(at);
            }
        });
    }
}

impl Stream {
    /// A stream on `device` with the flush interval of the environment.
    ///
    /// # Errors
    /// `ETMETAL_FLUSH_INTERVAL` is set and is no positive number.
    pub fn new(device: Arc<dyn Device>) -> Result<Self> {
        Ok(Stream::with_flush_interval(device, flush_interval_of_environment()?))
    }

    /// A stream that commits by itself after `flush_interval` commands (at least 1).
    pub fn with_flush_interval(device: Arc<dyn Device>, flush_interval: usize) -> Self {
        Stream(Rc::new(Inner {
            device,
            flush_interval: flush_interval.max(1),
            recording: RefCell::new(None),
            in_flight: RefCell::new(VecDeque::new()),
            failure: RefCell::new(None),
            encoding: RefCell::new(None),
            stats: Cell::new(StreamStats::default()),
        }))
    }

    /// The calling thread's current stream.
    ///
    /// # Errors
    /// No stream was entered on this thread.
    pub fn current() -> Result<Self> {
        Stream::try_current().ok_or_else(|| {
            err!(
                InvalidArgument,
                "no stream is current on this thread: device work can be encoded only while a \
                 model is being loaded or run"
            )
        })
    }

    /// The calling thread's current stream, if there is one.
    pub fn try_current() -> Option<Self> {
        CURRENT.with_borrow(|streams| streams.last().cloned())
    }

    /// Makes this the thread's current stream until the guard is dropped. Nests.
    #[must_use = "the stream is current only while the guard lives"]
    pub fn enter(&self) -> StreamGuard {
        CURRENT.with_borrow_mut(|streams| streams.push(self.clone()));
        StreamGuard { stream: self.clone() }
    }

    /// Its device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.0.device
    }

    /// What it has done so far.
    pub fn stats(&self) -> StreamStats {
        self.0.stats.get()
    }

    /// Commands recorded and not yet committed.
    pub fn pending(&self) -> usize {
        self.0.recording.borrow().as_ref().map_or(0, |c| c.command_count())
    }

    /// Whether all work has been committed and waited for.
    pub fn is_idle(&self) -> bool {
        self.pending() == 0 && self.0.in_flight.borrow().is_empty()
    }

    // ---- the kernel call being encoded --------------------------------------------------------

    /// Begins a call of `kernel`: its arguments are set next, then it is dispatched, more than
    /// once if wanted. The arguments stay set until another call begins.
    pub fn start_encoding(&self, kernel: &Kernel) {
        let mut encoding = self.0.encoding.borrow_mut();
        match &mut *encoding {
            // Reuse the argument list: the same few kernels alternate thousands of times.
            Some(current) => {
                current.arguments.clear();
                if !(current.kernel.is(kernel) && current.kernel.shares_library(kernel)) {
                    current.kernel = kernel.clone();
                }
            }
            None => {
                *encoding = Some(Encoding { kernel: kernel.clone(), arguments: Arguments::new() });
            }
        }
    }

    /// Ends the call being encoded: its arguments are let go.
    pub fn end_encoding(&self) {
        self.0.encoding.take();
    }

    /// Changes the arguments of the call of `kernel` that is being encoded.
    ///
    /// # Errors
    /// No call of `kernel` was started, or `change` fails; the message names the kernel.
    pub fn encode_arguments(
        &self,
        kernel: &Kernel,
        change: impl FnOnce(&mut Arguments) -> Result<()>,
    ) -> Result<()> {
        let mut encoding = self.0.encoding.borrow_mut();
        let encoding = expect_encoding(&mut encoding, kernel)?;
        change(&mut encoding.arguments).context(|| kernel.describe())
    }

    /// Dispatches the call of `kernel` that is being encoded.
    ///
    /// # Errors
    /// No call of `kernel` was started, or the device refuses it; the message names the kernel.
    pub fn dispatch_encoded(&self, kernel: &Kernel, grid: Grid) -> Result<()> {
        let mut encoding = self.0.encoding.borrow_mut();
        let encoding = expect_encoding(&mut encoding, kernel)?;
        self.dispatch(&encoding.kernel, &encoding.arguments, grid)
    }

    // ---- commands -----------------------------------------------------------------------------

    /// Encodes one kernel call. A grid without threads is ordinary and encodes nothing.
    ///
    /// # Errors
    /// The device refuses it; the message names the kernel.
    pub fn dispatch(&self, kernel: &Kernel, arguments: &Arguments, grid: Grid) -> Result<()> {
        let extent = match grid {
            Grid::Threads { threads, .. } => threads,
            Grid::Threadgroups { groups, .. } => groups,
        };
        if extent.contains(&0) {
            return Ok(());
        }
        let dispatch = Dispatch {
            pipeline: kernel.pipeline(),
            library: Some(kernel.library()),
            arguments: arguments.buffers(),
            threadgroup_memory: arguments.threadgroup_memory(),
            grid,
        };
        let span = encode_span(|| kernel.label());
        self.record(|commands| {
            commands.dispatch(&dispatch)?;
            describe(commands, || kernel_work(kernel, arguments, grid));
            Ok(())
        })
        .context(|| kernel.describe())?;
        drop(span);
        self.count(|stats| stats.dispatches += 1);
        self.adaptive()
    }

    /// Encodes a copy of `len` bytes between ranges that do not overlap.
    ///
    /// # Errors
    /// A range leaves its buffer.
    pub fn copy(
        &self,
        src: (&BufferRef, usize),
        dst: (&BufferRef, usize),
        len: usize,
    ) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let span = encode_span(|| "copy");
        self.record(|commands| {
            commands.copy(src, dst, len)?;
            describe(commands, || Work::on_bytes(WorkKind::Copy, 2 * len as u64));
            Ok(())
        })
        .context(|| "copy")?;
        drop(span);
        self.count(|stats| stats.copies += 1);
        self.adaptive()
    }

    /// Encodes a fill of `len` bytes with `value`.
    ///
    /// # Errors
    /// The range leaves the buffer.
    pub fn fill(&self, dst: (&BufferRef, usize), len: usize, value: u8) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let span = encode_span(|| "fill");
        self.record(|commands| {
            commands.fill(dst, len, value)?;
            describe(commands, || Work::on_bytes(WorkKind::Fill, len as u64));
            Ok(())
        })
        .context(|| "fill")?;
        drop(span);
        self.count(|stats| stats.fills += 1);
        self.adaptive()
    }

    /// Encodes an op graph, lowered from `key`; operands in the order of the key.
    ///
    /// # Errors
    /// An operand does not match the key, or leaves its buffer.
    pub fn run(
        &self,
        key: &GraphKey,
        executable: &Arc<dyn Executable>,
        operands: &[Operand],
    ) -> Result<()> {
        let span = encode_span(|| key.op.name());
        self.record(|commands| {
            commands.run(executable, operands)?;
            describe(commands, || op_work(key, operands));
            Ok(())
        })?;
        drop(span);
        self.count(|stats| stats.graphs += 1);
        self.adaptive()
    }

    // ---- submission ---------------------------------------------------------------------------

    /// Commits if enough commands have gathered. Called after every command.
    ///
    /// # Errors
    /// As for [`Stream::commit`].
    pub fn adaptive(&self) -> Result<()> {
        let due = self.pending() >= self.0.flush_interval;
        if due { self.submit(|commands| commands.commit_and_continue()) } else { Ok(()) }
    }

    /// Submits what was recorded, without waiting.
    ///
    /// # Errors
    /// The device refused the work. Failures while it runs come back from the next wait.
    pub fn commit(&self) -> Result<()> {
        self.submit(|commands| Ok((commands.commit()?, None)))
    }

    /// Submits what was recorded, if anything was.
    fn submit(&self, how: impl FnOnce(Box<dyn CommandBuffer>) -> Result<Continued>) -> Result<()> {
        let Some(commands) = self.0.recording.take() else { return Ok(()) };
        if commands.command_count() == 0 {
            return Ok(());
        }
        self.reap_completed();
        let mut span = profile::span(Category::Submit, "commit");
        span.number("commands", commands.command_count() as u64);
        let (submission, next) = how(commands)?;
        drop(span);
        self.0.in_flight.borrow_mut().push_back(submission);
        *self.0.recording.borrow_mut() = next;
        self.count(|stats| stats.commits += 1);
        Ok(())
    }

    /// Submits what was recorded and opens the next command buffer at once, so that the device
    /// works while the CPU encodes on.
    ///
    /// # Errors
    /// As for [`Stream::commit`]; or the device is lost.
    pub fn commit_and_continue(&self) -> Result<()> {
        self.submit(|commands| commands.commit_and_continue())?;
        if self.0.recording.borrow().is_none() {
            let next = self.0.device.command_buffer()?;
            *self.0.recording.borrow_mut() = Some(next);
        }
        Ok(())
    }

    /// Submits what was recorded and waits until all work of this stream has completed. After it
    /// the CPU may read and write the memory that the commands used.
    ///
    /// # Errors
    /// The first failure of any work since the last wait. All of it has ended nevertheless.
    pub fn commit_and_wait(&self) -> Result<()> {
        let committed = self.commit();
        // The queue stays where it is, with its memory, for the work to come.
        let mut in_flight = self.0.in_flight.borrow_mut();
        if !in_flight.is_empty() {
            self.count(|stats| stats.waits += 1);
            let span = profile::span(Category::Wait, "wait");
            for mut submission in in_flight.drain(..) {
                self.keep_failure(submission.wait());
            }
            drop(span);
        }
        drop(in_flight);
        committed?;
        self.0.failure.take().map_or(Ok(()), Err)
    }

    /// Drops what was recorded and not committed. Committed work is not affected.
    pub fn discard(&self) {
        self.0.recording.take();
        self.0.encoding.take();
    }

    /// Lets go of submissions that have completed, keeping the first failure for the next wait.
    fn reap_completed(&self) {
        let mut in_flight = self.0.in_flight.borrow_mut();
        while in_flight.front().is_some_and(|s| s.is_done()) {
            let mut done = in_flight.pop_front().expect("just seen");
            self.keep_failure(done.wait());
        }
    }

    fn keep_failure(&self, result: Result<()>) {
        if let Err(error) = result {
            self.0.failure.borrow_mut().get_or_insert(error);
        }
    }

    fn record(&self, encode: impl FnOnce(&mut dyn CommandBuffer) -> Result<()>) -> Result<()> {
        let mut recording = self.0.recording.borrow_mut();
        if recording.is_none() {
            *recording = Some(self.0.device.command_buffer()?);
        }
        encode(&mut **recording.as_mut().expect("just made"))
    }

    fn count(&self, add: impl FnOnce(&mut StreamStats)) {
        let mut stats = self.0.stats.get();
        add(&mut stats);
        self.0.stats.set(stats);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Work in flight may use borrowed memory whose owner believes the stream is gone.
        for submission in self.in_flight.get_mut() {
            let _ = submission.wait();
        }
    }
}

fn expect_encoding<'a>(
    encoding: &'a mut Option<Encoding>,
    kernel: &Kernel,
) -> Result<&'a mut Encoding> {
    let Some(current) = encoding else {
        return Err(err!(
            InvalidArgument,
            "{}: no call is being encoded on this thread; start encoding first",
            kernel.describe()
        ));
    };
    if !current.kernel.is(kernel) {
        return Err(err!(
            InvalidArgument,
            "{}: a call of {} is being encoded on this thread; start encoding first",
            kernel.describe(),
            current.kernel.describe()
        ));
    }
    Ok(current)
}

/// The span of encoding a command.
fn encode_span<N: Into<Cow<'static, str>>>(name: impl FnOnce() -> N) -> Span {
    profile::span_named(Category::Encode, || format!("encode {}", name().into()))
}

/// Tells a command buffer what its last command is, while profiling.
fn describe(commands: &mut dyn CommandBuffer, work: impl FnOnce() -> Work) {
    if profile::enabled() {
        commands.describe(work());
    }
}

fn kernel_work(kernel: &Kernel, arguments: &Arguments, grid: Grid) -> Work {
    let tensors = arguments.tensor_uses().cloned().collect();
    let threads = match grid {
        Grid::Threads { threads, group } => Threads { grid: threads, group },
        Grid::Threadgroups { groups, group } => {
            Threads { grid: std::array::from_fn(|i| groups[i].saturating_mul(group[i])), group }
        }
    };
    Work { threads: Some(threads), ..Work::on(WorkKind::Kernel, kernel.label(), tensors) }
}

fn op_work(key: &GraphKey, operands: &[Operand]) -> Work {
    let tensors = operands.iter().map(|o| TensorUse::new(o.dtype, &o.sizes, &o.strides)).collect();
    Work { flops: key.flops(), ..Work::on(WorkKind::Op, key.op.name().to_owned(), tensors) }
}

/// The flush interval of new streams: `ETMETAL_FLUSH_INTERVAL`, else [`DEFAULT_FLUSH_INTERVAL`].
///
/// # Errors
/// The variable is set and is no positive number.
pub fn flush_interval_of_environment() -> Result<usize> {
    match std::env::var(FLUSH_INTERVAL_VARIABLE) {
        Err(_) => Ok(DEFAULT_FLUSH_INTERVAL),
        Ok(text) => parse_flush_interval(&text),
    }
}

fn parse_flush_interval(text: &str) -> Result<usize> {
    text.trim().parse().ok().filter(|&n| n > 0).ok_or_else(|| {
        err!(
            InvalidArgument,
            "{FLUSH_INTERVAL_VARIABLE}={text:?} is no positive number of commands"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::HostDevice;
    use crate::library::testing::adders;
    use crate::ops::testing::{contiguous, values};
    use crate::tensor::{DType, Tensor};

    fn stream(flush_interval: usize) -> Stream {
        let device: Arc<dyn Device> = HostDevice::shared();
        Stream::with_flush_interval(device, flush_interval)
    }

    fn numbers(values: &[f64]) -> Tensor {
        contiguous(DType::U32, &[values.len() as i64], values)
    }

    /// Encodes `out[i] += x` as a model does.
    fn add(stream: &Stream, kernel: &Kernel, out: &Tensor, x: u32) -> Result<()> {
        stream.start_encoding(kernel);
        stream.encode_arguments(kernel, |a| a.tensor(0, out))?;
        stream.encode_arguments(kernel, |a| a.u32(1, x))?;
        stream.dispatch_encoded(kernel, kernel.grid_1d(out.numel() as u64, None)?)
    }

    #[test]
    fn nothing_runs_before_it_is_committed() {
        let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
        let out = numbers(&[1.0, 2.0]);
        add(&stream, &kernel, &out, 10).unwrap();
        assert_eq!((stream.pending(), stream.is_idle()), (1, false));
        assert_eq!(values(&out), [1.0, 2.0]);
        stream.commit_and_wait().unwrap();
        assert_eq!(values(&out), [11.0, 12.0]);
        assert!(stream.is_idle());
        let stats = stream.stats();
        assert_eq!((stats.dispatches, stats.commits, stats.waits), (1, 1, 1));
    }

    #[test]
    fn a_full_command_buffer_commits_itself() {
        let (stream, kernel) = (stream(3), adders("l").kernel("add_plain").unwrap());
        let out = numbers(&[0.0]);
        for _ in 0..7 {
            add(&stream, &kernel, &out, 1).unwrap();
        }
        assert_eq!((stream.stats().commits, stream.pending()), (2, 1));
        stream.commit().unwrap();
        stream.commit().unwrap();
        assert_eq!(stream.stats().commits, 3, "an empty command buffer is not committed");
        stream.commit_and_wait().unwrap();
        assert_eq!(values(&out), [7.0]);
        stream.commit_and_continue().unwrap();
        assert!(stream.is_idle());
    }

    #[test]
    fn arguments_stay_set_for_the_next_dispatch_of_a_call() {
        let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
        let (a, b) = (numbers(&[0.0, 0.0]), numbers(&[0.0, 0.0]));
        add(&stream, &kernel, &a, 5).unwrap();
        stream.encode_arguments(&kernel, |args| args.tensor(0, &b)).unwrap();
        stream.dispatch_encoded(&kernel, kernel.grid_1d(1, None).unwrap()).unwrap();
        stream.commit_and_wait().unwrap();
        assert_eq!((values(&a), values(&b)), (vec![5.0, 5.0], vec![5.0, 0.0]));
    }

    #[test]
    fn a_new_call_begins_without_arguments() {
        let (stream, library) = (stream(100), adders("l"));
        let (plain, groups) =
            (library.kernel("add_plain").unwrap(), library.kernel("add_groups").unwrap());
        let out = numbers(&[0.0]);
        add(&stream, &plain, &out, 5).unwrap();
        stream.start_encoding(&groups);
        let grid = groups.grid_1d(1, None).unwrap();
        let text = stream.dispatch_encoded(&groups, grid).unwrap_err().to_string();
        assert!(text.contains("add_groups"), "{text}");
        assert_eq!(stream.pending(), 1, "what was refused is not encoded");
    }

    #[test]
    fn encoding_out_of_order_is_refused_by_name() {
        let (stream, library) = (stream(100), adders("lib"));
        let (plain, groups) =
            (library.kernel("add_plain").unwrap(), library.kernel("add_groups").unwrap());
        let text = stream.encode_arguments(&plain, |a| a.u32(0, 1)).unwrap_err().to_string();
        assert!(text.contains("add_plain") && text.contains("start encoding"), "{text}");
        stream.start_encoding(&plain);
        let text = stream.encode_arguments(&groups, |a| a.u32(0, 1)).unwrap_err().to_string();
        assert!(text.contains("add_plain") && text.contains("add_groups"), "{text}");
        stream.end_encoding();
        assert!(stream.dispatch_encoded(&plain, plain.grid_1d(1, None).unwrap()).is_err());
    }

    #[test]
    fn an_empty_grid_encodes_nothing() {
        let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
        add(&stream, &kernel, &numbers(&[]), 1).unwrap();
        assert_eq!(stream.pending(), 0);
    }

    #[test]
    fn work_keeps_the_buffers_that_it_uses() {
        let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
        let out = numbers(&[1.0; 4]);
        let buffer = Arc::downgrade(out.storage().buffer());
        add(&stream, &kernel, &out, 1).unwrap();
        stream.end_encoding();
        drop(out);
        assert!(buffer.upgrade().is_some(), "the recorded command holds it");
        stream.commit_and_wait().unwrap();
        assert!(buffer.upgrade().is_none(), "and nothing holds it after that");
    }

    #[test]
    fn copies_and_fills_are_checked_and_counted() {
        let stream = stream(100);
        let (a, b) = (numbers(&[1.0, 2.0]), numbers(&[3.0, 4.0]));
        let (from, to) = (a.storage().buffer(), b.storage().buffer());
        stream.copy((from, 4), (to, 0), 4).unwrap();
        stream.fill((to, 4), 1, 0xff).unwrap();
        assert!(stream.copy((from, 0), (to, 1 << 20), 4).is_err());
        stream.copy((from, 0), (to, 0), 0).unwrap();
        stream.commit_and_wait().unwrap();
        assert_eq!(values(&b), [2.0, 255.0]);
        assert_eq!((stream.stats().copies, stream.stats().fills), (1, 1));
    }

    #[test]
    fn commands_are_described_while_profiling() {
        use crate::profile::testing::{events_of, span_names, works};
        let (stream, kernel) = (stream(100), adders("lib").kernel("add_plain").unwrap());
        let (out, b) = (numbers(&[1.0, 2.0, 3.0]), numbers(&[0.0]));
        add(&stream, &kernel, &b, 1).unwrap();
        let events = events_of(|| {
            add(&stream, &kernel, &out, 1).unwrap();
            stream.fill((b.storage().buffer(), 0), 4, 0).unwrap();
            stream.commit_and_wait().unwrap();
        });
        let names = span_names(&events);
        assert_eq!(names, ["encode lib.add_plain", "encode fill", "commit", "wait"]);
        let [kernel, fill] = &works(&events)[..] else { panic!("only these two: {events:?}") };
        assert_eq!((kernel.kind, kernel.name.as_str()), (WorkKind::Kernel, "lib.add_plain"));
        assert_eq!(kernel.tensors, [TensorUse::new(DType::U32, &[3], &[1])]);
        let threads = Threads { grid: [3, 1, 1], group: [3, 1, 1] };
        assert_eq!((kernel.bytes, kernel.threads), (12, Some(threads)));
        assert_eq!((fill.kind, fill.bytes), (WorkKind::Fill, 4));
    }

    #[test]
    fn what_was_discarded_does_not_run() {
        let (stream, kernel) = (stream(100), adders("l").kernel("add_plain").unwrap());
        let out = numbers(&[1.0]);
        add(&stream, &kernel, &out, 1).unwrap();
        stream.discard();
        stream.commit_and_wait().unwrap();
        assert_eq!(values(&out), [1.0]);
    }

    #[test]
    fn the_current_stream_is_the_innermost_of_the_thread() {
        assert!(Stream::try_current().is_none());
        assert!(Stream::current().unwrap_err().to_string().contains("no stream is current"));
        let (outer, inner) = (stream(1), stream(2));
        let first = outer.enter();
        let second = inner.enter();
        let is = |s: &Stream| Rc::ptr_eq(&Stream::current().unwrap().0, &s.0);
        assert!(is(&inner));
        std::thread::spawn(|| assert!(Stream::try_current().is_none())).join().unwrap();
        drop(first);
        assert!(is(&inner), "guards may be dropped in any order");
        drop(second);
        assert!(Stream::try_current().is_none());
    }

    #[test]
    fn the_flush_interval_is_a_positive_number() {
        assert_eq!(parse_flush_interval(" 12 ").unwrap(), 12);
        for bad in ["", "0", "-1", "many"] {
            let text = parse_flush_interval(bad).unwrap_err().to_string();
            assert!(text.contains(FLUSH_INTERVAL_VARIABLE), "{text}");
        }
    }

    mod failing_device {
        //! A device whose second command buffer fails, as a GPU may.

        use super::*;
        use crate::device::{DeviceKind, DeviceLibrary, Keep, Limits, PoolStats};
        use crate::graph::GraphKey;
        use std::sync::atomic::{AtomicUsize, Ordering};

        #[derive(Debug)]
        struct Failing {
            host: Arc<HostDevice>,
            commits: Arc<AtomicUsize>,
        }

        #[derive(Debug)]
        struct Commands(usize, Arc<AtomicUsize>);

        #[derive(Debug)]
        struct Work(Result<()>);

        impl Device for Failing {
            fn kind(&self) -> DeviceKind {
                DeviceKind::Host
            }
            fn name(&self) -> String {
                "failing".to_owned()
            }
            fn limits(&self) -> Limits {
                self.host.limits()
            }
            fn allocate(&self, len: usize) -> Result<BufferRef> {
                self.host.allocate(len)
            }
            unsafe fn wrap(&self, _: *mut u8, _: usize, _: Option<Keep>) -> Result<BufferRef> {
                unimplemented!()
            }
            fn compile(&self, _: &str) -> Result<Arc<dyn DeviceLibrary>> {
                unimplemented!()
            }
            fn lower(&self, _: &GraphKey) -> Result<Arc<dyn Executable>> {
                unimplemented!()
            }
            fn command_buffer(&self) -> Result<Box<dyn CommandBuffer>> {
                Ok(Box::new(Commands(0, self.commits.clone())))
            }
            fn pool_stats(&self) -> PoolStats {
                self.host.pool_stats()
            }
            fn trim_pool(&self) {}
        }

        impl CommandBuffer for Commands {
            fn dispatch(&mut self, _: &Dispatch<'_>) -> Result<()> {
                unimplemented!()
            }
            fn copy(
                &mut self,
                _: (&BufferRef, usize),
                _: (&BufferRef, usize),
                _: usize,
            ) -> Result<()> {
                unimplemented!()
            }
            fn fill(&mut self, _: (&BufferRef, usize), _: usize, _: u8) -> Result<()> {
                self.0 += 1;
                Ok(())
            }
            fn run(&mut self, _: &Arc<dyn Executable>, _: &[Operand]) -> Result<()> {
                unimplemented!()
            }
            fn command_count(&self) -> usize {
                self.0
            }
            fn commit(self: Box<Self>) -> Result<Box<dyn Submission>> {
                let number = self.1.fetch_add(1, Ordering::Relaxed) + 1;
                let failed = Err(err!(Execution, "command buffer {number} failed"));
                Ok(Box::new(Work(if number == 1 { Ok(()) } else { failed })))
            }
        }

        impl Submission for Work {
            fn wait(&mut self) -> Result<()> {
                self.0.clone()
            }
            fn is_done(&self) -> bool {
                true
            }
        }

        #[test]
        fn the_first_failure_comes_back_from_the_next_wait() {
            let host = HostDevice::shared();
            let device: Arc<dyn Device> = Arc::new(Failing { host, commits: Arc::default() });
            let stream = Stream::with_flush_interval(device.clone(), 1);
            let buffer = device.allocate(16).unwrap();
            for _ in 0..4 {
                stream.fill((&buffer, 0), 16, 0).unwrap();
            }
            let text = stream.commit_and_wait().unwrap_err().to_string();
            assert_eq!(text, "command buffer 2 failed");
            stream.commit_and_wait().unwrap();
            stream.fill((&buffer, 0), 16, 0).unwrap();
            assert!(stream.commit_and_wait().is_err(), "later failures are not lost");
        }
    }
}
