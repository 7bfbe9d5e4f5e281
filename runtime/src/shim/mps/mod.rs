//! `aoti_torch_mps_*`: what a model asks of the device.

pub mod attention;
pub mod block;
pub mod convolution;
pub mod kernel;
pub mod library;
pub mod memory;
pub mod ops;
