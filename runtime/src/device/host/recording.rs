//! Recorded commands: checked when they are recorded, so that running them only fails where the
//! work itself does.
//!
//! Arguments lie in vectors of the whole recording, and recordings are reused, so that recording
//! a dispatch allocates nothing.

use std::ffi::c_void;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::arenas::Arenas;
use super::graph::Lowered;
use super::launch;
use super::msl::Launch;
use super::pipeline::HostPipeline;
use super::threads::Threads;
use crate::Result;
use crate::device::{
    Argument, ArgumentTable, BufferRef, Dispatch, Executable, Operand, Pipeline, SharedDispatch,
};
use crate::error::{Context as _, err};
use crate::profile::{self, Work};

/// A recording with room for more commands than this is not kept for reuse.
const MOST_KEPT: usize = 1 << 14;

/// Argument tables that are kept for reuse: for the commands between two commits, most often.
const MOST_SPARE: usize = 64;

/// Copies and fills of this many bytes are shared among threads, in parts of so many.
const LONG: usize = 4 << 20;
const PART: u64 = 1 << 20;

/// Commands in the order of their recording, and what they use.
#[derive(Debug, Default)]
pub struct Recording {
    commands: Vec<Command>,
    launches: Vec<Launch>,
    /// The arguments of kernels, and with them their buffers, kept alive.
    arguments: Vec<Rc<ArgumentTable>>,
    /// Empty tables that nobody else has.
    spare: Vec<Rc<ArgumentTable>>,
    /// Addresses of kernel arguments, and the bytes that belong to each from there on.
    addresses: Vec<*mut c_void>,
    sizes: Vec<u64>,
    /// Inline arguments. As this may move while it grows, addresses into it are set at the end.
    inline: Vec<Inline>,
    inline_arguments: Vec<InlineArgument>,
    /// What commands are, by index; only while profiling.
    described: Vec<(usize, Work)>,
}

/// A recording without commands, for another thread perhaps.
#[derive(Debug)]
pub struct Idle(Recording);

// SAFETY: what may not leave its thread is the count of a table's references. Nothing is recorded,
// and the one reference to a spare table is the recording's (see `Recording::clear`).
unsafe impl Send for Idle {}

impl Idle {
    /// Lets go of what is recorded; `None` if the recording is not worth keeping.
    pub fn new(mut recording: Recording) -> Option<Idle> {
        recording.clear().then_some(Idle(recording))
    }

    /// The recording.
    pub fn into_inner(self) -> Recording {
        self.0
    }
}

/// Sixteen bytes of an inline argument, aligned as any MSL type wants.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(16))]
struct Inline([u8; 16]);

/// An entry of `addresses` that is to point to an entry of `inline`.
#[derive(Debug, Clone, Copy)]
struct InlineArgument {
    address: usize,
    inline: usize,
}

/// One recorded command.
#[derive(Debug)]
enum Command {
    Dispatch {
        pipeline: Arc<dyn Pipeline>,
        /// The shader library's name, where a message may want it.
        library: Option<Arc<str>>,
        /// Index in `launches`.
        launch: usize,
        /// Index of its first argument in `addresses` and `sizes`.
        arguments: usize,
    },
    Copy {
        src: Place,
        dst: Place,
        len: usize,
    },
    Fill {
        dst: Place,
        len: usize,
        value: u8,
    },
    Run {
        executable: Arc<dyn Executable>,
        operands: Vec<Operand>,
    },
}

/// A place in a buffer; the bytes behind it were checked when it was made.
#[derive(Debug)]
struct Place {
    buffer: BufferRef,
    offset: usize,
}

impl Place {
    /// The place at `offset`, where `len` bytes must lie inside the buffer.
    fn new((buffer, offset): (&BufferRef, usize), len: usize, what: &str) -> Result<Place> {
        if offset.checked_add(len).is_none_or(|end| end > buffer.len()) {
            return Err(err!(
                InvalidArgument,
                "{what}: {len} bytes at offset {offset} leave a buffer of {} bytes",
                buffer.len()
            ));
        }
        Ok(Place { buffer: buffer.clone(), offset })
    }

    fn address(&self) -> *mut u8 {
        // SAFETY: `new` checked that the offset lies inside the buffer or at its end.
        unsafe { self.buffer.contents().add(self.offset) }
    }
}

impl Recording {
    /// Commands recorded.
    pub fn count(&self) -> usize {
        self.commands.len()
    }

