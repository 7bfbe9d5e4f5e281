//! The orchestrator.
pub mod preset;
pub mod process;
pub mod steps;
pub mod workspace;
