//! The best arm of a column: set in bold only where the runs carry it.

use crate::arm::{ArmRow, paired_difference};
use crate::entry::Entry;
use crate::metric::Metric;
use crate::select::Selection;
use crate::stats::Interval;
use crate::table::{Group, same_point};

/// Marks in every row the metrics on which it is the best at its point, and likewise in every choice.
pub(crate) fn mark_best(
    rows: &mut [ArmRow],
    groups: &[Group],
    selection: Option<&mut Selection>,
    entries: &[Entry],
    metrics: &[Metric],
) {
    for index in 0..rows.len() {
        let others =
            (0..rows.len()).filter(|other| *other != index && same_point(&rows[*other].point, &rows[index].point));
        let others: Vec<Option<&Group>> = others.map(|other| Some(&groups[other])).collect();
        rows[index].best = metrics.iter().filter(|metric| is_best(&groups[index], &others, metric)).cloned().collect();
    }
    let Some(selection) = selection else { return };
    for choice in &mut selection.rows {
        let Some(own) = entries.iter().find(|entry| entry.name == choice.arm) else { continue };
        let Some((_, group)) = own.at else { continue };
        let others = entries.iter().filter(|other| other.name != own.name && same_point(&other.factors, &own.factors));
        let others: Vec<Option<&Group>> = others.map(|other| other.at.map(|(_, group)| group)).collect();
        choice.best = metrics.iter().filter(|metric| is_best(group, &others, metric)).cloned().collect();
    }
}

/// Whether the paired 95 % interval to every other arm leaves out 0, on the better side. The range of two seeds is no such
/// interval, and with a diverged run, or a run that is missing altogether, there is none.
fn is_best(own: &Group, others: &[Option<&Group>], metric: &Metric) -> bool {
    let Some(better) = metric.better() else { return false };
    let beats = |other: &Option<&Group>| {
        let difference = other.and_then(|other| paired_difference(own, other, metric));
        difference.filter(|d| d.interval == Interval::T95).is_some_and(|d| {
            let ends = [d.low, d.high].map(|end| end.unwrap_or(0.0) * better);
            ends.iter().all(|end| *end > 0.0)
        })
    };
    !others.is_empty() && others.iter().all(beats)
}
