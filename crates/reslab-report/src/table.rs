//! The table of a sweep: its arms in plan order, the chosen points where the sweep selects, and notes.

use reslab_record::Axis;

use crate::ReportError;
use crate::arm::{ArmRow, paired_difference};
use crate::best::mark_best;
use crate::contrast::{Comparison, compare_entries};
use crate::entry::entries;
use crate::findings::findings;
use crate::heading::Heading;
use crate::metric::Metric;
use crate::notes;
use crate::over_points::{OverPoints, over_points};
use crate::paper::PublishedValues;
use crate::rate_rows::{RateRow, rate_rows};
use crate::select::{Selection, chosen_on, select};
use crate::sweep::{Run, Sweep};

/// What a table is to show, where that is not what the plan says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The metric of comparisons.
    pub metric: Option<String>,
    /// The arm that the others are compared with.
    pub baseline: Option<String>,
}

/// The table of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What the table is about.
    pub heading: Heading,
    /// The metric of comparisons.
    pub metric: Metric,
    /// The arm that the others are compared with.
    pub baseline: String,
    /// All arms at all points, in plan order.
    pub rows: Vec<ArmRow>,
    /// One point per arm, where the sweep selects.
    pub selection: Option<Selection>,
    /// Tests of the arms against each other.
    pub comparison: Comparison,
    /// The arms over their learning rates, where they have several.
    pub rates: Vec<RateRow>,
    /// The arms over several depths or data sets, where the grid has them.
    pub over_points: Option<OverPoints>,
    /// Published values beside the rows, where a file of them was given ([`Table::set_paper`]).
    pub published: Option<PublishedValues>,
    /// What the comparisons say, in sentences.
    pub findings: Vec<String>,
    /// How to read the columns.
    pub legend: Vec<String>,
    /// What must be known of these runs: unfinished, failed, diverged, damaged.
    pub notes: Vec<String>,
}

/// The runs of one row.
pub(crate) type Group<'a> = Vec<&'a Run>;

/// Makes the table of a sweep.
///
/// # Errors
/// The metric is in no record, or the baseline is no arm.
pub fn table(sweep: &Sweep, options: &Options) -> Result<Table, ReportError> {
    table_with(sweep, options, &[])
}

/// The same with further metrics.
///
/// # Errors
/// As [`table`].
pub fn table_with(sweep: &Sweep, options: &Options, further: &[Metric]) -> Result<Table, ReportError> {
    let plan = &sweep.plan;
    let metric = Metric::new(options.metric.as_ref().unwrap_or(&plan.metric).as_str());
    check_metric(sweep, &metric)?;
    let baseline = options.baseline.as_ref().unwrap_or(&plan.baseline).clone();
    let metrics = columns(sweep, &metric, further);

    // An axis that pairs an arm with the baseline: all arms have it, or it is chosen for each.
    let is_point = |axis: &Axis| axis.grid || plan.select.contains(&axis.key);
    let groups = group(&sweep.runs);
    let mut rows: Vec<ArmRow> = groups.iter().map(|runs| ArmRow::new(runs, &metrics, is_point)).collect();
    if !rows.iter().any(|row| row.base == baseline) {
        let mut known: Vec<&str> = rows.iter().map(|row| row.base.as_str()).collect();
        known.dedup();
        return Err(ReportError::UnknownBaseline { baseline, known: known.join(", ") });
    }
    for index in 0..rows.len() {
        let other = rows.iter().position(|row| row.base == baseline && same_point(&row.point, &rows[index].point));
        rows[index].is_baseline = rows[index].base == baseline;
        if let Some(other) = other.filter(|_| !rows[index].is_baseline) {
            rows[index].difference = paired_difference(&groups[index], &groups[other], &metric);
        }
    }
    let mut selection = select(plan, &rows, &groups, &metric, &baseline);
    let entries = entries(plan, &rows, &groups, selection.as_ref());
    mark_best(&mut rows, &groups, selection.as_mut(), &entries, &metrics);
    let comparison = compare_entries(&entries, plan, &metric, &baseline);
    let seeds = rows.iter().map(|row| row.planned).max().unwrap_or(0);
    let mut table = Table {
        heading: Heading::new(sweep),
        rates: rate_rows(&groups),
        over_points: over_points(&entries, &metric, &baseline),
        published: None,
        findings: findings(&comparison, plan, &metric, seeds),
        comparison,
        legend: Vec::new(),
        notes: notes::notes(sweep, &rows, &metrics),
        metric,
        baseline,
        rows,
        selection,
    };
    table.legend = notes::legend(&table);
    Ok(table)
}

/// The table's metric, the same on validation, and test and validation accuracy: of these what the runs have.
fn columns(sweep: &Sweep, metric: &Metric, further: &[Metric]) -> Vec<Metric> {
    let others =
        [metric.on_validation(), Metric::new("test/top1"), Metric::new("val/top1"), chosen_on(&sweep.plan, metric)];
    // A diverged run has no say, since it may have ended before it recorded anything.
    let steady: Vec<_> = sweep.runs.iter().filter_map(Run::finished).filter(|finished| !finished.diverged).collect();
    let has = |metric: &Metric| steady.is_empty() || steady.iter().any(|f| f.done.metrics.contains_key(metric.name()));
    let mut metrics = vec![metric.clone()];
    for other in others.iter().filter(|other| has(other)).chain(further) {
        if !metrics.contains(other) {
            metrics.push(other.clone());
        }
    }
    metrics
}

/// The runs of each arm at each point, in plan order.
pub(crate) fn group(runs: &[Run]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for run in runs {
        let same = |group: &&mut Group| group[0].planned.arm == run.planned.arm;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

pub(crate) fn same_point(a: &[Axis], b: &[Axis]) -> bool {
    let holds = |a: &[Axis], b: &[Axis]| a.iter().all(|x| b.iter().any(|y| x.key == y.key && x.value == y.value));
    holds(a, b) && holds(b, a)
}

fn check_metric(sweep: &Sweep, metric: &Metric) -> Result<(), ReportError> {
    let mut known: Vec<&str> = Vec::new();
    for finished in sweep.runs.iter().filter_map(Run::finished) {
        known.extend(finished.done.metrics.keys().map(String::as_str));
        // A sweep in which every run diverged has no metric, but a table.
        if finished.diverged && metric.at_chance(finished.done.num_classes).is_some() {
            known.push(metric.name());
        }
    }
    known.sort_unstable();
    known.dedup();
    if known.is_empty() || known.contains(&metric.name()) {
        return Ok(());
    }
    Err(ReportError::UnknownMetric { metric: metric.name().to_owned(), known: known.join(", ") })
}
