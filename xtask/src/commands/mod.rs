//! The commands: thin, over the modules that know how.

pub mod audit;
pub mod bench;
pub mod build;
pub mod ci;
pub mod clean;
pub mod doctor;
pub mod export;
pub mod install;
pub mod package;
pub mod preset;
pub mod release;
pub mod run;
pub mod symbols;
pub mod test;
pub mod why;
