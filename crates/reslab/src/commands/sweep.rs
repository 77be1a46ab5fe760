//! `reslab sweep FILE`: plan, estimate, run, resume, report.

use super::data::ensure;
use super::plan::show;
use crate::board::Board;
use crate::columns::columns;
use crate::devices::{Devices, default_jobs, parse_jobs};
use crate::forecast::forecast;
use crate::outcome::{Exit, not_begun};
use crate::planning::{FileOptions, Fit, Planned, Selection, pick};
use crate::probing::{run_command, slots};
use crate::signals::{self, STOP, Second};
use crate::sources::DataOptions;
use crate::tables::{Current, print_table, settle_if_possible, settle_tables};
use crate::terminal::{bytes, note, say, warn};
use crate::watch::{Ending, Watch};
use anyhow::Result;
use reslab_record::{Failed, Plan, PlannedRun, RunState, clear_partials, network_file_system, run_state};
use reslab_report::{Options, read_sweep_of, table};
use reslab_residual::Registry;
use reslab_sweep::{
    Estimate, Event, Job, Leftover, OnFailure, Remedy, Retry, Skip, Slot, Summary, delete, execute, freeze, is_done,
    leftovers, pending, preview,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `sweep`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    file: FileOptions,
    #[command(flatten)]
    selection: Selection,
    /// The folder that the sweep's own folder goes into [default: results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show what would run, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// List the folders of runs that the plan no longer has, and start nothing; with --yes they are deleted
    #[arg(long)]
    prune: bool,
    /// With --prune: delete what is listed
    #[arg(long, requires = "prune")]
    yes: bool,
    #[command(flatten)]
    running: Running,
}

/// How runs are started, in every command that starts those of a plan.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Running {
    #[command(flatten)]
    pub(crate) data: DataOptions,
    /// Runs at once per device [default: CPU: cores / threads; CUDA: 1]
    #[arg(long, value_name = "N", value_parser = parse_jobs)]
    jobs: Option<usize>,
    /// When a run fails, let the others save and stop
    #[arg(long)]
    fail_fast: bool,
    /// Start only runs that failed, whatever the reason
    #[arg(long)]
    retry_failed: bool,
    /// Write event files for TensorBoard too, while runs go on and at their end: `tensorboard --logdir results`
    #[arg(long)]
    pub(crate) tensorboard: bool,
    /// How often a run that was killed, hung, or met an I/O error is started again from its checkpoint
    #[arg(long, value_name = "N", default_value_t = 2)]
    retries: u32,
    /// Seconds after which a run of which nothing is heard counts as hung and is ended; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    hang_after: u64,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    let planned = arguments.file.plan(registry, Fit::Required)?;
    if let Some(line) = planned.file.announcement() {
        note(line);
    }
    let dir = planned.folder(arguments.out.as_deref());
    // As it will be written: runs that are known have the folders that they have.
    let plan = preview(&planned.plan, &dir).map_err(not_begun)?.plan;
    let runs = pick(&plan, &arguments.selection)?;
    if arguments.dry_run {
        return dry_run(&planned, &runs, &dir, &arguments.running, registry);
    }
    if arguments.prune {
        return prune(&planned, &dir, arguments.yes);
    }
    if let Some(exit) = all_done(&plan, &runs, &dir)? {
        Board::new(&dir, arguments.running.tensorboard).write()?;
        return Ok(exit);
    }
    // ---- the data, before anything is written
    ensure_data(&pending(&dir, &runs, arguments.running.retry()), &arguments.running.data)?;
    // ---- the plan
    let frozen = freeze(&planned.plan, &dir).map_err(not_begun)?;
    let runs = pick(&frozen.plan, &arguments.selection)?;
    clear_partials(&dir)?;
    tell_changes(&frozen, &dir);
    if let Some(kind) = network_file_system(&dir) {
        warn(format_args!(
            "{}: on {kind}, where other hosts may not see locks; runs leave a heartbeat instead, so that one whose host \
             died is taken up again after 3 minutes",
            dir.display()
        ));
    }
    // ---- estimate, runs, table
    let slots = arguments.running.slots(&planned.devices, arguments.file.threads);
    let show = |dir: &Path| show_table(&frozen.plan, dir);
    Sweep { dir: &dir, runs: &runs, slots, arguments: &arguments.running, show: &show }.go(registry)
}

