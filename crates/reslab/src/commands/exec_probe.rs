//! `reslab exec-probe` (hidden): times a few real steps of a run's network; writes nothing.

use super::exec_run::tell;
use crate::execution::{Site, config_of, job};
use crate::outcome::Exit;
use crate::sources::DataOptions;
use anyhow::Result;
use reslab_record::PlannedRun;
use reslab_residual::Registry;
use std::path::PathBuf;

/// Steps that are timed, after one that is not.
const STEPS: u64 = 3;

/// Arguments of `exec-probe`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The run, as it stands in a plan: a plan need not be written to be probed
    #[arg(long)]
    run: String,
    /// The device
    #[arg(long)]
    device: String,
    #[command(flatten)]
    data: DataOptions,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    let run: PlannedRun = toml::from_str(&arguments.run)?;
    let config = config_of(&run, registry)?;
    // The folder is never touched by a probe.
    let site = Site { device: &arguments.device, dir: PathBuf::new(), sources: arguments.data.sources() };
    tell(&reslab_train::probe(&job(&run, &config, &site)?, STEPS)?);
    Ok(Exit::Done)
}
