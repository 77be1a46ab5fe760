//! Axes that are chosen per arm: on the validation split, over all seeds, from the same grid for every arm.

use reslab_record::{Axis, Plan};

use crate::arm::{ArmRow, paired_difference};
use crate::metric::Metric;
use crate::table::{Group, same_point};

/// The points that were chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// The keys of the axes that are chosen.
    pub keys: Vec<String>,
    /// The metric that they are chosen on.
    pub metric: Metric,
    /// The grid that is chosen from: one line where it is the same for all arms, else a line per arm.
    pub grid: Vec<String>,
    /// One row per arm, in plan order.
    pub rows: Vec<Chosen>,
}

/// The choice for one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The arm's name without the chosen axes.
    pub arm: String,
    /// The axes at the chosen point.
    pub values: Vec<Axis>,
    /// Those of them that are the smallest or the largest number of the arm's grid: a better one may lie beyond.
    pub at_end: Vec<Axis>,
    /// Index in [`crate::Table::rows`] of the chosen point; `None` while no point has all its seeds.
    pub row: Option<usize>,
    /// Points that could be chosen: all their seeds are done.
    pub complete: usize,
    /// Points of the grid.
    pub points: usize,
    /// Whether it is the baseline.
    pub is_baseline: bool,
    /// As [`ArmRow::best`], among the chosen points.
    pub best: Vec<Metric>,
    /// Paired with the baseline at the baseline's own chosen point.
    pub difference: Option<crate::Summary>,
}

/// Chooses for every arm; `None` where the plan selects nothing.
pub(crate) fn select(
    plan: &Plan,
    rows: &[ArmRow],
    groups: &[Group],
    metric: &Metric,
    baseline: &str,
) -> Option<Selection> {
    if plan.select.is_empty() {
        return None;
    }
    let validation = chosen_on(plan, metric);
    let is_chosen = |axis: &Axis| plan.select.contains(&axis.key);
    let arms = arms(rows, groups, is_chosen);
    let mut chosen: Vec<Chosen> = arms.iter().map(|(name, at)| choose(name, at, rows, &validation)).collect();
    for (choice, (_, members)) in chosen.iter_mut().zip(&arms) {
        let Some(row) = choice.row else { continue };
        choice.values = rows[row].point.iter().filter(|axis| is_chosen(axis)).cloned().collect();
        choice.at_end = choice.values.iter().filter(|axis| is_at_end(axis, members, rows)).cloned().collect();
    }
    // The rest of the point (grid axes that are factors) still pairs an arm with the baseline.
    let factors =
        |row: usize| -> Vec<Axis> { rows[row].point.iter().filter(|axis| !is_chosen(axis)).cloned().collect() };
    for index in 0..chosen.len() {
        let at = arms[index].1[0];
        chosen[index].is_baseline = rows[at].base == baseline;
        let pair = (0..chosen.len()).find(|other| {
            let other = arms[*other].1[0];
            rows[other].base == baseline && same_point(&factors(other), &factors(at))
        });
        let (Some(own), Some(other)) = (chosen[index].row, pair.and_then(|pair| chosen[pair].row)) else { continue };
        if !chosen[index].is_baseline {
            chosen[index].difference = paired_difference(&groups[own], &groups[other], metric);
        }
    }
    let grid = grids(&arms, rows, &is_chosen);
    Some(Selection { keys: plan.select.clone(), metric: validation, grid, rows: chosen })
}

/// What a choice is made on: the metric on validation, or the plan's where the metric is none that is aimed at.
pub(crate) fn chosen_on(plan: &Plan, metric: &Metric) -> Metric {
    let aimed_at = metric.better().map_or(Metric::new(plan.metric.as_str()), |_| metric.clone());
    aimed_at.on_validation()
}

/// The rows of each arm, by its name without the chosen axes.
fn arms(rows: &[ArmRow], groups: &[Group], is_chosen: impl Fn(&Axis) -> bool) -> Vec<(String, Vec<usize>)> {
    let mut arms: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, group) in groups.iter().enumerate().take(rows.len()) {
        let name = group[0].planned.name_without(&is_chosen);
        match arms.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(index),
            None => arms.push((name, vec![index])),
        }
    }
    arms
}

/// The best point among those with all seeds done; the first of equals.
fn choose(name: &str, members: &[usize], rows: &[ArmRow], validation: &Metric) -> Chosen {
    let complete: Vec<usize> = members.iter().copied().filter(|at| rows[*at].done == rows[*at].planned).collect();
    let mut best: Option<(usize, f64)> = None;
    for at in &complete {
        // The mean of some of the seeds is no match for that of all: a diverged run always has its score, chance.
        let Some(summary) = rows[*at].metric(validation).filter(|s| s.n == rows[*at].planned) else { continue };
        let score = if validation.is_loss() { -summary.mean } else { summary.mean };
        if best.is_none_or(|(_, top)| score > top) {
            best = Some((*at, score));
        }
    }
    Chosen {
        arm: name.to_owned(),
        values: Vec::new(),
        at_end: Vec::new(),
        row: best.map(|(at, _)| at),
        complete: complete.len(),
        points: members.len(),
        is_baseline: false,
        best: Vec::new(),
        difference: None,
    }
}

/// Whether no number of the same axis in these rows is smaller, or none is larger.
fn is_at_end(axis: &Axis, members: &[usize], rows: &[ArmRow]) -> bool {
    let number = |text: &str| text.replace('_', "").parse::<f64>().ok();
    let all = members.iter().flat_map(|at| &rows[*at].point).filter(|other| other.key == axis.key);
    let all: Option<Vec<f64>> = all.map(|other| number(&other.value)).collect();
    let (Some(own), Some(all)) = (number(&axis.value), all) else { return false };
    let is_alone = all.iter().all(|x| *x == own);
    !is_alone && (all.iter().all(|x| own <= *x) || all.iter().all(|x| own >= *x))
}

fn grids(arms: &[(String, Vec<usize>)], rows: &[ArmRow], is_chosen: &dyn Fn(&Axis) -> bool) -> Vec<String> {
    let grid = |members: &[usize]| -> String {
        let point = |at: &usize| -> String {
            let shown = rows[*at].point.iter().filter(|axis| is_chosen(axis));
            shown.map(|axis| format!("{} = {}", axis.key, axis.value)).collect::<Vec<_>>().join(", ")
        };
        members.iter().map(point).collect::<Vec<_>>().join("; ")
    };
    let all: Vec<String> = arms.iter().map(|(_, members)| grid(members)).collect();
    if all.windows(2).all(|pair| pair[0] == pair[1]) {
        all.into_iter().take(1).collect()
    } else {
        arms.iter().zip(all).map(|((name, _), grid)| format!("{name}: {grid} (the grids differ)")).collect()
    }
}
