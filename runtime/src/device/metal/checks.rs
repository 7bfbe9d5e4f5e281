//! The checks of a dispatch. Metal itself only makes them where its validation layer is on.

use super::pipeline::{MetalPipeline, Parameter};
use crate::Result;
use crate::device::{Argument, BufferRef, Dispatch, Extent, Grid, Limits, Pipeline};
use crate::error::{Context, err};

/// Threadgroup arguments of a kernel, at most.
const THREADGROUP_ARGUMENTS: usize = 31;

/// Metal measures threadgroup memory in steps of this many bytes.
const THREADGROUP_STEP: u32 = 16;

/// Whether a dispatch may be encoded; `false` for a grid without threads, which is not.
///
/// # Errors
/// A limit is exceeded, or a buffer that the kernel uses is not bound as it wants it.
pub fn check(pipeline: &MetalPipeline, dispatch: &Dispatch<'_>, limits: &Limits) -> Result<bool> {
    check_all(pipeline, dispatch, limits).context(|| format!("kernel {:?}", &*pipeline.name))
}

fn check_all(pipeline: &MetalPipeline, dispatch: &Dispatch<'_>, limits: &Limits) -> Result<bool> {
    check_arguments(&pipeline.buffers, dispatch.arguments, limits)?;
    check_threadgroup_memory(
        &pipeline.threadgroups,
        dispatch.threadgroup_memory,
        pipeline.static_threadgroup_memory(),
        limits,
    )?;
    let (extent, group) = match dispatch.grid {
        Grid::Threads { threads, group } => (threads, group),
        Grid::Threadgroups { groups, group } => (groups, group),
    };
    if extent.contains(&0) {
        return Ok(false);
    }
    check_group(group, pipeline.max_threads_per_threadgroup())?;
    Ok(true)
}

fn check_group(group: Extent, most: u32) -> Result<()> {
    let [x, y, z] = group.map(u64::from);
    let threads = x.checked_mul(y).and_then(|n| n.checked_mul(z));
    if threads.is_none_or(|n| n == 0 || n > u64::from(most)) {
        return Err(err!(
            InvalidArgument,
            "a threadgroup of {x}x{y}x{z} must have between 1 and {most} threads"
        ));
    }
    Ok(())
}

fn check_arguments(
    parameters: &[Parameter],
    arguments: &[Option<Argument>],
    limits: &Limits,
) -> Result<()> {
    if arguments.len() > limits.max_buffer_arguments as usize {
        return Err(err!(
            InvalidArgument,
            "{} buffer arguments exceed the {} of Metal",
            arguments.len(),
            limits.max_buffer_arguments
        ));
    }
    for (index, argument) in arguments.iter().enumerate() {
        if let Some(argument) = argument {
            check_extent(argument, limits).context(|| format!("buffer({index})"))?;
        }
    }
    for parameter in parameters {
        let argument = arguments.get(parameter.index).and_then(Option::as_ref);
        check_parameter(parameter, argument)
            .context(|| format!("buffer({}) {:?}", parameter.index, parameter.name))?;
    }
    Ok(())
}

fn check_extent(argument: &Argument, limits: &Limits) -> Result<()> {
    match argument {
        Argument::Buffer { buffer, offset, .. } if *offset > buffer.len() => Err(err!(
            InvalidArgument,
            "offset {offset} lies behind the end of a buffer of {} bytes",
            buffer.len()
        )),
        Argument::Bytes(bytes)
            if bytes.is_empty() || bytes.len() > limits.max_inline_bytes as usize =>
        {
            Err(err!(
                InvalidArgument,
                "{} inline bytes; between 1 and {} can travel with a command",
                bytes.len(),
                limits.max_inline_bytes
            ))
        }
        _ => Ok(()),
    }
}

fn check_parameter(parameter: &Parameter, argument: Option<&Argument>) -> Result<()> {
    match argument {
        None => Err(err!(InvalidArgument, "nothing is bound to it")),
        Some(Argument::Bytes(bytes)) if bytes.len() < parameter.bytes => Err(err!(
            InvalidArgument,
            "{} bytes are bound to it, but the kernel reads {}",
            bytes.len(),
            parameter.bytes
        )),
        Some(Argument::Buffer { offset, .. }) if !offset.is_multiple_of(parameter.alignment) => {
            Err(err!(
                InvalidArgument,
                "offset {offset} is no multiple of the {} bytes that its type is aligned to",
                parameter.alignment
            ))
        }
        Some(_) => Ok(()),
    }
}

fn check_threadgroup_memory(
    parameters: &[Parameter],
    lengths: &[u32],
    declared: u32,
    limits: &Limits,
) -> Result<()> {
    if lengths.len() > THREADGROUP_ARGUMENTS {
        return Err(err!(
            InvalidArgument,
            "{} threadgroup arguments exceed the {THREADGROUP_ARGUMENTS} of Metal",
            lengths.len()
        ));
    }
    if let Some(index) = lengths.iter().position(|n| !n.is_multiple_of(THREADGROUP_STEP)) {
        return Err(err!(
            InvalidArgument,
            "threadgroup({index}): {} bytes are no multiple of {THREADGROUP_STEP}, as Metal wants \
             it",
            lengths[index]
        ));
    }
    let total = lengths.iter().map(|&n| u64::from(n)).sum::<u64>() + u64::from(declared);
    if total > u64::from(limits.max_threadgroup_memory) {
        return Err(err!(
            InvalidArgument,
            "{total} bytes of threadgroup memory ({declared} that the kernel declares) exceed the \
             {} of Metal",
            limits.max_threadgroup_memory
        ));
    }
    for parameter in parameters {
        if lengths.get(parameter.index).is_none_or(|&n| n == 0) {
            return Err(err!(
                InvalidArgument,
                "threadgroup({}) {:?} has no length",
                parameter.index,
                parameter.name
            ));
        }
    }
    Ok(())
}

/// Whether `offset..offset + len` lies inside the buffer.
///
/// # Errors
/// It does not; the message begins with `what`.
pub fn check_range(buffer: &BufferRef, offset: usize, len: usize, what: &str) -> Result<()> {
    if offset.checked_add(len).is_none_or(|end| end > buffer.len()) {
        return Err(err!(
            InvalidArgument,
            "{what}: {len} bytes at offset {offset} leave a buffer of {} bytes",
            buffer.len()
        ));
    }
    Ok(())
}