/// The table of this sweep's own runs: another one may have changed the folder's plan since.
fn show_table(own: &Plan, dir: &Path) -> Result<()> {
    if Plan::read(dir).is_ok_and(|now| says_the_same(&now, own)) {
        return print_table(dir);
    }
    let table = table(&read_sweep_of(own.clone(), dir), &Options::default())?;
    say(format_args!("\n{}", table.to_text().trim_end()));
    note(format_args!(
        "{}: another sweep changed plan.toml meanwhile: the table above is of the runs of this one, the files in the folder are \
         of the plan that stands there now",
        dir.display()
    ));
    Ok(())
}

/// The data sets of these runs, fetched where they are not here.
pub(crate) fn ensure_data(runs: &[PlannedRun], data: &DataOptions) -> Result<()> {
    datasets(runs).iter().try_for_each(|dataset| ensure(dataset, &data.sources()))
}

impl Running {
    pub(crate) fn retry(&self) -> Retry {
        if self.retry_failed { Retry::FailedOnly } else { Retry::Pending }
    }

    pub(crate) fn slots(&self, devices: &Devices, threads: u32) -> Vec<Slot> {
        slots(devices, self.jobs.unwrap_or_else(|| default_jobs(devices, threads as usize)))
    }
}

fn dry_run(
    planned: &Planned,
    runs: &[PlannedRun],
    dir: &Path,
    arguments: &Running,
    registry: &Registry,
) -> Result<Exit> {
    show(planned, runs, registry)?;
    let todo = pending(dir, runs, arguments.retry());
    say(format_args!("{} of them would start now, in {}", todo.len(), dir.display()));
    Ok(Exit::Done)
}

/// Where all runs of a plan that says the same are done, nothing is written, not even the plan: the folder may be
/// a published one. Only tables that its records belie are mended.
fn all_done(plan: &Plan, runs: &[PlannedRun], dir: &Path) -> Result<Option<Exit>> {
    let Ok(old) = Plan::read(dir) else { return Ok(None) };
    if !says_the_same(&old, plan) || !runs.iter().all(|run| is_done(run, dir)) {
        return Ok(None);
    }
    settle_if_possible(dir);
    tell_all_done(runs.len(), dir);
    print_table(dir)?;
    Ok(Some(Exit::Done))
}

fn tell_all_done(runs: usize, dir: &Path) {
    let dir = dir.display();
    note(format_args!(
        "all {runs} runs are done, in {dir}; nothing was started. `reslab reproduce {dir}` runs them anew and compares, \
         `--out DIR` runs them anew elsewhere"
    ));
}

/// Whether two plans have the same runs under the same names, and compare them in the same way.
fn says_the_same(old: &Plan, new: &Plan) -> bool {
    let runs = |plan: &Plan| plan.runs.iter().map(|run| (run.id.clone(), run.arm.clone())).collect::<Vec<_>>();
    let primary = |plan: &Plan| plan.study.as_ref().map(|study| study.primary.clone());
    let asks = |plan: &Plan| {
        (plan.baseline.clone(), plan.metric.clone(), plan.select.clone(), plan.question.clone(), primary(plan))
    };
    runs(old) == runs(new) && asks(old) == asks(new)
}

/// What is said of a run that is started again.
fn again(failed: &Failed, remedy: Remedy) -> String {
    let first = failed.message.lines().next().unwrap_or_default();
    let what = match remedy {
        Remedy::Retry { number, of } => format!("it goes on from its checkpoint (retry {number} of {of})"),
        Remedy::Accumulate { micro_batches } => {
            format!("it goes on with {micro_batches} micro-batches per batch, and the table says so")
        }
    };
    format!("{}: {first}; {what}", failed.class)
}

