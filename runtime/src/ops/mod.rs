//! Operators that are not generated kernels.
//!
//! One file an operator: it checks shapes and dtypes as PyTorch does, prepares operands, and
//! encodes an op graph or kernels on the stream. Nothing here waits for the device.

mod addmm;
pub mod attention;
mod bmm;
mod convolution;
mod copy;
mod fill;
mod matmul;
mod mm;
mod overlap;
pub mod own_kernels;
#[cfg(test)]
pub(crate) mod testing;

pub use addmm::addmm;
pub use attention::attention;
pub use bmm::bmm;
pub use convolution::{Convolution, convolution};
pub use copy::{broadcast_to, copy};
pub use fill::zero;
pub use mm::mm;
