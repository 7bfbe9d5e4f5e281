//! Objective-C objects that may cross threads though the bindings do not say so.

use std::ops::Deref;

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLBinaryArchive, MTLBuffer, MTLCommandBuffer};

use super::owned::Owned;

/// A reference to an object of a class that is in [`CrossesThreads`].
#[derive(Debug)]
pub struct Shared<T: CrossesThreads>(Owned<T>);

/// Objects that this device uses in a way that is safe from any thread.
///
/// # Safety
/// Whatever this crate calls on a shared reference may be called from several threads at once.
pub unsafe trait CrossesThreads: objc2::Message {}

// SAFETY: of a buffer the device only asks address and length, and binds it. Apple's programming
// guide: buffers may be used from any thread; who writes the bytes sees to the order.
unsafe impl CrossesThreads for ProtocolObject<dyn MTLBuffer> {}
// SAFETY: only after its commit is a command buffer shared, when nothing is encoded any more; to
// wait for it and to ask for its status and error is allowed on any thread.
unsafe impl CrossesThreads for ProtocolObject<dyn MTLCommandBuffer> {}
// SAFETY: an archive is only used under the lock of its owner.
unsafe impl CrossesThreads for ProtocolObject<dyn MTLBinaryArchive> {}

// SAFETY: what the trait promises; reference counts are atomic.
unsafe impl<T: CrossesThreads> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: CrossesThreads> Sync for Shared<T> {}

impl<T: CrossesThreads> Shared<T> {
    /// Shares an object.
    pub fn new(object: Retained<T>) -> Shared<T> {
        Shared(object.into())
    }
}

impl<T: CrossesThreads> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
