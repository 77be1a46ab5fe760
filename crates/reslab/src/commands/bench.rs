//! `reslab bench FILE`: training throughput, the arms interleaved: a shared machine swings by a third, ratios of
//! neighbouring rounds do not.

use super::sweep::ensure_data;
use crate::columns::columns;
use crate::devices::Devices;
use crate::execution::{config_of, deterministic};
use crate::matmul;
use crate::outcome::{Exit, Usage};
use crate::planning::{FileOptions, Fit, Selection};
use crate::probing::{probe_command, slots};
use crate::signals::{self, STOP, Second};
use crate::sources::DataOptions;
use crate::terminal::{bytes, magnitude, note, say};
use anyhow::Result;
use reslab_record::PlannedRun;
use reslab_residual::{Registry, Variant};
use reslab_torch::{keep_freed_memory, open_device, set_deterministic, set_threads, synchronize};
use reslab_train::{Learner, RunConfig, Watch};
use serde::Serialize;
use std::time::Instant;
use tch::{Device, Kind};

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    file: FileOptions,
    /// An arm to time, by its name in the file or its full name (repeatable; the others are compared with the first)
    /// [default: the baseline]
    #[arg(long, value_name = "NAME")]
    arm: Vec<String>,
    /// Time the first arm also with this key changed: --versus train.telemetry_every=0 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    versus: Vec<String>,
    /// Time every known strategy, by its example and without drop path, against plain in the baseline's network
    #[arg(long, conflicts_with_all = ["arm", "versus"])]
    strategies: bool,
    /// Rounds; in each, every arm does its steps once
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Steps of each arm in each round
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataOptions,
}

/// What is timed.
struct Contestant {
    name: String,
    run: PlannedRun,
    config: RunConfig,
}

