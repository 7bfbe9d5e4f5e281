//! Op graphs: operators that are not hand-written kernels, described once per shape and dtype,
//! lowered by the device, and kept in a bounded cache.

mod cache;
mod key;

pub use cache::{CacheStats, GraphCache};
pub use key::{GraphKey, GraphOp, OperandKey, StrideClass};
