//! Operators that are not generated kernels.
//!
//! One file an operator: it checks shapes and dtypes as PyTorch does, prepares operands, and
//! encodes an op graph or kernels on the stream. Nothing here waits for the device.

mod addmm;
mod bmm;
mod copy;
mod fill;
mod gated_delta_rule;
mod gather_qmv;
mod linear_nbit;
mod matmul;
mod mm;
mod overlap;
pub mod own_kernels;
pub mod quantized;
#[cfg(test)]
pub(crate) mod testing;

pub use addmm::addmm;
pub use bmm::bmm;
pub use copy::{broadcast_to, copy};
pub use fill::zero;
pub use gated_delta_rule::{GatedDeltaRule, gated_delta_rule};
pub use gather_qmv::{GatherQmv, gather_qmv};
pub use linear_nbit::{LinearNbit, linear_nbit};
pub use mm::mm;
