//! The rules, one a file. To add one: write its file as the others are written, and list it in
//! [`RULES`].

mod absolute_path;
mod architecture;
mod build_path;
mod executable_stack;
mod exports;
mod libraries;
mod minimum_os;
mod openmp;
mod rpath;
mod signature;
mod text_relocations;
mod undefined_symbol;

use std::path::Path;

use super::Expectation;
use super::contents::Piece;
use super::finding::Finding;
use super::machine::Machine;
use super::resolve::{Closure, Resolver};

/// One rule.
pub struct Rule {
    /// Its name in reports.
    pub id: &'static str,
    /// What it checks, in one line.
    pub summary: &'static str,
    /// What it found in a subject.
    pub check: fn(&Subject<'_>) -> Vec<Finding>,
}

/// What is audited, and what is known about it.
pub struct Subject<'a> {
    /// The file.
    pub path: &'a Path,
    /// The image in it.
    pub piece: &'a Piece<'a>,
    /// What it would load.
    pub closure: &'a Closure,
    /// What the libraries that the process holds already would load.
    pub beside: &'a [(String, Closure)],
    /// What is expected of it.
    pub expected: &'a Expectation,
    /// This machine.
    pub machine: &'a Machine,
    /// Expands search paths.
    pub resolver: &'a Resolver<'a>,
}

/// Every rule, in the order of reports.
pub const RULES: &[Rule] = &[
    architecture::RULE,
    minimum_os::RULE,
    libraries::RULE,
    rpath::RULE,
    absolute_path::RULE,
    exports::RULE,
    undefined_symbol::RULE,
    openmp::RULE,
    build_path::RULE,
    text_relocations::RULE,
    executable_stack::RULE,
    signature::RULE,
];

/// Rules that readers of containers apply: their findings come before those of [`RULES`].
pub const CONTAINER_RULES: &[(&str, &str)] = &[
    ("damaged", "the file can be read to its end"),
    ("model-data", "the data of a .pte are whole, and those that their names promise"),
];

/// The first few of many things, for a message.
fn few<T: AsRef<str>>(all: &[T]) -> String {
    const SHOWN: usize = 6;
    let mut text: Vec<&str> = all.iter().take(SHOWN).map(AsRef::as_ref).collect();
    let more = all.len().saturating_sub(SHOWN);
    let rest = format!("{more} more");
    if more > 0 {
        text.push(&rest);
    }
    text.join(", ")
}
