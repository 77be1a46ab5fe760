//! A sweep's folder, read: the plan, and of each run what the tables need.

use reslab_record::{
    Done, Env, EvalRow, Failed, LayerRow, Limits, Outcome, Plan, PlannedRun, ProbeRow, Rows, RunDir, StepRow, Timing,
    read_rows_within,
};
use std::io::ErrorKind;
use std::path::Path;

use crate::episodes::{self, Episode};
use crate::expected::{self, Schedule};
use crate::metric::Metric;
use crate::stability::{self, SpikeRule};
use crate::{ReportError, map_parallel, mean};

/// A sweep's records.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The frozen plan.
    pub plan: Plan,
    /// Its runs, in its order.
    pub runs: Vec<Run>,
}

/// One run's records.
#[derive(Debug, Clone)]
pub struct Run {
    /// What was planned.
    pub planned: PlannedRun,
    /// How far it came.
    pub status: Status,
    /// Where it ran.
    pub env: Option<Env>,
    /// Where it ran before, if it was continued by other code or elsewhere.
    pub earlier_envs: Vec<Env>,
    /// What time it took.
    pub timing: Option<Timing>,
    /// What is missing or damaged in its folder.
    pub problems: Vec<String>,
}

/// How far a run came.
#[derive(Debug, Clone)]
pub enum Status {
    /// It has a result.
    Done(Box<Finished>),
    /// It ended without one.
    Failed(Failed),
    /// It has not ended, or not begun.
    Unfinished,
}

/// The result of a run and its classification.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its done.json.
    pub done: Done,
    /// Loss or gradient norm was not finite.
    pub non_finite: bool,
    /// It is diverged: non-finite, or its loss stayed above its start.
    pub diverged: bool,
    /// It is not diverged, but its final loss is near that of a network that has learned nothing.
    pub not_trained: bool,
    /// Training loss at step 0; `None` where that is missing.
    pub first_loss: Option<f64>,
    /// Training loss over the last 20 steps, as recorded; `None` where those are missing.
    pub final_loss: Option<f64>,
    /// Largest gradient norm before clipping; infinite where one was not finite.
    pub largest_grad_norm: Option<f64>,
    /// Spike score of the training loss.
    pub spike_score: Option<f64>,
    /// Spike score of the gradient norm.
    pub grad_spike_score: Option<f64>,
    /// Spike episodes of the training loss.
    pub spike_episodes: Vec<Episode>,
    /// Spike episodes of the gradient norm.
    pub grad_spike_episodes: Vec<Episode>,
    /// Mean update ratio over the joins of the last third of the blocks, at the last telemetry step.
    pub update_ratio: Option<f64>,
}

/// Reads the records under a sweep's folder; spikes by OLMo-core's rule.
///
/// # Errors
/// There is no plan that can be read. What is wrong with a run's records is told in [`Run::problems`].
pub fn read_sweep(dir: &Path) -> Result<Sweep, ReportError> {
    read_sweep_with(dir, SpikeRule::OLMO_CORE)
}

/// Reads the records under a sweep's folder, with a rule of its own for spikes.
///
/// # Errors
/// As [`read_sweep`].
pub fn read_sweep_with(dir: &Path, rule: SpikeRule) -> Result<Sweep, ReportError> {
    Ok(read_runs(Plan::read(dir)?, dir, rule))
}

/// The records of the runs of `plan` under a sweep's folder, whatever plan stands there by now; spikes by OLMo-core's rule.
pub fn read_sweep_of(plan: Plan, dir: &Path) -> Sweep {
    read_runs(plan, dir, SpikeRule::OLMO_CORE)
}

fn read_runs(plan: Plan, dir: &Path, rule: SpikeRule) -> Sweep {
    let runs = map_parallel(&plan.runs, |planned| read_run(&planned.dir(dir), planned, rule));
    Sweep { plan, runs }
}