/// Lists run folders that the plan no longer has, and deletes them when that was asked for.
fn prune(planned: &Planned, dir: &Path, yes: bool) -> Result<Exit> {
    let frozen = if yes { freeze(&planned.plan, dir) } else { preview(&planned.plan, dir) }.map_err(not_begun)?;
    let leftovers = leftovers(&frozen.plan, dir)?;
    let row = |leftover: &Leftover| {
        vec![leftover.path.display().to_string(), bytes(leftover.bytes), leftover.state.to_string()]
    };
    if !leftovers.is_empty() {
        columns(&["folder", ">size", "run"], &leftovers.iter().map(row).collect::<Vec<_>>()).iter().for_each(say);
    }
    match (leftovers.len(), yes) {
        (0, _) => note(format_args!("{}: every run's folder belongs to the plan", dir.display())),
        (n, false) => note(format_args!("{n} folders are not in the plan; --prune --yes deletes them")),
        (_, true) => {
            let deleted = delete(&leftovers, dir)?;
            note(format_args!("{deleted} folders deleted"));
        }
    }
    Ok(Exit::Done)
}

/// Names of the data sets of these runs that can be fetched, each once.
fn datasets(runs: &[PlannedRun]) -> Vec<String> {
    let mut names: Vec<String> =
        runs.iter().filter_map(|run| run.config.get("data")?.get("dataset")?.as_str().map(str::to_owned)).collect();
    names.retain(|name| name != reslab_data::IMAGE_FOLDER);
    names.sort();
    names.dedup();
    names
}

fn tell_changes(frozen: &reslab_sweep::Frozen, dir: &Path) {
    if frozen.is_new || (frozen.added.is_empty() && frozen.removed.is_empty()) {
        return;
    }
    let done = frozen.removed.iter().filter(|run| is_done(run, dir)).count();
    note(format_args!(
        "{}: the plan changed: {} runs are new, {} are kept, {} are left out of the table ({done} of them done; their records \
         stay, and come back into the table with the file as it was)",
        dir.display(),
        frozen.added.len(),
        frozen.kept,
        frozen.removed.len()
    ));
}

/// A sweep whose plan is on disk.
pub(crate) struct Sweep<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) runs: &'a [PlannedRun],
    pub(crate) slots: Vec<Slot>,
    pub(crate) arguments: &'a Running,
    /// Shows the folder's results when runs have ended.
    pub(crate) show: &'a dyn Fn(&Path) -> Result<()>,
}

