//! Which model is calling: the shims' view of one loaded model.

use std::sync::Arc;

use crate::device::Device;
use crate::tensor::{RawHandle, Storage, Tensor};
use crate::{Error, Result};

/// One loaded model, as far as the shims must know it: its device, its weights, and whose the
/// objects lent to C are.
#[derive(Debug)]
pub struct ModelContext {
    device: Arc<dyn Device>,
}

impl ModelContext {
    /// A context for a model on `device`.
    pub fn new(device: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(ModelContext { device })
    }

    /// The model's device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Makes this model, and a stream on its device, the thread's current ones until the guard
    /// is dropped. Nests.
    ///
    /// # Errors
    /// The device refuses a stream.
    pub fn enter(self: &Arc<Self>) -> Result<ContextGuard> {
        todo!()
    }

    /// While set: an `aoti_torch_mps_malloc` of exactly this storage's size lends it, and an
    /// `aoti_torch_mps_memcpy` into it whose source is the very same bytes copies nothing.
    pub fn offer_weights(&self, _weights: Option<Storage>) {
        todo!()
    }

    /// Takes back everything this model still has lent to C; says how many objects there were.
    pub fn release(&self) -> usize {
        todo!()
    }
}

/// See [`ModelContext::enter`].
#[derive(Debug)]
pub struct ContextGuard {}

impl ContextGuard {
    /// The first error of a call whose status the generated code does not look at (kernel
    /// creation, encoding, dispatch) since the guard was made or since the last take.
    pub fn take_error(&self) -> Option<Error> {
        todo!()
    }
}

/// Lends a tensor to C, on behalf of the current model.
pub fn lend(_tensor: Tensor) -> RawHandle {
    todo!()
}

/// Takes a lent tensor back.
///
/// # Errors
/// The handle is not live.
pub fn take(_handle: RawHandle) -> Result<Arc<Tensor>> {
    todo!()
}
