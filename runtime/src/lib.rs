//! etmetal: the Metal delegate of ExecuTorch.
//!
//! A model exported for ExecuTorch's Metal delegate is a small shared library that AOTInductor
//! compiled: it calls a C ABI (`aoti_torch_*`, `aoti_torch_mps_*`) and carries Metal Shading
//! Language source. This crate is everything such a model needs at run time, on two devices:
//! Apple GPUs, and the CPU cores of the host, for which the same shaders are compiled by clang.
//!
//! # Layers
//!
//! From top to bottom; a module imports only what stands below it.
//!
//! | module | what it knows |
//! |---|---|
//! | [`diagnosis`] | comparing devices, checking a whole one |
//! | [`runner`] | loads a `.pte` through the official runtime and runs its methods |
//! | [`delegate`] | ExecuTorch's backend interface: init, execute, destroy |
//! | [`container`] | one loaded model: its library, its weights, its AOTInductor container |
//! | [`shim`] | the C ABI that models call |
//! | [`ops`] | operators that are not generated kernels |
//! | [`graph`] | op graphs, described once, lowered by the device, cached |
//! | [`stream`], [`library`], [`kernel`] | command encoding, shader libraries, kernel calls |
//! | [`tensor`] | dtypes, storages, views, handles |
//! | [`device`] | the device trait and its implementations |
//! | [`profile`] | what was done when; any layer records into it |

pub mod container;
pub mod delegate;
pub mod device;
pub mod diagnosis;
pub mod error;
pub mod graph;
pub mod kernel;
pub mod library;
pub(crate) mod log;
pub mod ops;
pub mod profile;
pub mod runner;
pub mod shim;
pub mod stream;
pub mod tensor;

pub use error::{Error, Result};
