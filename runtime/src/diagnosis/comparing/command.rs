//! The commands of the comparing device: done on both devices when they are committed.

use std::sync::Arc;

use smallvec::SmallVec;

use super::operands::{Copies, Use};
use super::{Compared, Graph, Kernel, Pair};
use crate::Result;
use crate::device::host::graph::check_operands;
use crate::device::{
    Argument, BufferRef, CommandBuffer, Device, Dispatch, Executable, Grid, Operand, Submission,
};
use crate::error::err;
use crate::tensor::Layout;

/// Records commands.
#[derive(Debug)]
pub struct ComparingCommands {
    pair: Arc<Pair>,
    /// What each command but op graphs was encoded into once, so that what the subject refuses is
    /// refused when it is encoded. Never committed - which MPSGraph does not keep to.
    checks: Box<dyn CommandBuffer>,
    commands: Vec<Command>,
}

/// A recorded command, with all that it uses.
#[derive(Debug)]
enum Command {
    Dispatch {
        kernel: Kernel,
        library: Option<Arc<str>>,
        arguments: Vec<Option<Argument>>,
        threadgroup_memory: Vec<u32>,
        grid: Grid,
    },
    Copy {
        src: (BufferRef, usize),
        dst: (BufferRef, usize),
        len: usize,
    },
    Fill {
        dst: (BufferRef, usize),
        len: usize,
        value: u8,
    },
    Run {
        graph: Box<Graph>,
        operands: Vec<Operand>,
    },
}

impl ComparingCommands {
    /// No commands.
    ///
    /// # Errors
    /// The subject gives no command buffer.
    pub(super) fn new(pair: Arc<Pair>) -> Result<ComparingCommands> {
        let checks = pair.subject.command_buffer()?;
        Ok(ComparingCommands { pair, checks, commands: Vec::new() })
    }

    /// Encodes a command for its checks, and adds it unless there is nothing to do.
    fn check(
        &mut self,
        encode: impl FnOnce(&mut dyn CommandBuffer) -> Result<()>,
        command: impl FnOnce() -> Command,
    ) -> Result<()> {
        let before = self.checks.command_count();
        encode(&mut *self.checks)?;
        if self.checks.command_count() > before {
            self.commands.push(command());
        }
        Ok(())
    }
}

impl CommandBuffer for ComparingCommands {
    fn dispatch(&mut self, dispatch: &Dispatch<'_>) -> Result<()> {
        let kernel = dispatch.pipeline.as_any().downcast_ref::<Kernel>().ok_or_else(|| {
            let name = dispatch.pipeline.name();
            err!(InvalidArgument, "the pipeline of kernel {name:?} was made by another device")
        })?;
        let pair = Kernel { subject: kernel.subject.clone(), reference: kernel.reference.clone() };
        self.check(
            |checks| checks.dispatch(&Dispatch { pipeline: &kernel.subject, ..*dispatch }),
            || Command::Dispatch {
                kernel: pair,
                library: dispatch.library.cloned(),
                arguments: dispatch.arguments.to_vec(),
                threadgroup_memory: dispatch.threadgroup_memory.to_vec(),
                grid: dispatch.grid,
            },
        )
    }

    fn copy(
        &mut self,
        src: (&BufferRef, usize),
        dst: (&BufferRef, usize),
        len: usize,
    ) -> Result<()> {
        let own = |(buffer, at): (&BufferRef, usize)| (buffer.clone(), at);
        self.check(
            |checks| checks.copy(src, dst, len),
            || Command::Copy { src: own(src), dst: own(dst), len },
        )
    }

    fn fill(&mut self, dst: (&BufferRef, usize), len: usize, value: u8) -> Result<()> {
        self.check(
            |checks| checks.fill(dst, len, value),
            || Command::Fill { dst: (dst.0.clone(), dst.1), len, value },
        )
    }

    fn run(&mut self, executable: &Arc<dyn Executable>, operands: &[Operand]) -> Result<()> {
        let graph = executable.as_any().downcast_ref::<Graph>().ok_or_else(|| {
            err!(InvalidArgument, "the executable {executable:?} was built by another device")
        })?;
        check_operands(&graph.key, operands)?;
        let graph = Graph {
            key: graph.key.clone(),
            subject: graph.subject.clone(),
            reference: graph.reference.clone(),
        };
        self.commands.push(Command::Run { graph: Box::new(graph), operands: operands.to_vec() });
        Ok(())
    }

    fn command_count(&self) -> usize {
        self.commands.len()
    }

    fn commit(self: Box<Self>) -> Result<Box<dyn Submission>> {
        let outcome = self.commands.iter().try_for_each(|command| command.compare(&self.pair));
        Ok(Box::new(Done { outcome }))
    }
}

/// Work that has run.
#[derive(Debug)]
struct Done {
    outcome: Result<()>,
}

impl Submission for Done {
    fn wait(&mut self) -> Result<()> {
        self.outcome.clone()
    }
    fn is_done(&self) -> bool {
        true
    }
}

/// Which of the devices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Subject,
    Reference,
}

impl Command {
    fn name(&self) -> String {
        match self {
            Command::Dispatch { kernel, library, .. } => {
                let name = kernel.subject.name();
                let library = library.as_deref().map(|library| format!(" of {library}"));
                format!("kernel {name:?}{}", library.unwrap_or_default())
            }
            Command::Copy { .. } => "copy".to_owned(),
            Command::Fill { .. } => "fill".to_owned(),
            Command::Run { graph, .. } => format!("op {}", graph.key.op.name()),
        }
    }

