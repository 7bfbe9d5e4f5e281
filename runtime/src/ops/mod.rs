//! Operators that are not generated kernels.
//!
//! One file an operator: it checks shapes and dtypes as PyTorch does, prepares operands, and
//! encodes an op graph or kernels on the stream. Nothing here waits for the device.

mod addmm;
pub mod attention;
mod bmm;
mod convolution;
mod copy;
mod cumulative;
mod dimension;
mod fill;
mod gated_delta_rule;
mod gather_qmv;
mod linear_nbit;
mod matmul;
mod mm;
mod overlap;
pub mod own_kernels;
pub mod quantized;
mod sort;
#[cfg(test)]
pub(crate) mod testing;
mod topk;

pub use addmm::addmm;
pub use attention::attention;
pub use bmm::bmm;
pub use convolution::{Convolution, convolution};
pub use copy::{broadcast_to, copy};
pub use cumulative::{cumprod, cumsum};
pub use fill::zero;
pub use gated_delta_rule::{GatedDeltaRule, gated_delta_rule};
pub use gather_qmv::{GatherQmv, gather_qmv};
pub use linear_nbit::{LinearNbit, linear_nbit};
pub use mm::mm;
pub use sort::sort;
pub use topk::topk;
