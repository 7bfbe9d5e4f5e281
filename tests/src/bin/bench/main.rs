//! `cargo xtask bench`: the runtime's speed, each number as a ratio to a peer measured in the same
//! run. Prints a table; asserts nothing.
//!
//! Ours and the peer take turns, and the best of each counts: what else the machine does slows
//! down both, and the best turns least.

mod bench;
mod clock;
mod host;
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
        [] => measure("runtime", ""),
        ["--suite", suite] => measure(suite, ""),
        ["--suite", suite, "--filter", filter] => measure(suite, filter),
        [LOAD_ONCE, fixture] => rows::load::once(fixture),
        _ => bail!(
            "unknown arguments {arguments:?}: there are `--suite runtime`, `--suite host`, and \
             `--filter TEXT`, which chooses rows"
        ),
    }
}

/// Measures the rows of `suite` whose names contain `filter`, and prints them as they come.
fn measure(suite: &str, filter: &str) -> Result<()> {
    let rows = match suite {
        "runtime" => rows::all,
        "host" => host::all,
        _ => bail!("there is no suite {suite:?}; there are `runtime` and `host`"),
    };
    if std::env::var_os("ETMETAL_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // SAFETY: this program has no other thread yet.
        unsafe { std::env::set_var("ETMETAL_THREADS", THREADS.min(cores).to_string()) };
    }
    let mut bench = Bench::new()?;
    println!("{}", bench.describe());
    if suite == "host" && !bench.has_pytorch() {
        bail!("the suite `host` needs a Python with PyTorch: name it with `--python FILE`");
    }
    table::print_header();
    let mut summary = table::Summary::default();
    for row in rows(bench.threads()) {
        if row.name.contains(filter) {
            for measured in (row.measure)(&mut bench)? {
                table::print(&measured);
                summary.add(&measured);
            }
        }
    }
    println!("{summary}");
    Ok(())
}