    /// The memory that it uses.
    fn uses(&self) -> Result<Vec<Use>> {
        let place = |what: &str, (buffer, at): &(BufferRef, usize), len: usize| Use {
            what: what.to_owned(),
            start: buffer.contents().expose_provenance() + at,
            len,
            dtype: None,
        };
        Ok(match self {
            Command::Dispatch { arguments, .. } => {
                arguments.iter().enumerate().filter_map(|(i, a)| argument_use(i, a)).collect()
            }
            Command::Copy { src, dst, len } => {
                vec![place("source", src, *len), place("destination", dst, *len)]
            }
            Command::Fill { dst, len, .. } => vec![place("destination", dst, *len)],
            Command::Run { operands, .. } => operands
                .iter()
                .enumerate()
                .map(|(index, operand)| operand_use(index, operand))
                .collect::<Result<_>>()?,
        })
    }

    /// Does the command on both devices and compares.
    fn compare(&self, pair: &Pair) -> Result<()> {
        let uses = self.uses()?;
        // SAFETY: operands lie inside buffers that the command keeps; all earlier work was waited
        // for, and the CPU may touch them as its caller may only after a wait.
        let copies = unsafe { Copies::of(&uses, &*pair.reference) }?;
        let on_reference = self.run(&*pair.reference, Side::Reference, Some(&copies));
        let on_subject = self.run(&*pair.subject, Side::Subject, None);
        let mut compared = Compared {
            name: self.name(),
            elements: 0,
            largest_error: 0.0,
            different: Vec::new(),
            failure: None,
        };
        match (&on_subject, on_reference) {
            (Ok(()), Ok(())) => {
                for used in &uses {
                    // SAFETY: as above; the command was waited for on both devices.
                    let (elements, largest, different) = unsafe { copies.compare(used) }?;
                    compared.elements += elements;
                    compared.largest_error = compared.largest_error.max(largest);
                    compared.different.extend(different);
                }
            }
            (Ok(()), Err(error)) => compared.failure = Some(format!("only the reference: {error}")),
            (Err(error), Ok(())) => compared.failure = Some(format!("only the subject: {error}")),
            (Err(_), Err(_)) => {}
        }
        pair.add(compared);
        on_subject
    }

    /// Does the command on one device, with copies in the place of its operands if there are
    /// some.
    fn run(&self, device: &dyn Device, side: Side, copies: Option<&Copies>) -> Result<()> {
        let mut commands = device.command_buffer()?;
        self.encode(&mut *commands, side, copies)?;
        commands.commit()?.wait()
    }

    fn encode(
        &self,
        commands: &mut dyn CommandBuffer,
        side: Side,
        copies: Option<&Copies>,
    ) -> Result<()> {
        let place = |(buffer, at): &(BufferRef, usize), len: usize| match copies {
            None => (buffer.clone(), *at),
            Some(copies) => {
                let (copy, at) = copies.of_address(buffer.contents().addr() + at, len);
                (copy.clone(), at)
            }
        };
        match self {
            Command::Dispatch { kernel, library, arguments, threadgroup_memory, grid } => {
                let argument = |(index, argument): (usize, &Option<Argument>)| {
                    let mut argument = argument.clone();
                    if let (Some(copies), Some(used)) = (copies, argument_use(index, &argument))
                        && let Some(Argument::Buffer { buffer, offset, extent, .. }) = &mut argument
                    {
                        let (copy, at) = copies.of_address(used.start, used.len);
                        (*buffer, *offset, *extent) = (copy.clone(), at, Some(used.len));
                    }
                    argument
                };
                let arguments: Vec<_> = arguments.iter().enumerate().map(argument).collect();
                let pipeline = match side {
                    Side::Subject => &kernel.subject,
                    Side::Reference => &kernel.reference,
                };
                commands.dispatch(&Dispatch {
                    pipeline,
                    library: library.as_ref(),
                    arguments: &arguments,
                    threadgroup_memory,
                    grid: *grid,
                })
            }
            Command::Copy { src, dst, len } => {
                let (src, dst) = (place(src, *len), place(dst, *len));
                commands.copy((&src.0, src.1), (&dst.0, dst.1), *len)
            }
            Command::Fill { dst, len, value } => {
                let dst = place(dst, *len);
                commands.fill((&dst.0, dst.1), *len, *value)
            }
            Command::Run { graph, operands } => {
                let operand = |(index, operand): (usize, &Operand)| -> Result<Operand> {
                    let Some(copies) = copies else { return Ok(operand.clone()) };
                    let used = operand_use(index, operand)?;
                    let (buffer, offset) = copies.of_address(used.start, used.len);
                    Ok(Operand { buffer: buffer.clone(), offset, ..operand.clone() })
                };
                let operands: SmallVec<[Operand; 4]> =
                    operands.iter().enumerate().map(operand).collect::<Result<_>>()?;
                let executable = match side {
                    Side::Subject => &graph.subject,
                    Side::Reference => &graph.reference,
                };
                commands.run(executable, &operands)
            }
        }
    }
}

fn argument_use(index: usize, argument: &Option<Argument>) -> Option<Use> {
    let Some(Argument::Buffer { buffer, offset, extent, dtype }) = argument else { return None };
    let rest = buffer.len().saturating_sub(*offset);
    Some(Use {
        what: format!("buffer({index})"),
        start: buffer.contents().expose_provenance() + offset,
        len: extent.map_or(rest, |extent| extent.min(rest)),
        dtype: *dtype,
    })
}

fn operand_use(index: usize, operand: &Operand) -> Result<Use> {
    let extent = Layout::new(&operand.sizes, &operand.strides)?.extent();
    Ok(Use {
        what: format!("operand {index}"),
        start: operand.buffer.contents().expose_provenance() + operand.offset,
        len: extent * operand.dtype.size(),
        dtype: Some(operand.dtype),
    })
}