    /// Lets go of everything; whether the recording is worth keeping for reuse.
    pub fn clear(&mut self) -> bool {
        self.commands.clear();
        self.launches.clear();
        while let Some(mut table) = self.arguments.pop() {
            // Whoever encoded the call last may still have its table.
            if let Some(unused) = Rc::get_mut(&mut table) {
                unused.clear();
                if self.spare.len() < MOST_SPARE {
                    self.spare.push(table);
                }
            }
        }
        self.addresses.clear();
        self.sizes.clear();
        self.inline.clear();
        self.inline_arguments.clear();
        self.described.clear();
        self.commands.capacity() <= MOST_KEPT && self.inline.capacity() <= MOST_KEPT
    }

    /// Records a kernel call. A grid without threads is checked and then forgotten.
    ///
    /// # Errors
    /// The pipeline is another device's, or [`launch::prepare`] refuses the call.
    pub fn dispatch(&mut self, dispatch: &Dispatch<'_>) -> Result<()> {
        let Dispatch { pipeline, library, arguments, threadgroup_memory, grid } = *dispatch;
        let arguments = &Rc::new(ArgumentTable::new(arguments, threadgroup_memory));
        self.dispatch_shared(&SharedDispatch { pipeline, library, arguments, grid })
    }

    /// Records a kernel call, and keeps its arguments as they are.
    ///
    /// # Errors
    /// As for [`Recording::dispatch`].
    pub fn dispatch_shared(&mut self, dispatch: &SharedDispatch<'_>) -> Result<()> {
        let pipeline = host_pipeline(dispatch.pipeline)?;
        let (launch, arguments) = (self.launches.len(), self.addresses.len());
        // Filled in where it stays: it is long, and the next to be read.
        self.launches.push(Launch::EMPTY);
        match launch::prepare(pipeline, &dispatch.dispatch(), &mut self.launches[launch]) {
            Ok(true) => {}
            nothing => {
                self.launches.pop();
                return nothing.map(drop);
            }
        }
        for argument in dispatch.arguments.buffers() {
            self.argument(argument.as_ref());
        }
        self.arguments.push(dispatch.arguments.clone());
        let library = dispatch.library.filter(|_| pipeline.checks.is_some()).cloned();
        let pipeline = dispatch.pipeline.clone();
        self.commands.push(Command::Dispatch { pipeline, library, launch, arguments });
        Ok(())
    }

    /// An empty table that nobody has, if there is one.
    pub fn spare_arguments(&mut self) -> Option<Rc<ArgumentTable>> {
        self.spare.pop()
    }

    fn argument(&mut self, argument: Option<&Argument>) {
        let (address, size) = match argument {
            None => (std::ptr::null_mut(), 0),
            Some(Argument::Buffer { buffer, offset, extent, .. }) => {
                // SAFETY: `check_arguments` found the offset inside the buffer or at its end.
                let address = unsafe { buffer.contents().add(*offset) };
                let rest = buffer.len() - offset;
                (address.cast(), extent.map_or(rest, |extent| extent.min(rest)))
            }
            Some(Argument::Bytes(bytes)) => {
                let (address, inline) = (self.addresses.len(), self.inline.len());
                self.inline_arguments.push(InlineArgument { address, inline });
                self.inline.extend(bytes.chunks(16).map(Inline::new));
                // An argument without bytes has an address too.
                self.inline.resize(self.inline.len().max(inline + 1), Inline::default());
                (std::ptr::null_mut(), bytes.len())
            }
        };
        self.addresses.push(address);
        self.sizes.push(size as u64);
    }

    /// Records a copy.
    ///
    /// # Errors
    /// A range leaves its buffer, or the ranges overlap.
    pub fn copy(
        &mut self,
        src: (&BufferRef, usize),
        dst: (&BufferRef, usize),
        len: usize,
    ) -> Result<()> {
        let src = Place::new(src, len, "the source of a copy")?;
        let dst = Place::new(dst, len, "the destination of a copy")?;
        let apart = src.address().addr().abs_diff(dst.address().addr());
        if apart < len {
            return Err(err!(
                InvalidArgument,
                "cannot copy {len} bytes to a place {apart} bytes away: the ranges overlap"
            ));
        }
        if len != 0 {
            self.commands.push(Command::Copy { src, dst, len });
        }
        Ok(())
    }

