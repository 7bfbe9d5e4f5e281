//! `cargo xtask bench`: the runtime's speed, each number as a ratio to a peer measured in the same
//! run. Prints a table; asserts nothing.
//!
//! Ours and the peer take turns, and the best of each counts: what else the machine does slows
//! down both, and the best turns least.

mod bench;
mod clock;
mod peer;
mod rows;
mod table;

use anyhow::{Result, bail};

use bench::Bench;

/// Threads of ours and of the peer, unless `ETMETAL_THREADS` says otherwise.
const THREADS: usize = 2;

/// Makes this program print the time of one load, in a fresh process.
const LOAD_ONCE: &str = "--load-once";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["--suite", "runtime"] => measure(""),
        ["--suite", "runtime", "--filter", filter] => measure(filter),
        [LOAD_ONCE] => rows::load::once(),
        _ => bail!(
            "unknown arguments {arguments:?}: the suite there is, is `--suite runtime`, and \
             `--filter TEXT` chooses rows of it"
        ),
    }
}

/// Measures the rows whose names contain `filter`, and prints them as they come.
fn measure(filter: &str) -> Result<()> {
    if std::env::var_os("ETMETAL_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // SAFETY: this program has no other thread yet.
        unsafe { std::env::set_var("ETMETAL_THREADS", THREADS.min(cores).to_string()) };
    }
    let mut bench = Bench::new()?;
    println!("{}", bench.describe());
    table::print_header();
    for row in rows::all(bench.threads()) {
        if row.name.contains(filter) {
            for measured in (row.measure)(&mut bench)? {
                table::print(&measured);
            }
        }
    }
    Ok(())
}
