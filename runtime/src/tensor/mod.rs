//! Tensors: dtypes, storages, true views, and the table that lends handles to C.

mod dense;
mod dtype;
mod handle;
mod storage;
#[allow(clippy::module_inception)]
mod tensor;

pub use dtype::{DType, Scalar};
pub use handle::{HandleTable, RawHandle};
pub use storage::Storage;
pub use tensor::{Layout, Placement, Tensor};
