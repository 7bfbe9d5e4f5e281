//! `etmetal`: runs and inspects ExecuTorch programs that use the Metal delegate.

mod call;
mod compare;
mod inputs;
mod inspect;
mod leftover;
mod output;
mod profile;
mod run;
mod selftest;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "etmetal", version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a method of a program, and compare its outputs with what is expected
    ///
    /// Exits with 0 if it ran and all outputs are within tolerance, with 1 if not.
    Run(run::Arguments),
    /// Run a method of a program and tell where the time goes: a table of kernels and operators,
    /// and a trace
    ///
    /// Times of kernels are those on the device. The bytes of a kernel or an operator are those of
    /// the tensors that it uses, each element counted once: what it would move if it touched all
    /// of them. A trace opens in https://ui.perfetto.dev and in chrome://tracing.
    Profile(profile::Arguments),
    /// Tell what is in a program, without running any of it
    ///
    /// Exits with 1 if it finds a problem: data that is missing or damaged, or symbols that this
    /// version or this machine lacks.
    Inspect(inspect::Arguments),
    /// Check a whole device: kernels, op graphs, memory, errors, models
    ///
    /// Results are compared with those of the host device's native code, or of plain loops. Prints
    /// a report that can be pasted into an issue. Exits with 1 if a check fails.
    Selftest(selftest::Arguments),
}

/// How a command ended that could do its work.
enum Outcome {
    /// As wished.
    Success,
    /// With a result that is not what was expected.
    Failure,
}

fn main() -> ExitCode {
    // A usage error ends the process here, with code 2.
    let arguments = Arguments::parse();
    let (result, json) = match arguments.command {
        Command::Run(arguments) => (run::run(&arguments), arguments.json),
        Command::Profile(arguments) => (profile::run(&arguments), arguments.json),
        Command::Inspect(arguments) => (inspect::run(&arguments), arguments.json),
        Command::Selftest(arguments) => (selftest::run(&arguments), arguments.json),
    };
    match result {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Failure) => ExitCode::FAILURE,
        Err(error) => {
            if json {
                // The error itself stands on standard error too.
                let text = serde_json::json!({ "error": error.to_string() }).to_string();
                let _ = output::print(&text);
            }
            eprintln!("{} {error}", output::Style::of(&std::io::stderr()).red("error:"));
            ExitCode::FAILURE
        }
    }
}
