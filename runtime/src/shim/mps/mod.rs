//! `aoti_torch_mps_*`: what a model asks of the device.

pub mod attention;
pub mod block;
pub mod convolution;
pub mod cumulative;
pub mod gated_delta_rule;
pub mod gather_qmv;
pub mod kernel;
pub mod library;
pub mod linear_nbit;
pub mod memory;
pub mod ops;
pub mod order;
