//! What the end-to-end tests and benchmarks share: the staged build, model fixtures, hand-made
//! models and programs, and process memory.

pub mod edit;
pub mod fixture;
pub mod memory;
pub mod model;
pub mod pte;
pub mod stage;
