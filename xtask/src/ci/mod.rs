//! What is checked where.
//!
//! [`pipeline`] is the declaration (`ci/pipeline.toml`); [`matrix`] makes combinations of its axes,
//! [`plan`] decides which of them run, from the event and from [`changes`]. Of that, [`table`] is
//! for people, [`render`] writes the workflows, and [`run`] does on this machine what a job does
//! there. [`triage`] reads what failed.

pub mod axis;
pub mod bench;
pub mod changes;
pub mod event;
pub mod loose;
pub mod matrix;
pub mod pipeline;
pub mod plan;
pub mod render;
pub mod run;
pub mod shards;
pub mod table;
pub mod triage;
