//! The C ABI that models call: `aoti_torch_*` and `aoti_torch_mps_*`.
//!
//! One file a family. Every function runs inside one guard ([`abi::call`]): an error or a panic
//! becomes a status code, its text the thread's last error, and the first of a model's run is
//! kept for the model's caller, as generated code does not look at every status.
//!
//! | module | what it knows |
//! |---|---|
//! | [`table`] | every function of PyTorch's headers, and what becomes of it here |
//! | [`attributes`] [`create`] [`copies`] [`scalars`] [`constants`] | tensors |
//! | [`grad_mode`] [`diagnostics`] [`check`] | the rest of `shim.h` |
//! | [`mps`] | shader libraries, kernels, memory, matrix products |
//! | [`context`] | which model is calling |
//! | [`registry`] | everything lent to C, and whose it is |
//! | [`tracking`] | which call lent it, and what models left behind |
//! | [`abi`] [`last_error`] | the boundary itself |

pub mod abi;
pub mod attributes;
pub mod check;
pub mod constants;
pub mod context;
pub mod copies;
pub mod create;
pub mod diagnostics;
pub mod grad_mode;
pub mod last_error;
pub mod mps;
pub mod registry;
pub mod scalars;
pub mod table;
#[cfg(test)]
mod testing;
pub mod tracking;

pub use last_error::set_last_error;
pub use table::{address, symbols};
