//! The commands: thin, over the modules that know how.

pub mod bench;
pub mod build;
pub mod doctor;
pub mod export;
pub mod run;
pub mod test;
