//! The kernel call that is being encoded: its arguments are set one by one.

use super::Stream;
use crate::device::Grid;
use crate::error::{Context as _, err};
use crate::kernel::{Arguments, Kernel};
use crate::tensor::RawHandle;
use crate::{Error, Result};

/// A kernel call whose arguments are being set.
#[derive(Debug)]
pub(super) struct Encoding {
    kernel: Kernel,
    arguments: Arguments,
    /// The handle that C calls the kernel by.
    handle: RawHandle,
}

impl Stream {
    /// Begins a call of `kernel`: its arguments are set next, then it is dispatched, more than
    /// once if wanted. The arguments stay set until another call begins.
    pub fn start_encoding(&self, kernel: &Kernel) {
        self.start_encoding_lent(kernel, RawHandle::NULL);
    }

    /// [`Stream::start_encoding`] of a kernel that was lent to C: by its `handle` the call is found
    /// without looking that up again ([`Stream::is_encoding`]).
    pub fn start_encoding_lent(&self, kernel: &Kernel, handle: RawHandle) {
        let mut encoding = self.0.encoding.borrow_mut();
        let Some(current) = &mut *encoding else {
            let arguments = Arguments::new();
            *encoding = Some(Encoding { kernel: kernel.clone(), arguments, handle });
            return;
        };
        // The same few kernels alternate thousands of times: nothing is made anew.
        current.arguments.renew(|| {
            let mut recording = self.0.recording.borrow_mut();
            recording.as_mut().and_then(|commands| commands.spare_arguments())
        });
        if !(current.kernel.is(kernel) && current.kernel.shares_library(kernel)) {
            current.kernel = kernel.clone();
        }
        current.handle = handle;
    }

    /// Ends the call being encoded: its arguments are let go.
    pub fn end_encoding(&self) {
        self.0.encoding.take();
    }

    /// Whether the call being encoded is one of the kernel that was lent to C as `handle`. It is
    /// until it ends, even if the handle is deleted meanwhile.
    pub fn is_encoding(&self, handle: RawHandle) -> bool {
        !handle.is_null() && self.0.encoding.borrow().as_ref().is_some_and(|e| e.handle == handle)
    }

    /// Changes the arguments of the call that is being encoded.
    ///
    /// # Errors
    /// There is none, or `change` fails; the message then names the kernel.
    pub fn encode_current(&self, change: impl FnOnce(&mut Arguments) -> Result<()>) -> Result<()> {
        let mut encoding = self.0.encoding.borrow_mut();
        let Encoding { kernel, arguments, .. } = encoding.as_mut().ok_or_else(none_encoded)?;
        change(arguments).context(|| kernel.describe())
    }

    /// Changes the arguments of the call of `kernel` that is being encoded.
    ///
    /// # Errors
    /// No call of `kernel` was started, or `change` fails; the message names the kernel.
    pub fn encode_arguments(
        &self,
        kernel: &Kernel,
        change: impl FnOnce(&mut Arguments) -> Result<()>,
    ) -> Result<()> {
        let mut encoding = self.0.encoding.borrow_mut();
        match &mut *encoding {
            Some(current) if current.kernel.is(kernel) => {
                change(&mut current.arguments).context(|| kernel.describe())
            }
            current => Err(not_encoded(current.as_ref(), kernel)),
        }
    }

    /// Dispatches the call that is being encoded over the grid that `grid` gives for its kernel.
    ///
    /// # Errors
    /// There is none, it has no such grid, or the device refuses it; the message then names the
    /// kernel.
    pub fn dispatch_current(&self, grid: impl FnOnce(&Kernel) -> Result<Grid>) -> Result<()> {
        let encoding = self.0.encoding.borrow();
        let Encoding { kernel, arguments, .. } = encoding.as_ref().ok_or_else(none_encoded)?;
        self.dispatch(kernel, arguments, grid(kernel)?)
    }

    /// Dispatches the call of `kernel` that is being encoded.
    ///
    /// # Errors
    /// No call of `kernel` was started, or the device refuses it; the message names the kernel.
    pub fn dispatch_encoded(&self, kernel: &Kernel, grid: Grid) -> Result<()> {
        match &*self.0.encoding.borrow() {
            Some(current) if current.kernel.is(kernel) => {
                self.dispatch(&current.kernel, &current.arguments, grid)
            }
            current => Err(not_encoded(current.as_ref(), kernel)),
        }
    }
}

/// The error of a call of `kernel` that was not started.
#[cold]
fn not_encoded(current: Option<&Encoding>, kernel: &Kernel) -> Error {
    match current {
        Some(current) => err!(
            InvalidArgument,
            "{}: a call of {} is being encoded on this thread; start encoding first",
            kernel.describe(),
            current.kernel.describe()
        ),
        None => none_encoded().context(kernel.describe()),
    }
}

#[cold]
fn none_encoded() -> Error {
    err!(InvalidArgument, "no call is being encoded on this thread; start encoding first")
}
