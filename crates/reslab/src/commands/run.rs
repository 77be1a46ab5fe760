//! `reslab run FILE --arm NAME --seed S`: one run of a sweep, in this process and in the sweep's folder.

use super::sweep::{ensure_data, label};
use crate::board::Board;
use crate::execution::{Ran, Site, execute};
use crate::outcome::{Exit, Usage, not_begun};
use crate::planning::{FileOptions, Fit, Planned, Selection};
use crate::signals::{self, STOP, Second};
use crate::sources::DataOptions;
use crate::tables::{refresh_tables, settle_if_possible};
use crate::terminal::{note, say};
use crate::watch::{Ending, Watch};
use anyhow::Result;
use reslab_record::{Done, PlannedRun, RunDir, clear_partials};
use reslab_residual::Registry;
use reslab_sweep::freeze;
use std::path::{Path, PathBuf};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    file: FileOptions,
    /// The arm, by its name in the file or its full name
    #[arg(long, value_name = "NAME")]
    arm: String,
    /// The seed, one of the file's
    #[arg(long, value_name = "S")]
    seed: u64,
    /// The folder that the sweep's own folder goes into [default: results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write event files for TensorBoard too, while the run goes on and at its end
    #[arg(long)]
    tensorboard: bool,
    #[command(flatten)]
    data: DataOptions,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    let planned = arguments.file.plan(registry, Fit::Required)?;
    if let Some(line) = planned.file.announcement() {
        note(line);
    }
    let picked = the_one(&planned, arguments)?;
    let id = picked.id.clone();
    let dir = planned.folder(arguments.out.as_deref());
    let sources = arguments.data.sources();
    ensure_data(&[picked], &arguments.data)?;
    let frozen = freeze(&planned.plan, &dir).map_err(not_begun)?;
    clear_partials(&dir)?;
    let mut board = Board::new(&dir, arguments.tensorboard);
    let run = frozen.plan.runs.iter().find(|run| run.id == id).expect("the frozen plan has the plan's runs");
    if RunDir::open(&run.dir(&dir)).is_ok_and(|dir| dir.is_done()) {
        note(format_args!("{} is done; nothing was started", label(run)));
        settle_if_possible(&dir);
        board.write()?;
        show_result(&run.dir(&dir))?;
        return Ok(Exit::Done);
    }
    signals::watch(Second::Ends);
    let device = &planned.devices.names[0];
    let mut watch = Watch::new([(run.id.clone(), label(run), 1.0)]);
    watch.started(&run.id, device);
    let site = Site { device, dir: run.dir(&dir), sources };
    let mut hear = |event: &_| {
        watch.progress(&run.id, event);
        board.progress(run, event, &watch);
    };
    let ran = execute(run, &site, registry, &mut hear)?;
    let exit = tell(&ran, run, &dir, &mut watch);
    refresh_tables(&dir, &watch);
    watch.close();
    board.write_if_possible();
    show_result(&site.dir)?;
    Ok(exit)
}

/// The run that `--arm` and `--seed` name.
fn the_one(planned: &Planned, arguments: &Arguments) -> Result<PlannedRun> {
    let selection = Selection { arm: vec![arguments.arm.clone()], seeds: vec![arguments.seed] };
    let mut runs = planned.pick(&selection)?;
    if runs.len() > 1 {
        let names: Vec<String> = runs.iter().map(|run| format!("--arm '{}'", run.arm)).collect();
        return Err(Usage::error(format!(
            "--arm {}: {} runs have this name; one of: {}",
            arguments.arm,
            runs.len(),
            names.join(", ")
        )));
    }
    Ok(runs.remove(0))
}

fn tell(ran: &Ran, run: &PlannedRun, dir: &Path, watch: &mut Watch) -> Exit {
    let (ending, exit) = match ran {
        Ran::Done(outcome) => (Ending::Done(*outcome), Exit::Done),
        Ran::Interrupted => (Ending::Stopped, Exit::Signal(STOP.signal().unwrap_or(libc::SIGINT))),
        Ran::Elsewhere => (Ending::Failed("another process is at it".to_owned()), Exit::Failed),
        Ran::Failed(failed) => {
            let log = run.dir(dir).join("log.txt");
            (Ending::Failed(format!("{}: {}; see {}", failed.class, failed.message, log.display())), Exit::Failed)
        }
    };
    watch.ended(&run.id, &ending);
    exit
}

/// The metrics of a run that is done.
fn show_result(dir: &Path) -> Result<()> {
    let Some(Done { metrics, .. }) = RunDir::open(dir)?.read_done()? else { return Ok(()) };
    let metrics: Vec<String> = metrics.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
    say(format_args!("{}\n{}", dir.display(), metrics.join("  ")));
    Ok(())
}
