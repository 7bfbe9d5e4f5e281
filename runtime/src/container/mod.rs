//! One loaded model: its library, its weights, its AOTInductor container.
//!
//! Loading goes through the files of this module in this order:
//!
//! | file | step |
//! |---|---|
//! | [`payload`] | which blobs the model is, and whether they are intact |
//! | [`audit`], `elf`, `macho` | whether the library can be loaded here |
//! | `binding`, `patch`, `thread_exit` | made to bind to this runtime only, and to be unloadable |
//! | `image`, `dl`, `library` | loaded, without a path that others could use |
//! | [`msl`] | its shaders compiled |
//! | `aoti` | its container made |
//! | [`constants`], `mapping` | its weights used where they lie |

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::device::Device;
use crate::error::{Context, err};
use crate::profile::{self, Category};
use crate::shim::context::{self, ContextGuard, ModelContext};
use crate::tensor::{RawHandle, Tensor};
use crate::{Error, Result};

mod aoti;
pub mod audit;
mod binding;
pub mod constants;
pub mod describe;
mod dl;
mod elf;
#[cfg(test)]
pub(crate) mod fixture;
mod image;
mod library;
mod macho;
mod mapping;
pub mod msl;
#[cfg(target_os = "linux")]
mod patch;
pub mod payload;
#[cfg(test)]
mod tests;
mod thread_exit;

use aoti::Aoti;
pub use constants::WeightStats;
use library::Library;
pub use payload::{Blob, NamedData, Payload};

/// Where a model comes from.
pub struct ModelSource<'a> {
    /// What the delegate was given: the keys of the model's blobs.
    pub payload: &'a [u8],
    /// The blobs.
    pub data: &'a dyn NamedData,
    /// The program's method that the model belongs to.
    pub method: &'a str,
    /// Where it is to run.
    pub device: Arc<dyn Device>,
}

impl fmt::Debug for ModelSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelSource({:?} on {:?})", self.method, self.device)
    }
}

/// One loaded model. Dropping it takes everything of it back and touches no other model.
///
/// May be used from several threads; runs of one model follow each other, because a model may
/// keep state (a KV cache) that two runs must not share.
#[derive(Debug)]
pub struct Container {
    // Dropped by `drop`, in this order.
    aoti: Option<Aoti>,
    library: Option<Arc<Library>>,
    model: Arc<ModelContext>,
    /// Held for a run, its device work included.
    running: Mutex<()>,
    num_inputs: usize,
    num_outputs: usize,
    weights: WeightStats,
    shaders: usize,
}

impl Container {
    /// Loads a model: checks it, links it, compiles its shaders, and gives it its weights.
    ///
    /// # Errors
    /// A blob is missing, damaged, for another machine, or needs what is not here; a shader does
    /// not compile; the device has no memory. Nothing is left behind.
    pub fn load(source: &ModelSource<'_>) -> Result<Container> {
        let span = profile::span(Category::Load, "check and link the library");
        let payload = Payload::parse(source.payload, source.method)?;
        let blob = payload.library(source.data)?;
        let library = Arc::new(Library::load(blob.bytes(), runtime_symbol)?);
        drop(span);
        let model = ModelContext::new(source.device.clone());
        let mut span = profile::span(Category::Compile, "make the shaders ready");
        let compiled = msl::precompile(blob.bytes(), &*source.device)?;
        let shaders = compiled.len();
        span.number("shader_libraries", shaders as u64);
        drop(span);
        for (text, shader) in compiled {
            model.offer_library(text, shader);
        }
        drop(blob);

        let mut this = Container {
            aoti: None,
            library: Some(library.clone()),
            model,
            running: Mutex::new(()),
            num_inputs: 0,
            num_outputs: 0,
            weights: WeightStats::default(),
            shaders,
        };
        let guard = this.model.enter()?;
        let loaded = this.create(library, &payload, source.data, &guard);
        drop(guard);
        loaded.map(|()| this)
    }

