//! The residual-scaling lab: which way of joining a branch to the residual stream keeps a deep vision transformer trainable?
//!
//! This crate is the command line: it parses, calls the other crates, and prints. It alone reads the environment, the
//! user's folders and the terminal. A program with strategies of its own is three lines:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     reslab::run(reslab::Registry::builtin()) // .with(&MY_VARIANT)
//! }
//! ```

mod board;
mod cli;
#[cfg(test)]
mod code_state;
mod columns;
mod commands;
mod determinism;
mod devices;
mod environment;
mod execution;
mod forecast;
mod format;
mod inspect;
mod matmul;
mod monitor;
mod outcome;
mod planning;
mod probing;
mod signals;
mod sources;
mod tables;
mod terminal;
mod watch;

pub use reslab_residual::Registry;

use clap::Parser;
use cli::{Cli, Command};
use commands::{
    bench, compare, config_docs, data, doctor, exec_probe, exec_run, export, init, inspect as inspect_file, plan,
    report, reproduce, run as run_one, start, strategies, sweep, watch as watch_sweep,
};
use std::process::ExitCode;

/// The whole program, with these strategies: reads the arguments, does what they say, and hands back the exit code.
pub fn run(registry: Registry) -> ExitCode {
    // clap itself ends the program after --help (0) and on bad usage (2).
    let cli = Cli::parse();
    signals::outlive_file_limits();
    let outcome = match &cli.command {
        Command::Sweep(arguments) => sweep::run(arguments, &registry),
        Command::Plan(arguments) => plan::run(arguments, &registry),
        Command::Run(arguments) => run_one::run(arguments, &registry),
        Command::Report(arguments) => report::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Watch(arguments) => watch_sweep::run(arguments),
        Command::Reproduce(arguments) => reproduce::run(arguments, &registry),
        Command::Strategies(arguments) => strategies::run(arguments, &registry),
        Command::Export(arguments) => export::run(arguments, &registry),
        Command::Data(arguments) => data::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Inspect(arguments) => inspect_file::run(arguments, &registry),
        Command::Start(arguments) => start::run(arguments, &registry),
        Command::Bench(arguments) => bench::run(arguments, &registry),
        Command::Init(arguments) => init::run(arguments),
        Command::ConfigDocs(arguments) => config_docs::run(arguments, &registry),
        Command::ExecRun(arguments) => exec_run::run(arguments, &registry),
        Command::ExecProbe(arguments) => exec_probe::run(arguments, &registry),
    };
    let exit = outcome.unwrap_or_else(|error| {
        let (lines, exit) = outcome::explain(&error);
        lines.iter().for_each(terminal::error);
        exit
    });
    match terminal::unsaid() {
        Some(problem) if exit == outcome::Exit::Done => {
            terminal::error(format_args!("standard output: cannot write: {problem}; what stands there is not whole"));
            outcome::Exit::Failed
        }
        _ => exit,
    }
    .into()
}
