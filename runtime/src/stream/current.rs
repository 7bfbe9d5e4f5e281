//! The stream that calls without one go to: the innermost that the thread has entered.

use std::cell::RefCell;
use std::rc::Rc;

use super::Stream;
use crate::Result;
use crate::error::err;

thread_local! {
    /// The streams that [`Stream::enter`] made current, innermost last.
    static CURRENT: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a stream current; see [`Stream::enter`].
#[derive(Debug)]
pub struct StreamGuard {
    stream: Stream,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        // Guards may be dropped out of order; each takes the innermost entry of its own stream.
        CURRENT.with_borrow_mut(|streams| {
            if let Some(at) = streams.iter().rposition(|s| Rc::ptr_eq(&s.0, &self.stream.0)) {
                streams.remove(at);
            }
        });
    }
}

impl Stream {
    /// The calling thread's current stream.
    ///
    /// # Errors
    /// No stream was entered on this thread.
    pub fn current() -> Result<Self> {
        Stream::try_current().ok_or_else(|| {
            err!(
                InvalidArgument,
                "no stream is current on this thread: device work can be encoded only while a \
                 model is being loaded or run"
            )
        })
    }

    /// The calling thread's current stream, if there is one.
    pub fn try_current() -> Option<Self> {
        CURRENT.with_borrow(|streams| streams.last().cloned())
    }

    /// Makes this the thread's current stream until the guard is dropped. Nests.
    #[must_use = "the stream is current only while the guard lives"]
    pub fn enter(&self) -> StreamGuard {
        CURRENT.with_borrow_mut(|streams| streams.push(self.clone()));
        StreamGuard { stream: self.clone() }
    }
}