/// What was measured of one arm.
#[derive(Debug, Serialize)]
struct Figures {
    arm: String,
    parameters: u64,
    /// Median over the rounds.
    images_per_s: f64,
    /// Slowest and fastest round.
    range: [f64; 2],
    /// Median over the rounds of this arm's speed over the first arm's in the same round.
    speed_over_first: f64,
    /// Slowest and fastest round of that.
    speed_over_first_range: [f64; 2],
    /// Operations of forward and backward pass per second, over the matrix-multiply peak of the same round.
    share_of_peak: f64,
    /// Peak memory of a process of its own; absent where that failed.
    peak_memory_bytes: Option<u64>,
    /// Images per second in evaluation, in that process.
    eval_images_per_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Report {
    device: String,
    threads: u32,
    rounds: u64,
    steps_per_round: u64,
    /// Median over the rounds, operations per second.
    matmul_peak: f64,
    arms: Vec<Figures>,
}

pub(crate) fn run(arguments: &Arguments, registry: &Registry) -> Result<Exit> {
    let contestants = match arguments.strategies {
        true => zoo(arguments, registry)?,
        false => contestants(arguments, registry)?,
    };
    let device_name = arguments.file.device.resolve()?.names[0].clone();
    let runs: Vec<PlannedRun> = contestants.iter().map(|contestant| contestant.run.clone()).collect();
    ensure_data(&runs, &arguments.data)?;
    note(format_args!(
        "timing {} x {} steps of {} on {device_name}, {} thread(s)",
        arguments.rounds,
        arguments.steps,
        contestants.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", "),
        arguments.file.threads
    ));
    signals::watch(Second::Ends);
    // Memory first: a process of its own, and nothing of this one in the way.
    let costs = reslab_sweep::probe(
        &runs,
        &slots(&Devices { kind: "", names: vec![device_name.clone()] }, 1),
        &|run, slot| probe_command(run, &slot.device, &arguments.data),
        &mut |_| {},
        &STOP,
    );
    let device = open_device(&device_name)?;
    set_threads(arguments.file.threads as i32);
    keep_freed_memory();
    let mut report = Report::new(&device_name, arguments);
    for group in groups(&contestants, arguments.strategies) {
        let rounds = time(&group, device, arguments)?;
        report.add(&group, &rounds, &costs)?;
        if let Some(signal) = STOP.signal() {
            return Ok(Exit::Signal(signal));
        }
    }
    if arguments.json {
        say(serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(Exit::Done)
}

/// The arms that are asked for, and the first one's variations.
fn contestants(arguments: &Arguments, registry: &Registry) -> Result<Vec<Contestant>> {
    let planned = arguments.file.plan(registry, Fit::Required)?;
    let arms = if arguments.arm.is_empty() { vec![planned.plan.baseline.clone()] } else { arguments.arm.clone() };
    let mut found = Vec::new();
    for arm in &arms {
        let mut runs = planned.pick(&Selection { arm: vec![arm.clone()], seeds: Vec::new() })?;
        let mut seen: Vec<String> = Vec::new();
        runs.retain(|run| {
            !seen.contains(&run.arm) && {
                seen.push(run.arm.clone());
                true
            }
        });
        found.extend(runs.into_iter().map(|run| (run.arm.clone(), run)));
    }
    let first = found[0].0.clone();
    for change in &arguments.versus {
        let mut file = arguments.file.clone();
        file.set.push(change.clone());
        let planned = file.plan(registry, Fit::Required)?;
        let run = planned.plan.runs.iter().find(|run| run.arm == first);
        let run =
            run.ok_or_else(|| Usage::error(format!("--versus {change}: the file has no arm \"{first}\" any more")))?;
        found.push((format!("{first}, {change}"), run.clone()));
    }
    found.into_iter().map(|(name, run)| Ok(Contestant { config: config_of(&run, registry)?, name, run })).collect()
}

/// The baseline's network with every strategy by its example, plain first.
fn zoo(arguments: &Arguments, registry: &Registry) -> Result<Vec<Contestant>> {
    let planned = arguments.file.plan(registry, Fit::Required)?;
    let base = planned.plan.runs.iter().find(|run| run.name_without(|_| true) == planned.plan.baseline);
    let base = base.or(planned.plan.runs.first()).ok_or_else(|| Usage::error("the file plans no run"))?;
    let mut found = Vec::new();
    let is_first = |variant: &&&Variant| variant.name == FIRST;
    let (first, others): (Vec<_>, Vec<_>) = registry.iter().partition(|variant| is_first(&variant));
    for variant in first.into_iter().chain(others) {
        let mut run = base.clone();
        run.id = format!("bench-{}", variant.name);
        run.arm = variant.name.to_owned();
        let example: toml::Table = variant.example.parse()?;
        run.config.insert("residual".to_owned(), toml::Value::Table(example));
        set(&mut run.config, "model", "norm", "strategy".into());
        set(&mut run.config, "drop_path", "rate", 0.0.into());
        match config_of(&run, registry) {
            Ok(config) => found.push(Contestant { name: run.arm.clone(), run, config }),
            Err(error) => note(format_args!("{} is left out: {error:#}", variant.name)),
        }
    }
    Ok(found)
}

/// What the other strategies are compared with.
const FIRST: &str = "plain";

/// Sets a key of a table of a config, where it has that table.
fn set(config: &mut toml::Table, table: &str, key: &str, value: toml::Value) {
    if let Some(toml::Value::Table(table)) = config.get_mut(table) {
        table.insert(key.to_owned(), value);
    }
}

/// Those that are timed side by side: all, or (so that not all networks are in memory at once) each with the first.
fn groups(contestants: &[Contestant], in_pairs: bool) -> Vec<Vec<&Contestant>> {
    let pair = |other| vec![&contestants[0], other];
    if in_pairs { contestants[1..].iter().map(pair).collect() } else { vec![contestants.iter().collect()] }
}

/// One round: the peak, then images per second of each contestant.
struct Round {
    peak: f64,
    images_per_s: Vec<f64>,
}

fn time(contestants: &[&Contestant], device: Device, arguments: &Arguments) -> Result<Vec<Round>> {
    let mut learners = Vec::new();
    for contestant in contestants {
        let table = contestant.run.config.get("data").and_then(toml::Value::as_table).expect("a plan's run has data");
        let splits = reslab_data::load(&reslab_data::DataConfig::parse(table)?, &arguments.data.sources(), device)?;
        learners.push(Learner::new(&contestant.config, splits, contestant.run.seed, device)?);
    }
    let mut at = vec![0; contestants.len()];
    // The first round allocates, and is thrown away.
    let mut rounds = Vec::new();
    for round in 0..=arguments.rounds {
        let peak = matmul::peak(device, kind(contestants, device))?;
        let mut images_per_s = vec![0.0; contestants.len()];
        for index in 0..contestants.len() {
            // Each round begins with another arm, so that none always follows the same one.
            let index = (index + round as usize) % contestants.len();
            let contestant = &contestants[index];
            // The switch is the process's, and the last contestant that was built has set it.
            set_deterministic(deterministic(&contestant.run));
            let begun = Instant::now();
            for _ in 0..arguments.steps {
                learners[index].step(at[index] % contestant.config.steps(), watch(&contestant.run, at[index]))?;
                at[index] += 1;
            }
            synchronize(device);
            let images = arguments.steps as f64 * contestant.config.batch() as f64;
            images_per_s[index] = images / begun.elapsed().as_secs_f64();
        }
        if round > 0 {
            rounds.push(Round { peak, images_per_s });
        }
    }
    Ok(rounds)
}

/// Whether the run would look into its joins at this step.
fn watch(run: &PlannedRun, step: u64) -> Watch {
    let every = run.config.get("train").and_then(|train| train.get("telemetry_every")?.as_integer()).unwrap_or(0);
    match u64::try_from(every) {
        Ok(every) if every > 0 && step.is_multiple_of(every) => Watch::Layers,
        _ => Watch::Step,
    }
}

/// The arithmetic that the peak is measured in: the first arm's.
fn kind(contestants: &[&Contestant], device: Device) -> Kind {
    let precision = contestants[0].run.config.get("train").and_then(|train| train.get("precision")?.as_str());
    if device != Device::Cpu && precision == Some("bf16") { Kind::BFloat16 } else { Kind::Float }
}

impl Report {
    fn new(device: &str, arguments: &Arguments) -> Self {
        Self {
            device: device.to_owned(),
            threads: arguments.file.threads,
            rounds: arguments.rounds,
            steps_per_round: arguments.steps,
            matmul_peak: f64::NAN,
            arms: Vec::new(),
        }
    }

    /// Takes in what was measured of a group, whose first arm may be known from an earlier one.
    fn add(&mut self, contestants: &[&Contestant], rounds: &[Round], costs: &[reslab_sweep::Probe]) -> Result<()> {
        if self.arms.is_empty() {
            self.matmul_peak = median(&rounds.iter().map(|round| round.peak).collect::<Vec<_>>());
        }
        for (index, contestant) in contestants.iter().enumerate() {
            if self.arms.iter().any(|arm| arm.arm == contestant.name) {
                continue;
            }
            let facts = contestant.config.facts()?;
            let of = |figure: &dyn Fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
            let ends = |values: &[f64]| {
                [values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(0.0, f64::max)]
            };
            let speeds = of(&|round| round.images_per_s[index]);
            let ratios = of(&|round| round.images_per_s[index] / round.images_per_s[0]);
            // A backward pass costs two forward passes.
            let shares = of(&|round| 3.0 * facts.flops_per_image * round.images_per_s[index] / round.peak);
            let own = |probe: &&reslab_sweep::Probe| probe.arm == contestant.run.arm && contestant.name == probe.arm;
            let cost = costs.iter().find(own).and_then(|probe| probe.result.as_ref().ok());
            self.arms.push(Figures {
                arm: contestant.name.clone(),
                parameters: facts.parameters,
                images_per_s: median(&speeds),
                range: ends(&speeds),
                speed_over_first: median(&ratios),
                speed_over_first_range: ends(&ratios),
                share_of_peak: median(&shares),
                peak_memory_bytes: cost.map(|cost| cost.peak_memory_bytes),
                eval_images_per_s: cost.map(|cost| cost.eval_images_per_s),
            });
        }
        Ok(())
    }
}

fn print(report: &Report) {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let row = |arm: &Figures| {
        vec![
            arm.arm.clone(),
            format!("{:.1}", arm.images_per_s),
            format!("{:.1}-{:.1}", arm.range[0], arm.range[1]),
            format!("{:.3} x", arm.speed_over_first),
            format!("{:.2}-{:.2}", arm.speed_over_first_range[0], arm.speed_over_first_range[1]),
            format!("{:.1} %", 100.0 * arm.share_of_peak),
            or_dash(arm.peak_memory_bytes.map(bytes)),
            or_dash(arm.eval_images_per_s.map(|speed| format!("{speed:.0}"))),
        ]
    };
    let heads = ["arm", ">images/s", ">range", ">speed", ">range", ">of peak", ">memory", ">eval images/s"];
    columns(&heads, &report.arms.iter().map(row).collect::<Vec<_>>()).iter().for_each(say);
    say(format_args!(
        "training, median of {} rounds of {} steps; speed over the first arm in the same round; matrix-multiply peak {}FLOP/s \
         on {} with {} thread(s)",
        report.rounds,
        report.steps_per_round,
        magnitude(report.matmul_peak),
        report.device,
        report.threads
    ));
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