impl Sweep<'_> {
    pub(crate) fn go(&self, registry: &Registry) -> Result<Exit> {
        signals::watch(Second::IsHeard);
        let todo = pending(self.dir, self.runs, self.arguments.retry());
        let done = self.runs.iter().filter(|run| is_done(run, self.dir)).count();
        note(format_args!("{}: {} runs, {done} done, {} to start", self.dir.display(), self.runs.len(), todo.len()));
        let estimate = match todo.is_empty() {
            true => None,
            false => Some(forecast(&todo, &self.slots, &self.arguments.data, registry)?),
        };
        if let Some(signal) = STOP.signal() {
            return Ok(Exit::Signal(signal));
        }
        if let Some(estimate) = &estimate {
            note(format_args!("estimate: {estimate}"));
        }
        let mut board = Board::new(self.dir, self.arguments.tensorboard);
        board.write_if_possible();
        let summary = self.execute(&todo, estimate.as_ref(), &mut board);
        board.write_if_possible();
        self.finish(&summary, estimate.as_ref())
    }

    fn execute(&self, todo: &[PlannedRun], estimate: Option<&Estimate>, board: &mut Board) -> Summary {
        let job = Job {
            sweep: self.dir,
            runs: self.runs,
            slots: &self.slots,
            on_failure: if self.arguments.fail_fast { OnFailure::StopAll } else { OnFailure::GoOn },
            retry: self.arguments.retry(),
            retries: self.arguments.retries,
            hang_after: (self.arguments.hang_after > 0).then(|| Duration::from_secs(self.arguments.hang_after)),
        };
        let planned = todo.iter().enumerate().map(|(index, run)| {
            let seconds = estimate.and_then(|estimate| estimate.run_seconds.get(index).copied().flatten());
            (run.id.clone(), label(run), seconds.unwrap_or(1.0))
        });
        // They may have to be taken over.
        let is_elsewhere = |run: &&PlannedRun| matches!(run_state(&run.dir(self.dir)), Ok(RunState::Running));
        let elsewhere = self.runs.iter().filter(is_elsewhere).map(|run| (run.id.clone(), label(run), 1.0));
        let mut watch = Watch::new(elsewhere.chain(planned));
        let current = Current::default();
        let start = |run: &PlannedRun, slot: &Slot| run_command(self.dir, run, &slot.device, &self.arguments.data);
        let mut hear = |event: Event<'_>| self.hear(&event, &mut watch, &current, board);
        let summary = execute(&job, &start, &mut hear, &STOP);
        watch.close();
        summary
    }

    fn hear(&self, event: &Event, watch: &mut Watch, current: &Current, board: &mut Board) {
        match event {
            Event::Started { run, device } => watch.started(&run.id, device),
            Event::Progress { run, progress } => {
                watch.progress(&run.id, progress);
                board.progress(run, progress, watch);
            }
            Event::Finished { run, outcome } => {
                watch.ended(&run.id, &Ending::Done(*outcome));
                current.refresh(self.dir, watch);
                board.ended(run, watch);
            }
            Event::Failed { run, failed, log } => {
                let first = failed.message.lines().next().unwrap_or_default();
                watch.ended(&run.id, &Ending::Failed(format!("{}: {first}; see {}", failed.class, log.display())));
                current.refresh(self.dir, watch);
                board.ended(run, watch);
            }
            Event::Again { run, failed, remedy } => watch.again(&run.id, &again(failed, *remedy)),
            Event::Interrupted { run } => watch.ended(&run.id, &Ending::Stopped),
            Event::Skipped { run, why: Skip::Elsewhere } => {
                watch.note(&format!("{}: another process is at it; waiting for it to end", label(run)));
            }
            // Only a run that another process was at can be done by now; for the others nothing changes.
            Event::Skipped { run, why: Skip::Done(Some(outcome)) } => {
                watch.ended(&run.id, &Ending::Done(*outcome));
            }
            Event::Skipped { run, why: Skip::Failed(failed) } => {
                let first = failed.message.lines().next().unwrap_or_default();
                // A result that can't be read is nobody's to write over; its message says what helps.
                let helps =
                    if run.dir(self.dir).join("done.json").exists() { "" } else { "; --retry-failed tries again" };
                watch.note(&format!("{}: failed before ({}: {first}){helps}", label(run), failed.class));
            }
            Event::Skipped { .. } => {}
            Event::Stopping => watch.note("stopping: runs save and end; once more ends them at once"),
        }
    }

    fn finish(&self, summary: &Summary, estimate: Option<&Estimate>) -> Result<Exit> {
        if summary.finished + summary.non_finite + summary.done_before > 0 {
            settle_tables(self.dir)?;
            (self.show)(self.dir)?;
        }
        match summary.all_done_before() {
            true => tell_all_done(self.runs.len(), self.dir),
            false => note(format_args!("{}: {summary}", self.dir.display())),
        }
        let complete = summary.interrupted + summary.not_started + summary.elsewhere == 0;
        if let Some(line) = estimate.filter(|_| complete).and_then(|e| e.beside(summary.wall.as_secs_f64())) {
            note(line);
        }
        for run in &summary.failed {
            let message = run.failed.message.replace('\n', "\n    ");
            warn(format_args!(
                "{}-s{} failed ({}): {message}\n    log: {}",
                run.arm,
                run.seed,
                run.failed.class,
                run.log.display()
            ));
        }
        if let Some(signal) = summary.signal {
            note("stopped; the same command goes on where it was");
            return Ok(Exit::Signal(signal));
        }
        Ok(if summary.exit_code() == 0 { Exit::Done } else { Exit::Failed })
    }
}

/// `plain-s0`.
pub(crate) fn label(run: &PlannedRun) -> String {
    format!("{}-s{}", run.arm, run.seed)
}
