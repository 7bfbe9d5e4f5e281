//! Loads a `.pte` through the official runtime and runs its methods.
//!
//! The runtime is the ExecuTorch that libetmetal was linked with. It is loaded at run time, so
//! that a program using this module needs nothing of ExecuTorch to be built.
//!
//! ```no_run
//! use std::path::Path;
//! use etmetal::runner::{LoadMode, Runtime, npy};
//!
//! let module = Runtime::open()?.load(Path::new("model.pte"), &[], LoadMode::Mmap)?;
//! let input = npy::read(Path::new("input0.npy"))?;
//! let outputs = module.execute("forward", &[input.into()])?;
//! # Ok::<(), etmetal::Error>(())
//! ```

pub mod compare;
mod ffi;
pub mod file;
mod host_tensor;
mod module;
pub mod npy;
pub mod program;
mod signature;

pub use compare::{Comparison, Tolerance, compare};
pub use host_tensor::{Element, HostTensor};
pub use module::{
    LIBRARY_VARIABLE, LoadMode, MethodInfo, Module, Runtime, Value, check_inputs, library_name,
};
pub use program::{Method, Program};
pub use signature::{Dynamism, TensorInfo, ValueInfo};
