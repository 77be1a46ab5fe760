//! The learning rates of a sweep's runs, arm by arm.

use crate::rates::{AS_GOOD, RatePoint, RateRun, largest_stable_rate, rate_sensitivity};
use crate::stats::{Summary, summarize};
use crate::sweep::Run;
use crate::table::Group;

/// The key of the learning rate.
const KEY: &str = "optim.lr";

/// An arm over its learning rates.
#[derive(Debug, Clone, PartialEq)]
pub struct RateRow {
    /// The arm's name without the rate.
    pub arm: String,
    /// Indices in [`crate::Table::rows`] of its points.
    pub rows: Vec<usize>,
    /// Its rates, as in the sweep file and in its order.
    pub rates: Vec<String>,
    /// The largest stable one ([`largest_stable_rate`] within [`AS_GOOD`]).
    pub largest_stable: Option<String>,
    /// [`rate_sensitivity`], over seeds.
    pub sensitivity: Option<Summary>,
}

/// One row per arm that has at least two learning rates.
pub(crate) fn rate_rows(groups: &[Group]) -> Vec<RateRow> {
    let mut arms: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, group) in groups.iter().enumerate().filter(|(_, group)| rate(group).is_some()) {
        let name = group[0].planned.name_without(|axis| axis.key == KEY);
        match arms.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(index),
            None => arms.push((name, vec![index])),
        }
    }
    arms.into_iter()
        .filter(|(_, members)| members.len() > 1)
        .map(|(name, members)| row(name, members, groups))
        .collect()
}

fn row(arm: String, rows: Vec<usize>, groups: &[Group]) -> RateRow {
    let members: Vec<&Group> = rows.iter().map(|row| &groups[*row]).collect();
    let mut seeds: Vec<u64> = Vec::new();
    for run in members.iter().flat_map(|group| group.iter()) {
        if !seeds.contains(&run.planned.seed) {
            seeds.push(run.planned.seed);
        }
    }
    let at = |group: &&Group| {
        let run = |seed: &u64| group.iter().find(|run| run.planned.seed == *seed).and_then(|run| rate_run(run));
        Some(RatePoint { rate: rate(group)?.1, runs: seeds.iter().map(run).collect() })
    };
    let points: Vec<RatePoint> = members.iter().filter_map(at).collect();
    let written = |number: f64| members.iter().filter_map(|group| rate(group)).find(|(_, rate)| *rate == number);
    let values = rate_sensitivity(&points);
    RateRow {
        arm,
        rows,
        rates: members.iter().filter_map(|group| rate(group)).map(|(written, _)| written).collect(),
        largest_stable: largest_stable_rate(&points, AS_GOOD).and_then(written).map(|(written, _)| written),
        sensitivity: values.and_then(|values| summarize(&values, 0)),
    }
}

/// The learning rate of a row, as written and as a number.
fn rate(group: &Group) -> Option<(String, f64)> {
    let axis = group[0].planned.axes.iter().find(|axis| axis.key == KEY)?;
    Some((axis.value.clone(), axis.value.replace('_', "").parse().ok()?))
}

fn rate_run(run: &Run) -> Option<RateRun> {
    let finished = run.finished()?;
    let first = finished.first_loss.filter(|loss| loss.is_finite())?;
    let last = if finished.diverged { first } else { finished.final_loss? };
    Some(RateRun { first, last, diverged: finished.diverged })
}
