//! The orchestrator.
pub mod preset;
