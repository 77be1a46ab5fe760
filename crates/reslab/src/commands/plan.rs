//! `reslab plan FILE`: the expanded plan; starts no run and writes nothing.

use crate::columns::{columns, thousands};
use crate::devices::{Devices, default_jobs, parse_jobs};
use crate::execution::config_of;
use crate::forecast::{forecast, rough};
use crate::outcome::Exit;
use crate::planning::{FileOptions, Fit, Planned, Selection};
use crate::probing::slots;
use crate::signals::{self, STOP, Second};
use crate::sources::DataOptions;
use crate::terminal::{Paint, magnitude, note, say};
use anyhow::Result;
use reslab_record::PlannedRun;
use reslab_residual::Registry;

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    file: FileOptions,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    data: DataOptions,
    /// Runs at once per device [default: CPU: cores / threads; CUDA: 1]
    #[arg(long, value_name = "N", value_parser = parse_jobs)]
    jobs: Option<usize>,
    /// Estimate the time from three real steps of each distinct network, not from its operations
    #[arg(long)]
    probe: bool,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    let planned = arguments.file.plan(registry, Fit::Wanted)?;
    let runs = planned.pick(&arguments.selection)?;
    if let Some(line) = planned.file.announcement() {
        note(line);
    }
    show(&planned, &runs, registry)?;
    if !planned.unfit.is_empty() {
        for error in &planned.unfit {
            say(format_args!("time here: none, these runs can't be computed on {}: {error}", planned.devices.kind));
        }
        return Ok(Exit::Done);
    }
    let jobs = arguments.jobs.unwrap_or_else(|| default_jobs(&planned.devices, arguments.file.threads as usize));
    time_here(&runs, &planned.devices, jobs, arguments, registry)
}

fn time_here(
    runs: &[PlannedRun],
    devices: &Devices,
    jobs: usize,
    arguments: &Arguments,
    registry: &Registry,
) -> Result<Exit> {
    let slots = slots(devices, jobs);
    if arguments.probe {
        signals::watch(Second::IsHeard);
        let estimate = forecast(runs, &slots, &arguments.data, registry)?;
        if let Some(signal) = STOP.signal() {
            return Ok(Exit::Signal(signal));
        }
        say(format_args!("time here: {estimate}"));
    } else {
        let text = rough(runs, &slots, registry)?;
        say(format_args!("time here: {text}; `plan --probe` and `sweep` time real steps"));
    }
    Ok(Exit::Done)
}

/// The arms of a plan: runs, parameters, operations, steps.
pub(crate) fn show(planned: &Planned, runs: &[PlannedRun], registry: &Registry) -> Result<()> {
    let plan = &planned.plan;
    let paint = Paint::stdout();
    say(format_args!("{}: {}", paint.bold(&plan.name), plan.question));
    let mut arms: Vec<&str> = Vec::new();
    runs.iter().for_each(|run| {
        if !arms.contains(&run.arm.as_str()) {
            arms.push(&run.arm);
        }
    });
    let mut rows = Vec::new();
    for arm in &arms {
        let of_arm: Vec<&PlannedRun> = runs.iter().filter(|run| run.arm == *arm).collect();
        let facts = config_of(of_arm[0], registry)?.facts()?;
        let seeds: Vec<String> = of_arm.iter().map(|run| run.seed.to_string()).collect();
        rows.push(vec![
            (*arm).to_owned(),
            seeds.join(" "),
            thousands(facts.parameters),
            format!("{}FLOP", magnitude(facts.flops_per_image)),
            facts.steps.to_string(),
        ]);
    }
    let lines = columns(&["arm", "seeds", ">parameters", ">per image", ">steps"], &rows);
    say(paint.bold(&lines[0]));
    lines[1..].iter().for_each(say);
    let threads = plan.runs.first().map_or(1, |run| run.threads);
    say(format_args!(
        "{} runs of {} arms, for {} with {threads} thread{} per run; baseline {}, metric {}",
        runs.len(),
        arms.len(),
        planned.devices.names.join(", "),
        if threads == 1 { "" } else { "s" },
        plan.baseline,
        plan.metric,
    ));
    Ok(())
}
