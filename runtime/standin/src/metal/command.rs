//! MTLCommandBuffer: what was encoded, and when it runs.

use std::sync::{Arc, Mutex};

use block2::{DynBlock, RcBlock};
use etmetal::device::{Argument, CommandBuffer, Device, Dispatch, Grid};
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{NSObject, NSObjectProtocol, ProtocolObject};
use objc2::{AnyThread, DefinedClass, Message, define_class, msg_send};
use objc2_foundation::NSError;
use objc2_metal::{
    MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandBufferStatus, MTLComputeCommandEncoder,
};
use std::ptr::NonNull;

use super::buffer::SharedBuffer;
use super::encoders::{Blit, Compute, Encoding};
use super::library::PipelineState;
use crate::foundation::errors::error;
use crate::violations::violation;

/// What a completion handler is given as.
pub type HandlerPointer = *mut DynBlock<dyn Fn(NonNull<ProtocolObject<dyn MTLCommandBuffer>>)>;
type Handler = RcBlock<dyn Fn(NonNull<ProtocolObject<dyn MTLCommandBuffer>>)>;

/// What an argument of a kernel is bound to.
#[derive(Clone)]
pub enum Bound {
    /// A buffer from a byte on.
    Buffer(Retained<SharedBuffer>, usize),
    /// Bytes that were copied.
    Bytes(Vec<u8>),
}