    /// Makes the container and its constants. What is there when it fails goes with `self`.
    fn create(
        &mut self,
        library: Arc<Library>,
        payload: &Payload,
        data: &dyn NamedData,
        guard: &ContextGuard,
    ) -> Result<()> {
        let span = profile::span(Category::Load, "make the container");
        let aoti = Aoti::create(library).map_err(|e| with_cause(e, guard))?;
        drop(span);
        let aoti = self.aoti.insert(aoti);
        self.num_inputs = aoti.num_inputs()?;
        self.num_outputs = aoti.num_outputs()?;
        let mut span = profile::span(Category::Load, "take the weights");
        let weights = payload.weights(data)?;
        self.weights = constants::load(aoti, &self.model, &weights)
            .and_then(|stats| guard.stream().commit_and_wait().map(|()| stats))
            .map_err(|e| with_cause(e, guard))?;
        span.number("bytes_wrapped", self.weights.wrapped as u64);
        span.number("bytes_copied", self.weights.copied as u64);
        Ok(())
    }

    /// Number of inputs.
    pub fn num_inputs(&self) -> usize {
        self.num_inputs
    }

    /// Number of outputs.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// What became of its weights.
    pub fn weights(&self) -> WeightStats {
        self.weights
    }

    /// Number of shader libraries that were compiled for it.
    pub fn shaders(&self) -> usize {
        self.shaders
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Arc<dyn Device> {
        self.model.device()
    }

    /// Runs the model once, and waits for it. `inputs` are used where they lie; `outputs` says
    /// what to do with the results, while no other run can change them.
    ///
    /// # Errors
    /// Wrong number of inputs; or the model or the device failed, with the first cause known.
    pub fn run<T>(
        &self,
        inputs: Vec<Tensor>,
        outputs: impl FnOnce(&[Arc<Tensor>]) -> Result<T>,
    ) -> Result<T> {
        if inputs.len() != self.num_inputs {
            return Err(err!(
                InvalidArgument,
                "the model takes {} inputs, {} were given",
                self.num_inputs,
                inputs.len()
            ));
        }
        let _running = self.running.lock();
        let guard = self.model.enter()?;
        let results = self.run_entered(inputs, &guard).map_err(|e| with_cause(e, &guard))?;
        outputs(&results)
    }

    fn run_entered(&self, inputs: Vec<Tensor>, guard: &ContextGuard) -> Result<Vec<Arc<Tensor>>> {
        let Some(aoti) = &self.aoti else {
            return Err(err!(Internal, "the model has no container"));
        };
        let mut input_handles: Vec<RawHandle> = inputs.into_iter().map(context::lend).collect();
        let mut output_handles = vec![RawHandle::NULL; self.num_outputs];
        let span = profile::span(Category::Run, "run the model");
        // SAFETY: the numbers of inputs and outputs are the container's own; the model is
        // entered, and runs are serialised by `running`.
        let ran = unsafe { aoti.run(&mut input_handles, &mut output_handles) };
        // A run that fails early leaves inputs untaken, one that fails late has made outputs.
        for handle in input_handles.into_iter().filter(|handle| !handle.is_null()) {
            let _ = context::take(handle);
        }
        let outputs: Vec<_> = output_handles.into_iter().map(take_output).collect();
        ran?;
        // Also reports what the generated code did not look at.
        if let Some(error) = guard.take_error() {
            return Err(error);
        }
        guard.stream().commit_and_wait()?;
        drop(span);
        outputs.into_iter().collect()
    }
}

fn take_output(handle: RawHandle) -> Result<Arc<Tensor>> {
    if handle.is_null() {
        return Err(err!(InvalidProgram, "the model left out one of its outputs"));
    }
    context::take(handle)
}

/// An error of the model with the error of ours that led to it, if there was one.
fn with_cause(error: Error, guard: &ContextGuard) -> Error {
    match guard.take_error() {
        // The cause knows more, and its kind is the one that a caller can act on.
        Some(cause) if cause.to_string() != error.to_string() => cause.context(error),
        _ => error,
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Deleting calls back into the shims; without a stream it works as well, unwaited.
        let guard = self.model.enter();
        drop(self.aoti.take());
        // Its static destructors give the shader libraries back.
        drop(self.library.take());
        drop(guard);
        self.model.release();
    }
}

/// The address of a symbol that this runtime exports to models.
fn runtime_symbol(name: &str) -> Option<*const std::ffi::c_void> {
    crate::shim::address(name)
}

/// Loads and audits a model library without running it: for tools that look at programs.
///
/// # Errors
/// As for [`audit::audit`].
pub fn audit_library(bytes: &[u8]) -> Result<audit::Findings> {
    library::audit_here(bytes, runtime_symbol).context(|| "audit")
}