fn read_run(dir: &Path, planned: &PlannedRun, rule: SpikeRule) -> Run {
    let (status, env, earlier_envs, timing, problems) = (Status::Unfinished, None, Vec::new(), None, Vec::new());
    let mut run = Run { planned: planned.clone(), status, env, earlier_envs, timing, problems };
    let mut problems = Vec::new();
    let Some(records) = note(open(dir), &mut problems).flatten() else { return Run { problems, ..run } };
    run.env = note(records.read_env().map_err(short), &mut problems).flatten();
    run.earlier_envs = note(records.read_earlier_envs().map_err(short), &mut problems).unwrap_or_default();
    run.timing = note(records.read_timing().map_err(short), &mut problems).flatten();
    let done = note(records.read_done().map_err(short), &mut problems).flatten();
    let done = done.and_then(|done| note(accept(done, planned), &mut problems));
    let failed = note(records.read_failed().map_err(short), &mut problems).flatten();
    run.status = match (done, failed) {
        (Some(done), _) => {
            for (missing, name) in [(run.env.is_none(), "env.json"), (run.timing.is_none(), "timing.json")] {
                if missing && !problems.iter().any(|p| p.starts_with(name)) {
                    problems.push(format!("{name}: missing"));
                }
            }
            Status::Done(Box::new(finish(dir, done, planned, rule, &mut problems)))
        }
        (None, Some(failed)) => Status::Failed(failed),
        (None, None) => Status::Unfinished,
    };
    run.problems = problems;
    run
}

/// The result, if it can be that of the planned run.
fn accept(done: Done, planned: &PlannedRun) -> Result<Done, String> {
    if done.id != planned.id {
        return Err("done.json: it is of another run".to_owned());
    }
    match expected::refuse(&done, &Limits::of(&planned.config)) {
        Some(why) => Err(format!("done.json: damaged: {why}")),
        None => Ok(done),
    }
}