/// One encoded command. Buffers are retained, as Metal retains them.
pub enum Command {
    /// A kernel call.
    Dispatch {
        /// The kernel.
        pipeline: Retained<PipelineState>,
        /// Its arguments.
        arguments: Vec<Option<Bound>>,
        /// Bytes of threadgroup arguments.
        threadgroup: Vec<u32>,
        /// How many threads.
        grid: Grid,
    },
    /// A copy of bytes.
    Copy {
        /// From where.
        src: (Retained<SharedBuffer>, usize),
        /// To where.
        dst: (Retained<SharedBuffer>, usize),
        /// How many.
        len: usize,
    },
    /// A fill.
    Fill {
        /// What.
        dst: (Retained<SharedBuffer>, usize),
        /// Bytes.
        len: usize,
        /// With what.
        value: u8,
    },
    /// Work of another framework; it fails with a text.
    Other(Box<dyn FnOnce() -> Result<(), String>>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Committed,
    Done,
}

struct State {
    stage: Stage,
    /// Whether an encoder is open.
    encoding: bool,
    commands: Vec<Command>,
    handlers: Vec<Handler>,
    failure: Option<String>,
    /// When it began and ended, in seconds.
    times: (f64, f64),
}

/// A command buffer's state; its last part is checked when it goes.
pub struct Encoded(Mutex<State>);

impl Drop for Encoded {
    fn drop(&mut self) {
        let state = self.0.get_mut().unwrap();
        if state.encoding {
            violation("metal", "a command buffer is released with an open encoder");
        }
    }
}

define_class!(
    /// A command buffer.
    #[unsafe(super(NSObject))]
    #[name = "StandinCommandBuffer"]
    #[ivars = Encoded]
    pub struct Commands;

    unsafe impl NSObjectProtocol for Commands {}

    unsafe impl MTLCommandBuffer for Commands {
        #[unsafe(method_id(computeCommandEncoder))]
        fn compute_encoder(
            &self,
        ) -> Option<Retained<ProtocolObject<dyn MTLComputeCommandEncoder>>> {
            self.compute().map(ProtocolObject::from_retained)
        }

        #[unsafe(method_id(blitCommandEncoder))]
        fn blit_encoder(&self) -> Option<Retained<ProtocolObject<dyn MTLBlitCommandEncoder>>> {
            self.blit().map(ProtocolObject::from_retained)
        }

        #[unsafe(method(addCompletedHandler:))]
        fn completed_handler(&self, handler: HandlerPointer) {
            unsafe { self.add_handler(handler) };
        }

        #[unsafe(method(commit))]
        fn commit_all(&self) {
            self.submit();
        }

        #[unsafe(method(waitUntilCompleted))]
        fn wait_all(&self) {
            self.wait();
        }

        #[unsafe(method(status))]
        fn current_status(&self) -> MTLCommandBufferStatus {
            self.stage()
        }

        #[unsafe(method_id(error))]
        fn current_error(&self) -> Option<Retained<NSError>> {
            self.state().failure.as_deref().map(error)
        }
    }

    impl Commands {
        #[unsafe(method(GPUStartTime))]
        fn start_time(&self) -> f64 {
            self.times().0
        }

        #[unsafe(method(GPUEndTime))]
        fn end_time(&self) -> f64 {
            self.times().1
        }
    }
);

/// The system's clock, in seconds.
fn seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Committed command buffers that have not run, in order. Each is retained.
static QUEUE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Command buffers run one at a time, in the order of their commits.
static RUNNING: Mutex<()> = Mutex::new(());
/// What the next command buffer that runs fails with.
static NEXT_FAILURE: Mutex<Option<String>> = Mutex::new(None);

/// Makes the GPU fail in the next command buffer that runs.
pub fn fail_next(text: &str) {
    *NEXT_FAILURE.lock().unwrap() = Some(text.to_owned());
}

/// Runs all that was committed, whether somebody waits for it or not.
pub fn drain() {
    let _running = RUNNING.lock().unwrap_or_else(|e| e.into_inner());
    autoreleasepool(|_| {
        while let Some(commands) = next() {
            commands.run();
        }
    });
}

fn next() -> Option<Retained<Commands>> {
    let mut queue = QUEUE.lock().unwrap();
    let first = (!queue.is_empty()).then(|| queue.remove(0))?;
    unsafe { Retained::from_raw(first as *mut Commands) }
}

impl Commands {
    /// An empty command buffer.
    pub fn make() -> Retained<Self> {
        let state = State {
            stage: Stage::Open,
            encoding: false,
            commands: Vec::new(),
            handlers: Vec::new(),
            failure: None,
            times: (0.0, 0.0),
        };
        let this = Self::alloc().set_ivars(Encoded(Mutex::new(state)));
        unsafe { msg_send![super(this), init] }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.ivars().0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether commands can still be encoded; `what` is the call that wants to.
    pub fn is_open(&self, what: &str) -> bool {
        let open = self.state().stage == Stage::Open;
        if !open {
            violation("metal", format!("{what} on a command buffer that was committed"));
        }
        open
    }

    fn begin(&self, what: &str) -> bool {
        if !self.is_open(what) {
            return false;
        }
        let mut state = self.state();
        if state.encoding {
            drop(state);
            violation("metal", format!("{what} while another encoder is open"));
            return false;
        }
        state.encoding = true;
        true
    }

    /// Ends the open encoder.
    pub fn end(&self) {
        self.state().encoding = false;
    }

    /// Adds a command.
    pub fn push(&self, command: Command) {
        self.state().commands.push(command);
    }

    /// A compute encoder.
    pub fn compute(&self) -> Option<Retained<Compute>> {
        self.begin("computeCommandEncoder").then(|| {
            let this = Compute::alloc().set_ivars(Encoding::of(self.retain()));
            unsafe { msg_send![super(this), init] }
        })
    }

    /// A blit encoder.
    pub fn blit(&self) -> Option<Retained<Blit>> {
        self.begin("blitCommandEncoder").then(|| {
            let this = Blit::alloc().set_ivars(Encoding::of(self.retain()));
            unsafe { msg_send![super(this), init] }
        })
    }

    /// Encodes work of another framework.
    pub fn other(&self, what: &str, work: Box<dyn FnOnce() -> Result<(), String>>) {
        if self.begin(what) {
            self.end();
            self.push(Command::Other(work));
        }
    }

    /// Adds a completion handler.
    pub unsafe fn add_handler(&self, handler: HandlerPointer) {
        if self.is_open("addCompletedHandler:") {
            let handler = unsafe { RcBlock::copy(handler) }.expect("a block");
            self.state().handlers.push(handler);
        }
    }

    /// Commits.
    pub fn submit(&self) {
        if !self.is_open("commit") {
            return;
        }
        let mut state = self.state();
        if std::mem::replace(&mut state.encoding, false) {
            violation("metal", "commit with an open encoder");
        }
        state.stage = Stage::Committed;
        QUEUE.lock().unwrap().push(Retained::into_raw(self.retain()) as usize);
    }

    /// Runs this command buffer and those committed before it.
    pub fn wait(&self) {
        if self.state().stage == Stage::Open {
            return violation("metal", "waitUntilCompleted before commit");
        }
        let _running = RUNNING.lock().unwrap_or_else(|e| e.into_inner());
        while self.state().stage != Stage::Done {
            next().expect("it is in the queue").run();
        }
    }

    /// When it began and ended; nobody may ask before.
    fn times(&self) -> (f64, f64) {
        let state = self.state();
        if state.stage != Stage::Done {
            violation("metal", "times of a command buffer that is not done");
        }
        state.times
    }

    /// Its status.
    pub fn stage(&self) -> MTLCommandBufferStatus {
        let state = self.state();
        match state.stage {
            Stage::Open => MTLCommandBufferStatus::NotEnqueued,
            Stage::Committed => MTLCommandBufferStatus::Committed,
            Stage::Done if state.failure.is_some() => MTLCommandBufferStatus::Error,
            Stage::Done => MTLCommandBufferStatus::Completed,
        }
    }

    fn run(&self) {
        let (commands, handlers) = {
            let mut state = self.state();
            (std::mem::take(&mut state.commands), std::mem::take(&mut state.handlers))
        };
        let start = seconds();
        let failure = match NEXT_FAILURE.lock().unwrap().take() {
            Some(failure) => Some(failure),
            None => execute(commands).err(),
        };
        let mut state = self.state();
        (state.stage, state.failure) = (Stage::Done, failure);
        state.times = (start, seconds());
        drop(state);
        // Handlers run on another thread than the one that waits.
        struct Call(Vec<Handler>, Retained<Commands>);
        unsafe impl Send for Call {}
        let call = Call(handlers, self.retain());
        let handle = std::thread::spawn(move || {
            autoreleasepool(move |_| {
                let Call(handlers, commands) = { call };
                let commands = NonNull::from(ProtocolObject::from_ref(&*commands));
                handlers.iter().for_each(|handler| handler.call((commands,)));
            });
        });
        handle.join().expect("a handler panicked");
    }
}

/// Runs commands on the host device.
fn execute(commands: Vec<Command>) -> Result<(), String> {
    let host = super::host();
    let text = |error: etmetal::Error| error.to_string();
    let mut recorded = host.command_buffer().map_err(text)?;
    for command in commands {
        let encoded = match command {
            Command::Other(work) => {
                recorded.commit().and_then(|mut work| work.wait()).map_err(text)?;
                work()?;
                recorded = host.command_buffer().map_err(text)?;
                Ok(())
            }
            command => record(&mut *recorded, command),
        };
        if let Err(error) = encoded {
            violation("metal", error.to_string());
        }
    }
    recorded.commit().and_then(|mut work| work.wait()).map_err(text)
}

fn record(to: &mut dyn CommandBuffer, command: Command) -> etmetal::Result<()> {
    match command {
        Command::Dispatch { pipeline, arguments, threadgroup, grid } => {
            let arguments: Vec<Option<Argument>> =
                arguments.into_iter().map(|bound| bound.map(argument)).collect();
            let pipeline: &Arc<dyn etmetal::device::Pipeline> = pipeline.on_host();
            to.dispatch(&Dispatch {
                pipeline,
                library: None,
                arguments: &arguments,
                threadgroup_memory: &threadgroup,
                grid,
            })
        }
        Command::Copy { src, dst, len } => {
            to.copy((src.0.on_host(), src.1), (dst.0.on_host(), dst.1), len)
        }
        Command::Fill { dst, len, value } => to.fill((dst.0.on_host(), dst.1), len, value),
        Command::Other(_) => unreachable!("run by itself"),
    }
}

fn argument(bound: Bound) -> Argument {
    match bound {
        Bound::Buffer(buffer, offset) => {
            Argument::Buffer { buffer: buffer.on_host().clone(), offset, extent: None, dtype: None }
        }
        Bound::Bytes(bytes) => Argument::Bytes(bytes.into()),
    }
}
