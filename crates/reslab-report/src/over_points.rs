//! An arm over several depths or data sets: interquartile mean, and probability of improvement on the baseline.

use crate::aggregate::{Estimate, improvement_over, interquartile_mean_over};
use crate::contrast::{SEED, partner};
use crate::entry::Entry;
use crate::metric::Metric;
use crate::table::Group;

/// The arms over the points of the grid.
#[derive(Debug, Clone, PartialEq)]
pub struct OverPoints {
    /// The keys of the axes: `model.depth`.
    pub keys: Vec<String>,
    /// One row per arm, in plan order.
    pub rows: Vec<OverRow>,
}

/// One arm over the points of the grid.
#[derive(Debug, Clone, PartialEq)]
pub struct OverRow {
    /// Its name without grid axes.
    pub arm: String,
    /// Whether it is the baseline.
    pub is_baseline: bool,
    /// Its points.
    pub points: usize,
    /// Interquartile mean of the runs at all of them; `None` until all are done.
    pub interquartile_mean: Option<Estimate>,
    /// Probability that one of its runs is above one of the baseline at the same point, mean over points.
    pub improvement: Option<Estimate>,
}

/// Where the grid has points of model or data (and of nothing else that is not chosen); `None` elsewhere.
pub(crate) fn over_points(entries: &[Entry], metric: &Metric, baseline: &str) -> Option<OverPoints> {
    let mut keys: Vec<String> = Vec::new();
    let mut arms: Vec<&str> = Vec::new();
    for entry in entries {
        keys.extend(
            entry.factors.iter().map(|axis| axis.key.clone()).filter(|key| !keys.contains(key)).collect::<Vec<_>>(),
        );
        if !arms.contains(&entry.base.as_str()) {
            arms.push(&entry.base);
        }
    }
    let is_over = !keys.is_empty() && keys.iter().all(|key| key.starts_with("model.") || key.starts_with("data."));
    if !is_over || entries.len() <= arms.len() {
        return None;
    }
    let rows = arms.into_iter().map(|arm| row(arm, entries, metric, baseline)).collect();
    Some(OverPoints { keys, rows })
}

fn row(arm: &str, entries: &[Entry], metric: &Metric, baseline: &str) -> OverRow {
    let points: Vec<&Entry> = entries.iter().filter(|entry| entry.base == arm).collect();
    let own: Option<Vec<Vec<f64>>> = points.iter().map(|entry| scores(entry.at?.1, metric)).collect();
    let others: Option<Vec<Vec<f64>>> =
        points.iter().map(|entry| scores(partner(entry, entries, baseline)?.at?.1, metric)).collect();
    let improvement = own
        .clone()
        .zip(others)
        .and_then(|(own, others)| improvement_over(&own.into_iter().zip(others).collect::<Vec<_>>(), SEED));
    OverRow {
        arm: arm.to_owned(),
        is_baseline: arm == baseline,
        points: points.len(),
        interquartile_mean: own.and_then(|own| interquartile_mean_over(&own, SEED)),
        improvement: improvement.filter(|_| arm != baseline),
    }
}

/// The scores of a row's runs; `None` where one has none.
fn scores(group: &Group, metric: &Metric) -> Option<Vec<f64>> {
    group.iter().map(|run| run.finished()?.score(metric)).collect()
}
