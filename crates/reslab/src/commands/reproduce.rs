//! `reslab reproduce DIR`: the frozen plan of a sweep's folder, run anew elsewhere and compared with its records.

use super::report::require_plan;
use super::sweep::{Running, Sweep, ensure_data, label};
use crate::devices::{DeviceChoice, Devices};
use crate::execution::config_of;
use crate::outcome::{Exit, Usage, not_begun};
use crate::planning::{Selection, pick};
use crate::terminal::{note, say};
use anyhow::{Context, Result};
use reslab_record::{Plan, PlannedRun};
use reslab_report::{compare, write_reproduction};
use reslab_residual::Registry;
use reslab_sweep::{freeze, is_done, pending};
use std::fs;
use std::path::{Path, PathBuf};

/// Shown below the arguments.
pub(crate) const HELP: &str = "\
Runs what the folder's plan.toml holds: resolved configurations, device kind and threads as recorded. Of every run and of every \
arm's mean it says, for the metric and the final training loss:
  identical        all records have equal bytes but for times, or else all metrics are equal to the last bit
  within interval  the difference is one that chance allows
  different        it is not
Chance is another rounding, which is at worst another seed: a difference has twice the variance over the arm's seeds (or that of \
the median arm, if larger) and twice that of a share of so many test images. It is judged by Student's t at p = .05 \
with Holm's correction over all runs and arms. An arm's mean is from three seeds on also judged by a paired t test. Runs that \
diverged are compared by that alone. With one seed only the noise of the test images is known, and no loss is judged.

Exit codes: 0 nothing differs by more than chance allows; 1 something does, or a run failed; 2 bad usage, nothing started.";

/// Arguments of `reproduce`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sweep's folder with the records
    dir: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// The new folder; a second call goes on in it [default: results/<name of DIR>-reproduced]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Devices of the recorded kind [default: all of it that are here]
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    #[command(flatten)]
    running: Running,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    let dir = &arguments.dir;
    require_plan(dir)?;
    let plan = Plan::read(dir).map_err(Usage::error)?;
    let out = new_folder(dir, arguments.out.as_deref(), &plan)?;
    let runs = recorded(&plan, dir, &arguments.selection)?;
    let devices = devices(&runs, arguments)?;
    check(&runs, &devices, registry)?;
    // ---- the data, the plan, the runs
    let exit = if runs.iter().all(|run| is_done(run, &out)) {
        note(format_args!("all {} runs are done, in {}; nothing was started", runs.len(), out.display()));
        Exit::Done
    } else {
        ensure_data(&pending(&out, &runs, arguments.running.retry()), &arguments.running.data)?;
        freeze(&plan, &out).map_err(not_begun)?;
        let slots = arguments.running.slots(&devices, runs[0].threads);
        Sweep { dir: &out, runs: &runs, slots, arguments: &arguments.running, show: &|_| Ok(()) }.go(registry)?
    };
    if let Exit::Signal(_) = exit {
        return Ok(exit);
    }
    // ---- the comparison
    let ids: Vec<String> = runs.iter().map(|run| run.id.clone()).collect();
    let reproduction = compare(dir, &out, &ids)?;
    say(format_args!("\n{}", reproduction.to_text().trim_end()));
    write_reproduction(&reproduction, &out)?;
    note(format_args!("wrote reproduce.md and reproduce.csv in {}", out.display()));
    Ok(if exit == Exit::Done && !reproduction.holds() { Exit::Failed } else { exit })
}

/// The folder to run in, which is not the recorded one and holds no other sweep.
fn new_folder(dir: &Path, out: Option<&Path>, plan: &Plan) -> Result<PathBuf> {
    let real = fs::canonicalize(dir).with_context(|| dir.display().to_string())?;
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let out = out.map_or_else(|| Path::new("results").join(format!("{name}-reproduced")), Path::to_owned);
    let shown = out.display();
    // Of a folder that is still to be made, the part that is there decides.
    let there = out
        .ancestors()
        .find_map(|part| fs::canonicalize(if part.as_os_str().is_empty() { Path::new(".") } else { part }).ok());
    if there.is_some_and(|there| there.starts_with(&real)) {
        return Err(Usage::error(format!(
            "{shown}: lies in the recorded folder, which is never written to; --out names another"
        )));
    }
    if out.join("plan.toml").exists() {
        let known = Plan::read(&out).map_err(Usage::error)?;
        if known.runs != plan.runs {
            return Err(Usage::error(format!(
                "{shown}: holds another plan than {}; --out names another folder",
                dir.display()
            )));
        }
    } else if fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Usage::error(format!(
            "{shown}: is not empty and no sweep's folder; --out names the new folder itself"
        )));
    }
    Ok(out)
}

/// The runs that were asked for and have a recorded result.
fn recorded(plan: &Plan, dir: &Path, selection: &Selection) -> Result<Vec<PlannedRun>> {
    let picked = pick(plan, selection)?;
    let (runs, rest): (Vec<PlannedRun>, Vec<PlannedRun>) = picked.into_iter().partition(|run| is_done(run, dir));
    if runs.is_empty() {
        return Err(Usage::error(format!(
            "{}: none of these runs has a recorded result to compare with",
            dir.display()
        )));
    }
    if !rest.is_empty() {
        let labels: Vec<String> = rest.iter().map(label).collect();
        note(format_args!("left out, since no result is recorded of them: {}", labels.join(", ")));
    }
    Ok(runs)
}

/// The devices of this machine that are of the recorded kind.
fn devices(runs: &[PlannedRun], arguments: &Arguments) -> Result<Devices> {
    let kind = runs[0].device_kind.as_str();
    let all = if kind == "cpu" { DeviceChoice::Cpu } else { DeviceChoice::Cuda };
    let none = |why: String| {
        Usage::error(format!(
            "{}: recorded on {kind}, and runs elsewhere would be others: {why}; call `reslab reproduce` on a machine with {kind} \
             (`reslab doctor` says what is here)",
            arguments.dir.display()
        ))
    };
    let devices = match &arguments.device {
        Some(choice) => choice.resolve()?,
        None => all.resolve().map_err(|_| none(format!("no {kind} device is here")))?,
    };
    match runs.iter().all(|run| run.device_kind == devices.kind) {
        true => Ok(devices),
        false => Err(none(format!("--device asks for {}", devices.kind))),
    }
}

/// Every run must be one that this program can compute.
fn check(runs: &[PlannedRun], devices: &Devices, registry: &Registry) -> Result<()> {
    let mut errors = Vec::new();
    for run in runs {
        let checked =
            config_of(run, registry).and_then(|config| config.check_device(devices.kind).map_err(anyhow::Error::from));
        errors.extend(checked.err().map(|error| format!("{}: {error:#}", label(run))));
    }
    if errors.is_empty() { Ok(()) } else { Err(Usage::all(errors)) }
}
