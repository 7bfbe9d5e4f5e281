//! Whole models: those of a folder, each a folder with `model.pte`, `inputN.npy`, `outputN.npy`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::data::read;
use super::{Measured, Planned, Session, planned};
use crate::Result;
use crate::container::audit::check_target;
use crate::container::msl::sources_of_any;
use crate::container::{Container, ModelSource, Payload};
use crate::error::{Context, err};
use crate::runner::program::{CallArgument, Program};
use crate::runner::{HostTensor, Method, ValueInfo, npy};
use crate::tensor::{Layout, Storage, Tensor};

/// The blobs of a program, by name.
type Blobs = BTreeMap<String, Arc<Vec<u8>>>;

/// The checks: of each model its shaders, which any machine can compile, and its outputs, if its
/// library is for this one.
///
/// # Errors
/// The folder cannot be read, or holds no model.
pub fn checks(folder: Option<&Path>) -> Result<Vec<Planned>> {
    let Some(folder) = folder else {
        let none = |_: &Session| Ok(Measured::skipped("no folder of models was given (--models)"));
        return Ok(vec![planned("model", "models", none)]);
    };
    let unreadable = |e| err!(NotFound, "cannot read {}: {e}", folder.display());
    let mut models: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(unreadable)?
        .map(|entry| entry.map(|entry| entry.path()).map_err(unreadable))
        .collect::<Result<_>>()?;
    models.retain(|path| path.join("model.pte").is_file());
    models.sort();
    if models.is_empty() {
        return Err(err!(NotFound, "{} holds no folder with a model.pte", folder.display()));
    }
    let mut all = Vec::new();
    for model in models {
        let name = model.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of_shaders = model.clone();
        let shaders = move |session: &Session| shaders(session, &of_shaders);
        all.push(planned("shaders", name.clone(), shaders));
        all.push(planned("model", name, move |session| outputs(session, &model)));
    }
    Ok(all)
}

/// What a check needs of a model's file.
struct Model {
    file: Vec<u8>,
}

impl Model {
    fn open(folder: &Path) -> Result<Model> {
        let path = folder.join("model.pte");
        let file = std::fs::read(&path);
        let file = file.map_err(|e| err!(NotFound, "cannot read {}: {e}", path.display()))?;
        Ok(Model { file })
    }
}

/// The only delegate of the method, and all blobs.
fn delegate<'a>(program: &Program<'a>, method: &Method<'a>) -> Result<(&'a [u8], Blobs)> {
    let [delegate] = method.delegates.as_slice() else {
        return Err(err!(Unsupported, "it has {} delegates", method.delegates.len()));
    };
    let own = |bytes: &[u8]| Arc::new(bytes.to_vec());
    let blobs = program.named_data.iter().map(|blob| (blob.key.to_owned(), own(blob.bytes)));
    Ok((delegate.payload, blobs.collect()))
}

fn shaders(session: &Session, folder: &Path) -> Result<Measured> {
    let model = Model::open(folder)?;
    let program = Program::parse(&model.file)?;
    let method = program.method("forward")?;
    let (payload, blobs) = delegate(&program, method)?;
    let library = Payload::parse(payload, method.name)?.library(&blobs)?;
    let sources = sources_of_any(library.bytes())?;
    if sources.is_empty() {
        return Ok(Measured::skipped("it has no shaders"));
    }
    let mut measured = Measured::default();
    for compiled in session.device.precompile(&sources) {
        let compiled = compiled?;
        for name in compiled.function_names() {
            let pipeline = compiled.pipeline(&name)?;
            let width = pipeline.simd_width();
            measured.require(width == 32, || format!("SIMD groups of {width} threads"));
        }
    }
    Ok(measured)
}

fn outputs(session: &Session, folder: &Path) -> Result<Measured> {
    let model = Model::open(folder)?;
    let program = Program::parse(&model.file)?;
    let method = program.method("forward")?;
    let (payload, blobs) = delegate(&program, method)?;
    let library = Payload::parse(payload, method.name)?.library(&blobs)?;
    if let Err(error) = check_target(library.bytes()) {
        return Ok(Measured::skipped(error.to_string()));
    }
    let [call] = method.delegate_calls.as_slice() else {
        return Ok(Measured::skipped("it calls its delegate more than once"));
    };
    if !method.operators.is_empty() || call.arguments.contains(&CallArgument::Inner) {
        return Ok(Measured::skipped("it has operators beside its delegate"));
    }
    let container = Container::load(&ModelSource {
        payload,
        data: &blobs,
        method: method.name,
        device: session.device.clone(),
    })?;
    let (inputs, expected) = (arrays(folder, "input")?, arrays(folder, "output")?);
    let input = |argument: &CallArgument| match argument {
        CallArgument::Input(index) => Some(tensor(session, method, &inputs, *index)),
        _ => None,
    };
    let tensors = call.arguments.iter().filter_map(input).collect::<Result<Vec<_>>>()?;
    let results = container.run(tensors, |results| results.iter().map(|r| read(r)).collect())?;
    let results: Vec<HostTensor> = results;
    let of_method = call.arguments.iter().filter_map(|argument| match argument {
        CallArgument::Output(index) => Some(*index),
        _ => None,
    });
    let mut measured = Measured::default();
    for (result, index) in results.iter().zip(of_method) {
        let expected = expected
            .get(index)
            .ok_or_else(|| err!(NotFound, "there is no output{index}.npy"))?
            .convert(result.dtype());
        measured.compare(&format!("output {index}"), result, &expected)?;
    }
    Ok(measured)
}

/// `KIND0.npy`, `KIND1.npy`, … of a folder.
fn arrays(folder: &Path, kind: &str) -> Result<Vec<HostTensor>> {
    (0..)
        .map(|i| folder.join(format!("{kind}{i}.npy")))
        .take_while(|path| path.is_file())
        .map(|path| npy::read(&path))
        .collect()
}

/// The input of this index on the device.
fn tensor(
    session: &Session,
    method: &Method<'_>,
    inputs: &[HostTensor],
    index: usize,
) -> Result<Tensor> {
    let (Some(array), Some(ValueInfo::Tensor(info))) =
        (inputs.get(index), method.inputs.get(index))
    else {
        return Err(err!(Unsupported, "input {index} is no tensor with a file"));
    };
    let array = array.convert(info.dtype().context(|| format!("input {index}"))?);
    let sizes: Vec<i64> = array.sizes().iter().map(|&size| size as i64).collect();
    let storage = Storage::allocate(&session.device, array.bytes().len())?;
    // SAFETY: the storage is new and has room.
    unsafe {
        let bytes = array.bytes();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.as_ptr(), bytes.len());
    }
    Tensor::new(storage, 0, array.dtype(), Layout::contiguous(&sizes)?)
}
