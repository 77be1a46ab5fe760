//! The command line: every command's arguments stand in its own file.

use crate::commands::{
    bench, compare, config_docs, data, doctor, exec_probe, exec_run, export, init, inspect, plan, report, reproduce,
    run, start, strategies, sweep, watch,
};
use clap::{Parser, Subcommand};

/// reslab trains one deep vision transformer many times, changing only how branches join the residual stream, and ends
/// in a table.
#[derive(Debug, Parser)]
#[command(name = "reslab", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(
    after_help = "Exit codes: 0 all runs done (a diverged run is a result); 1 a run failed; 2 bad usage or config, \
                        nothing started; 130 Ctrl-C; 143 SIGTERM."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Plan, run, resume and report a sweep file
    Sweep(sweep::Arguments),
    /// The expanded plan: arms, runs, parameters, operations, time here; starts nothing
    Plan(plan::Arguments),
    /// One run in this process
    Run(run::Arguments),
    /// Rebuild the tables from the records
    Report(report::Arguments),
    /// The arms that two sweeps share, side by side
    #[command(after_help = compare::HELP)]
    Compare(compare::Arguments),
    /// Show a running sweep live: runs, losses, spikes, devices, time left; reads only
    Watch(watch::Arguments),
    /// Run a recorded plan anew elsewhere, and say which results agree
    #[command(after_help = reproduce::HELP)]
    Reproduce(reproduce::Arguments),
    /// List the strategies, or show one's equation, source, parameters and example
    Strategies(strategies::Arguments),
    /// Per block and branch: gamma, and what the branch really adds to the stream
    #[command(after_help = inspect::HELP)]
    Inspect(inspect::Arguments),
    /// What each arm makes of its pretrained network before step 0: change of the features, k-NN; trains nothing
    #[command(after_help = start::HELP)]
    Start(start::Arguments),
    /// Write a checkpoint as timm or transformers reads it
    #[command(after_help = export::HELP)]
    Export(export::Arguments),
    /// Data sets: where they are looked for, fetched from, their checksums
    Data(data::Arguments),
    /// libtorch, devices, threads, determinism, disk: what works here and what does not
    Doctor(doctor::Arguments),
    /// Training throughput: images/s, share of the matrix-multiply peak, memory
    Bench(bench::Arguments),
    /// Write a complete starting sweep file with a comment on every key
    Init(init::Arguments),
    #[command(hide = true)]
    ConfigDocs(config_docs::Arguments),
    #[command(hide = true)]
    ExecRun(exec_run::Arguments),
    #[command(hide = true)]
    ExecProbe(exec_probe::Arguments),
}
