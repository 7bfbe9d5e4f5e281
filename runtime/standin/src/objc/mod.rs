//! The Objective-C runtime: what the bindings link to. For x86-64 Linux.
#![expect(missing_docs, reason = "C symbols, documented by Apple")]

pub mod autorelease;
pub mod blocks;
pub mod classes;
pub mod exceptions;
pub mod messages;
pub mod objects;
pub mod root;
pub mod selectors;
pub mod system;
