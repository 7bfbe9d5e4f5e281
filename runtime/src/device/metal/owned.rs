//! References to Objective-C objects that outlive the entry that made them.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use objc2::Message;
use objc2::rc::{Retained, autoreleasepool};

/// A reference that is given up in an autorelease pool of its own: whoever drops the last one may
/// be on a thread without a pool, where what the object autoreleases as it goes would leak.
#[derive(Debug)]
pub struct Owned<T: Message>(ManuallyDrop<Retained<T>>);

impl<T: Message> From<Retained<T>> for Owned<T> {
    fn from(object: Retained<T>) -> Owned<T> {
        Owned(ManuallyDrop::new(object))
    }
}

impl<T: Message> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the reference is given up once, here, and not used afterwards.
        autoreleasepool(|_| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}

impl<T: Message> Clone for Owned<T> {
    fn clone(&self) -> Owned<T> {
        Owned(self.0.clone())
    }
}

impl<T: Message> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
