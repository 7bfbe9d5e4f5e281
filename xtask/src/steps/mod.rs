//! Steps: the unit of work, of progress and of "nothing changed".
//!
//! A command plans [`Step`]s, which are data, and hands them to the [`Runner`]. The runner alone
//! does things: it compares each step's inputs with the [`stamp`] of its last success, runs
//! what is out of date, and writes the new stamp. `--dry-run` shows the same data instead.

pub mod install;
pub mod lock;
pub mod progress;
pub mod runner;
pub mod stamp;
pub mod step;

pub use lock::BuildLock;
pub use runner::{Options, Runner};
pub use step::{Action, Input, Output, Step};
