//! One row of the table: an arm at one point of its axes, over its seeds.

use reslab_record::Axis;

use crate::episodes::EpisodeCount;
use crate::metric::Metric;
use crate::stats::{Summary, mean, summarize};
use crate::sweep::{Finished, Run, Status};

/// An arm's figures over its seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmRow {
    /// Its name, with the axes that the row is about.
    pub arm: String,
    /// The axes that pair it with the baseline: grid axes and selected ones.
    pub point: Vec<Axis>,
    /// The arm's name without those axes.
    pub base: String,
    /// Whether it is the baseline (at its point).
    pub is_baseline: bool,
    /// Runs planned, done and failed; the rest is unfinished.
    pub planned: usize,
    /// Runs with a result.
    pub done: usize,
    /// Runs that ended without one.
    pub failed: usize,
    /// Of the done ones: loss or gradient norm was not finite.
    pub non_finite: usize,
    /// Of the done ones: diverged, non-finite included.
    pub diverged: usize,
    /// Of the done ones: not diverged, but not trained.
    pub not_trained: usize,
    /// The metrics of the table, in its order.
    pub metrics: Vec<(Metric, Option<Summary>)>,
    /// The table's metric, paired by seed with the baseline at the same point: arm - baseline.
    pub difference: Option<Summary>,
    /// The metrics on which it is better than every other arm at its point, each by a paired 95 % interval that leaves out 0.
    pub best: Vec<Metric>,
    /// Final training loss.
    pub final_loss: Option<Summary>,
    /// Largest gradient norm over all seeds.
    pub largest_grad_norm: Option<f64>,
    /// Mean spike score of the training loss.
    pub spike_score: Option<f64>,
    /// Mean spike score of the gradient norm.
    pub grad_spike_score: Option<f64>,
    /// Spike episodes of the training loss, over all seeds.
    pub episodes: EpisodeCount,
    /// Spike episodes of the gradient norm, over all seeds.
    pub grad_episodes: EpisodeCount,
    /// Mean update ratio of the last third of the blocks.
    pub update_ratio: Option<f64>,
    /// Trainable parameters.
    pub parameters: u64,
    /// Figures that depend on time.
    pub timing: ArmTiming,
}

/// An arm's figures that depend on time and place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArmTiming {
    /// Training images per second, mean over seeds.
    pub images_per_s: Option<f64>,
    /// Largest peak memory over seeds, bytes.
    pub peak_memory_bytes: Option<u64>,
    /// Wall time of a run, seconds, mean over seeds.
    pub seconds: Option<f64>,
    /// Devices and threads, each once.
    pub devices: Vec<String>,
}

impl ArmRow {
    /// The row of `runs`, which are the seeds of one arm at one point.
    pub(crate) fn new(runs: &[&Run], metrics: &[Metric], is_point: impl Fn(&Axis) -> bool) -> Self {
        let first = &runs[0].planned;
        let finished: Vec<&Finished> = runs.iter().filter_map(|run| run.finished()).collect();
        let count = |holds: fn(&Finished) -> bool| finished.iter().filter(|f| holds(f)).count();
        let average =
            |figure: fn(&Finished) -> Option<f64>| mean(&finished.iter().filter_map(|f| figure(f)).collect::<Vec<_>>());
        Self {
            arm: first.name_without(|_| false),
            base: first.name_without(&is_point),
            point: first.axes.iter().filter(|axis| is_point(axis)).cloned().collect(),
            is_baseline: false,
            planned: runs.len(),
            done: finished.len(),
            failed: runs.iter().filter(|run| matches!(run.status, Status::Failed(_))).count(),
            non_finite: count(|f| f.non_finite),
            diverged: count(|f| f.diverged),
            not_trained: count(|f| f.not_trained),
            metrics: metrics.iter().map(|m| (m.clone(), over_seeds(&finished, |f| f.score(m)))).collect(),
            difference: None,
            best: Vec::new(),
            final_loss: over_seeds(&finished, Finished::scored_loss),
            largest_grad_norm: finished.iter().filter_map(|f| f.largest_grad_norm).reduce(f64::max),
            spike_score: average(|f| f.spike_score),
            grad_spike_score: average(|f| f.grad_spike_score),
            episodes: EpisodeCount::of(finished.iter().flat_map(|f| &f.spike_episodes)),
            grad_episodes: EpisodeCount::of(finished.iter().flat_map(|f| &f.grad_spike_episodes)),
            update_ratio: average(|f| f.update_ratio),
            parameters: first.parameters,
            timing: ArmTiming::new(runs),
        }
    }

    /// The summary of one of the table's metrics.
    pub fn metric(&self, metric: &Metric) -> Option<&Summary> {
        self.metrics.iter().find(|(known, _)| known == metric)?.1.as_ref()
    }
}

impl ArmTiming {
    fn new(runs: &[&Run]) -> Self {
        let timings: Vec<_> =
            runs.iter().filter(|r| r.finished().is_some()).filter_map(|r| r.timing.as_ref()).collect();
        let mut devices: Vec<String> = Vec::new();
        for t in &timings {
            let device = format!("{}, {} thread{}", t.device, t.threads, if t.threads == 1 { "" } else { "s" });
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        Self {
            images_per_s: mean(&timings.iter().map(|t| t.images_per_s).collect::<Vec<_>>()),
            peak_memory_bytes: timings.iter().map(|t| t.peak_memory_bytes).max(),
            seconds: mean(&timings.iter().map(|t| t.seconds).collect::<Vec<_>>()),
            devices,
        }
    }
}

fn over_seeds(finished: &[&Finished], score: impl Fn(&Finished) -> Option<f64>) -> Option<Summary> {
    let scored: Vec<(f64, bool)> = finished.iter().filter_map(|f| Some((score(f)?, f.diverged))).collect();
    let values: Vec<f64> = scored.iter().map(|(value, _)| *value).collect();
    summarize(&values, scored.iter().filter(|(_, diverged)| *diverged).count())
}

/// Two runs of one seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pair {
    pub(crate) seed: u64,
    /// arm - baseline.
    pub(crate) difference: f64,
    /// Whether one of the two diverged.
    pub(crate) diverged: bool,
}

/// The pairs over the seeds that both have; two diverged runs differ by 0.
pub(crate) fn paired(arm: &[&Run], baseline: &[&Run], metric: &Metric) -> Vec<Pair> {
    let pair = |run: &&Run| {
        let other = baseline.iter().find(|other| other.planned.seed == run.planned.seed)?;
        let (a, b) = (run.finished()?, other.finished()?);
        let difference = a.score(metric)? - b.score(metric)?;
        Some(Pair { seed: run.planned.seed, difference, diverged: a.diverged || b.diverged })
    };
    arm.iter().filter_map(pair).collect()
}

/// The paired difference `arm - baseline` over the seeds that both have.
pub(crate) fn paired_difference(arm: &[&Run], baseline: &[&Run], metric: &Metric) -> Option<Summary> {
    let pairs = paired(arm, baseline, metric);
    let differences: Vec<f64> = pairs.iter().map(|pair| pair.difference).collect();
    summarize(&differences, pairs.iter().filter(|pair| pair.diverged).count())
}
