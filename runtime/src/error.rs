//! The one error type of the runtime.
//!
//! Every message says what was wrong, where, and what to do about it. At the C boundary an error
//! becomes a status code and its text is kept for the caller (see [`crate::shim`]).

/// What can go wrong in the runtime.
///
/// The variants are the classes that a caller may want to tell apart; [`Error::et_code`] maps
/// them to ExecuTorch's error codes.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// An argument from the caller is not usable: a shape, a dtype, a null pointer, an index.
    #[error("{0}")]
    InvalidArgument(String),
    /// A C handle is null, was deleted, or never came from this runtime.
    #[error("{0}")]
    InvalidHandle(String),
    /// The program (`.pte`, payload, model library, weights) is damaged or not for this machine.
    #[error("{0}")]
    InvalidProgram(String),
    /// Something the program needs is not there: a named blob, a symbol, a library, a kernel.
    #[error("{0}")]
    NotFound(String),
    /// A valid request that this device or version cannot honour.
    #[error("{0}")]
    Unsupported(String),
    /// Memory could not be had.
    #[error("{0}")]
    OutOfMemory(String),
    /// A shader did not compile; the text holds the compiler's messages with MSL lines.
    #[error("{0}")]
    ShaderCompile(String),
    /// The device failed while it executed work.
    #[error("{0}")]
    Execution(String),
    /// The operating system refused something.
    #[error("{0}")]
    System(String),
    /// A bug of ours: a caught panic or a broken invariant.
    #[error("internal error: {0} (this is a bug in etmetal; please report it)")]
    Internal(String),
}

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The ExecuTorch error code (`runtime/core/error.h`) that stands for this error.
    pub fn et_code(&self) -> u32 {
        match self {
            Error::Internal(_) | Error::Execution(_) | Error::System(_) => 0x01, // Internal
            Error::InvalidArgument(_) | Error::InvalidHandle(_) => 0x12,         // InvalidArgument
            Error::Unsupported(_) => 0x10,                                       // NotSupported
            Error::NotFound(_) => 0x20,                                          // NotFound
            Error::OutOfMemory(_) => 0x21,    // MemoryAllocationFailed
            Error::InvalidProgram(_) => 0x23, // InvalidProgram
            Error::ShaderCompile(_) => 0x30,  // DelegateInvalidCompatibility
        }
    }

    /// The same error with `context` before its text, as in `model "mlp": …`.
    #[must_use]
    pub fn context(self, context: impl std::fmt::Display) -> Self {
        let wrap = |text: String| format!("{context}: {text}");
        match self {
            Error::InvalidArgument(t) => Error::InvalidArgument(wrap(t)),
            Error::InvalidHandle(t) => Error::InvalidHandle(wrap(t)),
            Error::InvalidProgram(t) => Error::InvalidProgram(wrap(t)),
            Error::NotFound(t) => Error::NotFound(wrap(t)),
            Error::Unsupported(t) => Error::Unsupported(wrap(t)),
            Error::OutOfMemory(t) => Error::OutOfMemory(wrap(t)),
            Error::ShaderCompile(t) => Error::ShaderCompile(wrap(t)),
            Error::Execution(t) => Error::Execution(wrap(t)),
            Error::System(t) => Error::System(wrap(t)),
            Error::Internal(t) => Error::Internal(wrap(t)),
        }
    }
}

/// Adds context to the error of a `Result`, built only when there is one.
pub trait Context<T> {
    /// See [`Error::context`].
    ///
    /// # Errors
    /// The same error, with `context` before its text.
    fn context<C: std::fmt::Display>(self, context: impl FnOnce() -> C) -> Result<T>;
}

impl<T> Context<T> for Result<T> {
    fn context<C: std::fmt::Display>(self, context: impl FnOnce() -> C) -> Result<T> {
        self.map_err(|e| e.context(context()))
    }
}

/// Builds an error of the named variant from a format string: `err!(InvalidArgument, "…", …)`.
macro_rules! err {
    ($variant:ident, $($arg:tt)*) => { $crate::Error::$variant(format!($($arg)*)) };
}
pub(crate) use err;
