//! Which model is calling: the shims' view of one loaded model.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::last_error::set_last_error;
use super::registry::{self, Owner};
use crate::device::Device;
use crate::library::Library;
use crate::stream::{Stream, StreamGuard};
use crate::tensor::{RawHandle, Storage, Tensor};
use crate::{Error, Result};

/// One loaded model, as far as the shims must know it: its device, its weights, and whose the
/// objects lent to C are.
#[derive(Debug)]
pub struct ModelContext {
    device: Arc<dyn Device>,
    owner: Owner,
    libraries: Mutex<Libraries>,
    /// See [`ModelContext::offer_weights`].
    weights: Mutex<Option<Storage>>,
}

/// A model's shader libraries.
#[derive(Debug, Default)]
struct Libraries {
    /// Compiled ahead, by source; see [`ModelContext::offer_library`].
    offered: HashMap<String, Library>,
    /// Number of those compiled on demand.
    compiled: usize,
}

/// A model that is current on a thread.
#[derive(Debug)]
struct Frame {
    model: Arc<ModelContext>,
    error: Option<Error>,
}

thread_local! {
    /// The models that [`ModelContext::enter`] made current, innermost last.
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

impl ModelContext {
    /// A context for a model on `device`.
    pub fn new(device: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(ModelContext {
            device,
            owner: Owner::unique(),
            libraries: Mutex::default(),
            weights: Mutex::new(None),
        })
    }

    /// The model's device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Gives libraries that were compiled ahead: an `aoti_torch_mps_create_shader_library` of the
    /// very same source lends such a one instead of compiling it.
    pub fn offer_library(&self, source: &str, library: Library) {
        self.libraries.lock().offered.insert(source.to_owned(), library);
    }

    /// The library of `source`: the offered one, else compiled now and numbered.
    pub(super) fn library(&self, source: &str) -> Result<Library> {
        let label = {
            let mut libraries = self.libraries.lock();
            if let Some(library) = libraries.offered.get(source) {
                return Ok(library.clone());
            }
            libraries.compiled += 1;
            format!("library {}", libraries.compiled)
        };
        Library::compile(&self.device, &label, source)
    }

    /// Whose objects are this model's.
    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// Makes this model, and a stream on its device, the thread's current ones until the guard
    /// is dropped. Nests.
    ///
    /// # Errors
    /// The device refuses a stream.
    pub fn enter(self: &Arc<Self>) -> Result<ContextGuard> {
        let stream = Stream::new(self.device.clone())?;
        let entered = stream.enter();
        let depth = FRAMES.with_borrow_mut(|frames| {
            frames.push(Frame { model: self.clone(), error: None });
            frames.len()
        });
        Ok(ContextGuard { depth, stream, _entered: entered })
    }

    /// While set: an `aoti_torch_mps_malloc` of exactly this storage's size lends it, and an
    /// `aoti_torch_mps_memcpy` into it whose source is the very same bytes copies nothing.
    pub fn offer_weights(&self, weights: Option<Storage>) {
        *self.weights.lock() = weights;
    }

    /// The offered weights, if they have `len` bytes.
    pub(super) fn offered_weights(&self, len: usize) -> Option<Storage> {
        self.weights.lock().clone().filter(|weights| weights.len() == len)
    }

    /// Takes back everything this model still has lent to C; says how many objects there were.
    pub fn release(&self) -> usize {
        registry::release(self.owner)
    }
}

/// See [`ModelContext::enter`].
///
/// Dropping it runs what is still encoded and waits, so that no memory is in use once a model's
/// caller goes on; call [`Stream::commit_and_wait`] before, to see the errors of that work.
#[derive(Debug)]
pub struct ContextGuard {
    /// Number of frames on the thread while this one is innermost.
    depth: usize,
    stream: Stream,
    _entered: StreamGuard,
}

impl ContextGuard {
    /// The stream that is current while the guard lives.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The first error of a call whose status the generated code does not look at (kernel
    /// creation, encoding, dispatch) since the guard was made or since the last take.
    ///
    /// Every failing call is recorded, as the guard cannot know whose status was looked at: if
    /// the model itself reports a failure, this is its cause.
    pub fn take_error(&self) -> Option<Error> {
        FRAMES.with_borrow_mut(|frames| frames.get_mut(self.depth - 1)?.error.take())
    }
}

impl Drop for ContextGuard {
    fn drop(&mut self) {
        self.stream.end_encoding();
        if let Err(error) = self.stream.commit_and_wait() {
            set_last_error(&error);
        }
        FRAMES.with_borrow_mut(|frames| frames.truncate(self.depth - 1));
    }
}

/// Keeps `error` for the current model's caller, if it is the first. A static destructor may fail
/// when the thread's frames are gone; then there is no caller.
pub(super) fn record_error(error: Error) {
    let _ = FRAMES.try_with(|frames| {
        if let Some(frame) = frames.borrow_mut().last_mut() {
            frame.error.get_or_insert(error);
        }
    });
}

/// The current model.
///
/// # Errors
/// No model is current on this thread.
pub(super) fn current() -> Result<Arc<ModelContext>> {
    try_current().ok_or_else(|| {
        crate::error::err!(
            InvalidArgument,
            "no model is current on this thread: the function was called outside of a model's \
             load, run or unload"
        )
    })
}

/// The current model, if there is one.
pub(super) fn try_current() -> Option<Arc<ModelContext>> {
    on_frames(|frames| frames.last().map(|frame| frame.model.clone()))?
}

/// Whose a new object is.
pub(super) fn current_owner() -> Owner {
    on_frames(|frames| frames.last().map(|frame| frame.model.owner))
        .flatten()
        .unwrap_or(Owner::NOBODY)
}

/// Looks at the frames. A static destructor may call when the thread's are gone; then `None`.
fn on_frames<T>(look: impl FnOnce(&[Frame]) -> T) -> Option<T> {
    FRAMES.try_with(|frames| look(&frames.borrow())).ok()
}

/// Makes memory ready for the CPU: waits for what this thread has encoded. Without a current
/// stream there is nothing to wait for.
///
/// # Errors
/// The first failure of the work.
pub(super) fn wait_for_device() -> Result<()> {
    Stream::try_current().map_or(Ok(()), |stream| stream.commit_and_wait())
}

/// Lends a tensor to C, on behalf of the current model.
pub fn lend(tensor: Tensor) -> RawHandle {
    registry::lend_tensor(current_owner(), Some(Arc::new(tensor)))
}

/// Takes a lent tensor back.
///
/// # Errors
/// The handle is not live.
pub fn take(handle: RawHandle) -> Result<Arc<Tensor>> {
    registry::take_tensor(handle)
}

/// The tensor behind a lent handle, which stays lent.
///
/// # Errors
/// The handle is not live.
pub fn lent(handle: RawHandle) -> Result<Arc<Tensor>> {
    registry::tensor(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::HostDevice;
    use crate::ops::testing::{contiguous, values};
    use crate::shim::testing::model;
    use crate::tensor::DType;

    #[test]
    fn what_is_lent_can_be_taken_once() {
        let (model, _guard) = model();
        let handle = lend(contiguous(DType::F32, &[2], &[1.0, 2.0]));
        assert_eq!(values(&take(handle).unwrap()), [1.0, 2.0]);
        assert!(take(handle).unwrap_err().to_string().contains("deleted before"));
        assert_eq!(model.release(), 0);
    }

    #[test]
    fn releasing_a_model_touches_no_other() {
        let (first, guard) = model();
        let mine = lend(contiguous(DType::F32, &[1], &[1.0]));
        let (second, inner) = model();
        let theirs = lend(contiguous(DType::F32, &[1], &[2.0]));
        drop(inner);
        let also_mine = lend(contiguous(DType::F32, &[1], &[3.0]));
        drop(guard);
        assert_eq!(first.release(), 2);
        assert!(take(mine).is_err() && take(also_mine).is_err());
        assert_eq!(values(&take(theirs).unwrap()), [2.0]);
        assert_eq!(second.release(), 0);
    }

    #[test]
    fn errors_belong_to_the_innermost_model() {
        let (_outer, outer_guard) = model();
        let (_inner, inner_guard) = model();
        record_error(crate::error::err!(Execution, "first"));
        record_error(crate::error::err!(Execution, "second"));
        assert!(outer_guard.take_error().is_none());
        assert_eq!(inner_guard.take_error().unwrap().to_string(), "first");
        drop(inner_guard);
        record_error(crate::error::err!(Execution, "third"));
        assert_eq!(outer_guard.take_error().unwrap().to_string(), "third");
    }

    #[test]
    fn leaving_runs_what_is_still_encoded() {
        let device: Arc<dyn Device> = HostDevice::shared();
        let model = ModelContext::new(device);
        let guard = model.enter().unwrap();
        let tensor = contiguous(DType::F32, &[2], &[1.0, 2.0]);
        crate::ops::zero(guard.stream(), &tensor).unwrap();
        drop(guard);
        assert_eq!(values(&tensor), [0.0, 0.0]);
        assert!(current().is_err() && Stream::try_current().is_none());
    }
}
