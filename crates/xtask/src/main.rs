//! Developer chores: `cargo setup`, which makes a fresh clone ready, and checks that CI runs. No libtorch.

mod data;
mod dependencies;
mod libtorch;
mod pip;
mod platform;
mod python;
mod setup;
mod torch_sys;
mod ui;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Put libtorch and the first data set into the checkout; instant when they are there (also: cargo setup)
    Setup(setup::Options),
    /// Fail unless torch-sys was compiled exactly once in this target folder
    CheckTorchSys,
    /// Fail where a crate of Cargo.lock has a licence, a source or a version that it must not have
    CheckDependencies,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Setup(options) => setup::run(&options),
        Chore::CheckTorchSys => torch_sys::check(),
        Chore::CheckDependencies => dependencies::check(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
