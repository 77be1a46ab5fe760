//! `reslab exec-run` (hidden): one run of a sweep, started by the sweep; one JSON line per event on standard output.
//! Standard error is the run's log.

use crate::execution::{Ran, Site, execute};
use crate::outcome::{Exit, Usage, with_causes};
use crate::signals::{self, STOP, STOPPING, Second};
use crate::sources::DataOptions;
use crate::terminal::warn;
use anyhow::Result;
use reslab_record::{Plan, PlannedRun, Progress};
use reslab_residual::Registry;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Arguments of `exec-run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sweep's folder
    #[arg(long)]
    sweep: PathBuf,
    /// The run's id in the folder's plan
    #[arg(long, required_unless_present = "run")]
    id: Option<String>,
    /// The run, as it stood in the plan when its sweep began
    #[arg(long, conflicts_with = "id")]
    run: Option<String>,
    /// The device
    #[arg(long)]
    device: String,
    #[command(flatten)]
    data: DataOptions,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    signals::watch(Second::Ends);
    let run = arguments.planned()?;
    let site = Site { device: &arguments.device, dir: run.dir(&arguments.sweep), sources: arguments.data.sources() };
    let ran = match execute(&run, &site, registry, &mut tell) {
        Ok(ran) => ran,
        // The log, on the same disk, may not have it.
        Err(error) => {
            tell(&Progress::Note { text: with_causes(&error) });
            warn(with_causes(&error));
            return Ok(Exit::Io);
        }
    };
    Ok(match ran {
        Ran::Done(_) => Exit::Done,
        Ran::Interrupted => Exit::Signal(STOP.signal().unwrap_or(libc::SIGTERM)),
        Ran::Elsewhere => Exit::Locked,
        Ran::Failed(_) => Exit::Failed,
    })
}

impl Arguments {
    fn planned(&self) -> Result<PlannedRun> {
        if let Some(text) = &self.run {
            return Ok(toml::from_str(text)?);
        }
        let id = self.id.as_deref().unwrap_or_default();
        let plan = Plan::read(&self.sweep)?;
        let run = plan.runs.into_iter().find(|run| run.id == id);
        run.ok_or_else(|| Usage::error(format!("{}: no run {id}", self.sweep.display())))
    }
}

/// One line. Where nobody listens any more the sweep is gone: the run saves and stops.
pub(crate) fn tell(event: &Progress) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{}", event.to_line()).and_then(|()| out.flush()).is_err() {
        STOPPING.store(true, Ordering::SeqCst);
    }
}
