//! What cannot be is an error that says so, and leaves nothing in the way.

use super::{Measured, Planned, Session, planned};
use crate::device::{Argument, Dispatch, Grid};
use crate::graph::{self, GraphOp};
use crate::tensor::{DType, Layout, Tensor};
use crate::{Error, Result};

const SOURCE: &str = "#include <metal_stdlib>
using namespace metal;
kernel void one(device uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    out[i] = 1;
}";

/// The checks.
pub fn checks() -> Vec<Planned> {
    vec![
        planned("error", "a shader that does not compile", |session| {
            let result = session.device.compile("kernel void broken(device float* x { }").map(drop);
            Ok(refused(result, |error| matches!(error, Error::ShaderCompile(_)), &[]))
        }),
        planned("error", "a kernel that is not there", |session| {
            let result = session.device.compile(SOURCE)?.pipeline("two").map(drop);
            let not_found = |error: &Error| matches!(error, Error::NotFound(_));
            Ok(refused(result, not_found, &["two", "one"]))
        }),
        planned("error", "more memory than there is", |session| {
            let result = session.device.allocate(usize::MAX / 2).map(drop);
            Ok(refused(result, |error| matches!(error, Error::OutOfMemory(_)), &[]))
        }),
        planned("error", "a threadgroup that is too large", |session| {
            dispatch(session, true, [1 << 12, 1, 1])
        }),
        planned("error", "an argument that is not bound", |session| {
            dispatch(session, false, [1, 1, 1])
        }),
        planned("error", "a copy beyond its buffer", |session| {
            let buffer = session.device.allocate(64)?;
            let mut commands = session.device.command_buffer()?;
            let result = commands.copy((&buffer, 60), (&buffer, 0), 8);
            Ok(refused(result, |error| matches!(error, Error::InvalidArgument(_)), &["60"]))
        }),
        planned("error", "an op graph that there is not", bad_graph),
    ]
}

/// An error of a kind whose text has all words.
fn refused(result: Result<()>, kind: impl Fn(&Error) -> bool, words: &[&str]) -> Measured {
    let mut measured = Measured::default();
    match result {
        Ok(()) => measured.require(false, || "it is no error".into()),
        Err(error) => {
            let text = error.to_string();
            let good = kind(&error) && words.iter().all(|word| text.contains(word));
            measured.require(good, || format!("another error: {error:?}"));
        }
    }
    measured
}

fn dispatch(session: &Session, bound: bool, group: [u32; 3]) -> Result<Measured> {
    let pipeline = session.device.compile(SOURCE)?.pipeline("one")?;
    let buffer = session.device.allocate(1 << 14)?;
    let argument = Argument::Buffer { buffer, offset: 0, extent: None, dtype: None };
    let arguments = [bound.then_some(argument)];
    let mut commands = session.device.command_buffer()?;
    let result = commands.dispatch(&Dispatch {
        pipeline: &pipeline,
        library: None,
        arguments: &arguments,
        threadgroup_memory: &[],
        grid: Grid::Threads { threads: group, group },
    });
    Ok(refused(result, |error| matches!(error, Error::InvalidArgument(_)), &["one"]))
}

/// What MPSGraph itself refuses may end the process: this is refused before.
fn bad_graph(session: &Session) -> Result<Measured> {
    let stream = session.stream();
    let tensor =
        |sizes: &[i64]| Tensor::empty(&session.device, DType::Bool, Layout::contiguous(sizes)?);
    let (out, a, b) = (tensor(&[2, 2])?, tensor(&[2, 3])?, tensor(&[3, 2])?);
    let result = graph::encode(&stream, GraphOp::Mm, &[&out, &a, &b]);
    Ok(refused(result, |error| matches!(error, Error::Unsupported(_)), &["mm", "bool"]))
}