/// A run's folder; `None` where it was never begun.
fn open(dir: &Path) -> Result<Option<RunDir>, String> {
    match RunDir::open(dir) {
        Ok(records) => Ok(Some(records)),
        Err(reslab_record::RecordError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(short(error)),
    }
}

fn note<T>(read: Result<T, String>, problems: &mut Vec<String>) -> Option<T> {
    read.map_err(|problem| problems.push(problem)).ok()
}

/// An error's words without the folder, which is not the same everywhere.
fn short(error: reslab_record::RecordError) -> String {
    use reslab_record::RecordError::{Io, Parse};
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match error {
        Parse { path, problem } => format!("{}: damaged: {problem}", name(&path)),
        Io { path, action, .. } => format!("{}: cannot {action}", name(&path)),
        other => other.to_string(),
    }
}

fn finish(dir: &Path, mut done: Done, planned: &PlannedRun, rule: SpikeRule, problems: &mut Vec<String>) -> Finished {
    let limits = Limits::of(&planned.config);
    let steps = read_rows_within::<StepRow>(dir, &limits);
    let layers = read_rows_within::<LayerRow>(dir, &limits);
    problems.extend(steps.problem);
    let steps = steps.rows;
    check(dir, &mut done, planned, &layers, problems);

    let stayed_high = stability::diverges(&steps);
    if stayed_high.is_none() && done.outcome == Outcome::Finished {
        problems.push("steps.csv: without step 0 divergence cannot be told".to_owned());
    }
    // A loss that overflows only in evaluation is not finite either.
    let losses = done.metrics.iter().filter(|(name, _)| Metric::new(name.as_str()).is_loss());
    let non_finite = done.outcome != Outcome::Finished || losses.into_iter().any(|(_, loss)| !loss.is_finite());
    let diverged = non_finite || stayed_high == Some(true);
    let final_loss = final_loss(&steps, &done, problems);
    let not_trained = !diverged && final_loss.is_some_and(|loss| stability::is_not_trained(loss, done.num_classes));
    let losses: Vec<f64> = steps.iter().map(|row| row.loss).collect();
    let norms: Vec<f64> = steps.iter().map(|row| row.grad_norm).collect();
    let (spikes, grad_spikes) = (stability::spikes(&losses, rule), stability::spikes(&norms, rule));
    Finished {
        non_finite,
        diverged,
        not_trained,
        first_loss: steps.first().filter(|row| row.step == 0).map(|row| row.loss),
        final_loss,
        largest_grad_norm: stability::largest_grad_norm(&steps),
        spike_score: spikes.score(),
        grad_spike_score: grad_spikes.score(),
        spike_episodes: episodes::gather(&losses, &spikes, rule),
        grad_spike_episodes: episodes::gather(&norms, &grad_spikes, rule),
        update_ratio: last_third_ratio(&layers.rows),
        done,
    }
}

/// Names what the other records of a result lack, and takes out of it what is no figure.
fn check(dir: &Path, done: &mut Done, planned: &PlannedRun, layers: &Rows<LayerRow>, problems: &mut Vec<String>) {
    let limits = Limits::of(&planned.config);
    let schedule = Schedule::new(&planned.config, done, &limits);
    let evals = read_rows_within::<EvalRow>(dir, &limits);
    problems.extend(expected::complaint(layers, schedule.layers()));
    problems.extend(expected::complaint(&evals, schedule.evals()));
    if schedule.probes() != Some(0) {
        problems.extend(expected::complaint(&read_rows_within::<ProbeRow>(dir, &limits), schedule.probes()));
    }
    expected::clean(done, problems);
    problems.extend(expected::unfounded(done, &evals));
}

/// The training loss over the last 20 steps, if those are there: rows that end early say nothing of the end.
fn final_loss(steps: &[StepRow], done: &Done, problems: &mut Vec<String>) -> Option<f64> {
    let last = steps.last()?.step;
    if last + 1 == done.steps {
        return Some(stability::smoothed_loss(steps));
    }
    problems.push(format!("steps.csv: ends at step {last}, but the run had {} steps", done.steps));
    None
}

/// The mean ratio over the joins of the last third of the blocks (at least one), at the last step of `rows`.
fn last_third_ratio(rows: &[LayerRow]) -> Option<f64> {
    let last = rows.last()?.step;
    let depth = rows.iter().map(|row| row.block + 1).max()?;
    let first = (2 * depth).div_ceil(3).min(depth - 1);
    let of_interest = rows.iter().filter(|row| row.step == last && row.block >= first);
    mean(&of_interest.filter_map(|row| row.ratio).filter(|ratio| ratio.is_finite()).collect::<Vec<_>>())
}

impl Run {
    /// How a run is called in notes: `plain s0`.
    pub fn label(&self) -> String {
        format!("{} s{}", self.planned.arm, self.planned.seed)
    }

    /// Its result, if it has one.
    pub fn finished(&self) -> Option<&Finished> {
        match &self.status {
            Status::Done(finished) => Some(finished),
            _ => None,
        }
    }
}

impl Finished {
    /// Its score: the recorded metric, or that of chance where it is diverged.
    pub fn score(&self, metric: &Metric) -> Option<f64> {
        if self.diverged {
            return metric.at_chance(self.done.num_classes);
        }
        self.done.metrics.get(metric.name()).copied()
    }

    /// Its final training loss, or that of chance where it is diverged.
    pub fn scored_loss(&self) -> Option<f64> {
        if self.diverged { Some((self.done.num_classes as f64).ln()) } else { self.final_loss }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reslab_record::{Branch, LayerWriter, read_rows};

    /// Ratio = block, but for attention at the last step, which adds a half; so of the last third of 6 blocks (4 and 5)
    /// it is (4 + 4.5 + 5 + 5.5) / 4 = 4.75.
    #[test]
    fn the_ratio_is_of_the_last_third_of_the_blocks_at_the_last_step() {
        let rows = |depth: u64| -> Vec<LayerRow> {
            let dir = tempfile::tempdir().unwrap();
            LayerWriter::open(dir.path()).unwrap();
            let path = dir.path().join("layers.csv");
            let mut csv = String::from("step,block,branch,ratio\n");
            for (step, block) in [0, 10].into_iter().flat_map(|step| (0..depth).map(move |block| (step, block))) {
                let attention = block as f64 + if step == 10 { 0.5 } else { 90.0 };
                csv += &format!("{step},{block},attention,{attention}\n{step},{block},mlp,{block}\n");
            }
            std::fs::write(path, csv).unwrap();
            read_rows(dir.path()).rows
        };
        assert_eq!(last_third_ratio(&rows(6)), Some(4.75));
        assert_eq!(last_third_ratio(&rows(4)), Some(3.25), "the last third of 4 blocks is block 3");
        assert_eq!(last_third_ratio(&rows(2)), Some(1.25));
        assert_eq!(last_third_ratio(&rows(1)), Some(0.25), "and never no block");
        assert_eq!(last_third_ratio(&[]), None);
        let mut undefined = rows(1);
        for row in &mut undefined {
            row.ratio = (row.branch == Branch::Mlp).then_some(f64::NAN);
        }
        assert_eq!(last_third_ratio(&undefined), None);
    }
}
