//! `cargo xtask`: see the library.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    xtask::Cli::parse().run().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