    /// Records a fill.
    ///
    /// # Errors
    /// The range leaves its buffer.
    pub fn fill(&mut self, dst: (&BufferRef, usize), len: usize, value: u8) -> Result<()> {
        let dst = Place::new(dst, len, "the destination of a fill")?;
        if len != 0 {
            self.commands.push(Command::Fill { dst, len, value });
        }
        Ok(())
    }

    /// Records an op graph.
    ///
    /// # Errors
    /// The executable is another device's, or an operand does not match its key.
    pub fn executable(
        &mut self,
        executable: &Arc<dyn Executable>,
        operands: &[Operand],
    ) -> Result<()> {
        Lowered::of(executable)?.check(operands)?;
        let (executable, operands) = (executable.clone(), operands.to_vec());
        self.commands.push(Command::Run { executable, operands });
        Ok(())
    }

    /// Tells what the last command is, so that its time goes into the profile.
    pub fn describe(&mut self, work: Work) {
        if let Some(index) = self.commands.len().checked_sub(1) {
            self.described.push((index, work));
        }
    }

    /// Runs all commands in their order, up to the first that fails.
    ///
    /// # Errors
    /// The first failure, with the name of its kernel.
    pub fn run(&mut self, threads: &Threads, arenas: &Arenas) -> Result<()> {
        for &InlineArgument { address, inline } in &self.inline_arguments {
            self.addresses[address] = std::ptr::from_mut(&mut self.inline[inline]).cast();
        }
        let (addresses, sizes, launches) = (&self.addresses, &self.sizes, &mut self.launches);
        let mut run = |command: &mut Command| match command {
            Command::Dispatch { pipeline, library, launch, arguments } => {
                let launch = &mut launches[*launch];
                launch.buffers = addresses[*arguments..].as_ptr();
                launch.sizes = sizes[*arguments..].as_ptr();
                let pipeline = host_pipeline(pipeline)?;
                // SAFETY: `prepare` made the launch; its arguments were checked by it and are
                // kept alive by the recording.
                unsafe { launch::run(pipeline, launch, threads, arenas) }
                    .context(|| describe(pipeline, library.as_deref()))
            }
            Command::Copy { src, dst, len } => in_parts(*len, threads, |part| {
                // SAFETY: both ranges lie inside live buffers and do not overlap, and parts
                // neither.
                unsafe {
                    let (src, dst) = (src.address().add(part.start), dst.address().add(part.start));
                    std::ptr::copy_nonoverlapping(src, dst, part.len());
                }
            }),
            Command::Fill { dst, len, value } => in_parts(*len, threads, |part| {
                // SAFETY: the range lies inside a live buffer, and parts do not overlap.
                unsafe { dst.address().add(part.start).write_bytes(*value, part.len()) };
            }),
            Command::Run { executable, operands } => {
                Lowered::of(executable)?.run(operands, threads)
            }
        };
        if self.described.is_empty() {
            return self.commands.iter_mut().try_for_each(run);
        }
        let mut described = self.described.drain(..).peekable();
        self.commands.iter_mut().enumerate().try_for_each(|(index, command)| {
            let Some((_, work)) = described.next_if(|(at, _)| *at == index) else {
                return run(command);
            };
            let start = profile::now();
            let outcome = run(command);
            profile::record_work(work, start, profile::now());
            outcome
        })
    }
}

/// Does `work` on all of `0..len`: at once, or in parts on several threads if it is long.
fn in_parts(len: usize, threads: &Threads, work: impl Fn(Range<usize>) + Sync) -> Result<()> {
    if len < LONG {
        work(0..len);
        return Ok(());
    }
    threads.run(len as u64, PART, &|part| work(part.start as usize..part.end as usize))
}

impl Inline {
    fn new(bytes: &[u8]) -> Inline {
        let mut inline = Inline::default();
        inline.0[..bytes.len()].copy_from_slice(bytes);
        inline
    }
}

fn describe(pipeline: &HostPipeline, library: Option<&str>) -> String {
    match library {
        Some(library) => format!("kernel {:?} of shader library {library:?}", pipeline.name),
        None => format!("kernel {:?}", pipeline.name),
    }
}

fn host_pipeline(pipeline: &Arc<dyn Pipeline>) -> Result<&HostPipeline> {
    pipeline.as_any().downcast_ref().ok_or_else(|| {
        err!(
            InvalidArgument,
            "the pipeline of kernel {:?} was made by another device",
            pipeline.name()
        )
    })
}

#[cfg(test)]
mod tests;
