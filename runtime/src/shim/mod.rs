//! The C ABI that models call: `aoti_torch_*` and `aoti_torch_mps_*`.

pub mod context;
