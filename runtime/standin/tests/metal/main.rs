//! The Metal device on the stand-in: its operators against the host device's, its keeping of
//! Metal's rules, and whole models.
#![cfg(metal_standin)]

mod common;
mod diagnosis;
mod models;
mod operators;
mod rules;
mod selectors;
mod strictness;
