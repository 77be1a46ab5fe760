//! What the comparisons say, in sentences: only what a p carries, and what n allows.

use reslab_record::Plan;

use crate::cell::{self, Style};
use crate::contrast::{Closest, Comparison, Contrast, Finding};
use crate::metric::Metric;
use crate::power::MOST_SEEDS;
use crate::sign_flip::DRAWS;

/// The sentences, for a table of `seeds` seeds.
pub(crate) fn findings(comparison: &Comparison, plan: &Plan, metric: &Metric, seeds: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(contrast) = &comparison.primary {
        lines.push(primary(contrast, metric, plan.seeds.len()));
    } else {
        lines.extend(no_primary(plan, metric));
    }
    let others = &comparison.with_baseline;
    if !others.is_empty() {
        lines.push(family(others, comparison.primary.is_some()));
        lines.push(what_n_allows(seeds, others.len(), comparison.primary.is_some()));
    }
    if comparison.primary.iter().chain(others).any(|contrast| contrast.sign_flip.is_some_and(|test| !test.exact)) {
        lines.push(format!("Sign patterns are too many to count: p values are from {DRAWS} drawn ones."));
    }
    lines.extend(comparison.closest.as_ref().map(|closest| closest_arms(closest, metric)));
    lines
}

fn primary(contrast: &Contrast, metric: &Metric, planned: usize) -> String {
    let (arm, baseline) = (&contrast.arm, &contrast.baseline);
    let (Some(d), Some(test)) = (&contrast.difference, contrast.sign_flip) else {
        return format!("Primary contrast, named before the runs: {arm} - {baseline}; its runs are not done.");
    };
    let difference = cell::difference(Some(d), Style::of(metric).signed());
    let mut line = format!(
        "Primary contrast, named before the runs and tested alone: {arm} - {baseline} on {} is {difference}, sign-flip \
         p = {}: {}.",
        metric.name(),
        cell::p_value(Some(test.p)),
        contrast.finding.word()
    );
    if d.n < planned {
        line += &format!(" Only {} of {planned} seeds are done: this is not its test yet.", d.n);
    }
    if d.n < seeds_needed(1) {
        line += &format!(
            " With n = {} the test cannot go below p = {}; it takes n = {}.",
            d.n,
            smallest_p(d.n),
            seeds_needed(1)
        );
    }
    line
}

/// Why a contrast that the plan names is none.
fn no_primary(plan: &Plan, metric: &Metric) -> Option<String> {
    let study = plan.study.as_ref()?;
    let [arm, other] = &study.primary;
    if study.done_before > 0 {
        return Some(format!(
            "The contrast {arm} - {other} was named when {} of {} runs had their result: it is not tested alone, and all \
             comparisons are exploratory.",
            study.done_before,
            plan.runs.len()
        ));
    }
    (plan.metric != metric.name()).then(|| {
        format!("The primary contrast {arm} - {other} is about {}: here all comparisons are exploratory.", plan.metric)
    })
}

fn family(contrasts: &[Contrast], is_exploratory: bool) -> String {
    let with = |finding: Finding| {
        let found = contrasts.iter().filter(|contrast| contrast.finding == finding);
        let names: Vec<&str> = found.map(|contrast| contrast.arm.as_str()).collect();
        (!names.is_empty()).then(|| format!("{}: {}", finding.word(), names.join(", ")))
    };
    let found: Vec<String> = [Finding::Better, Finding::Worse, Finding::Differs].into_iter().filter_map(with).collect();
    let baseline = &contrasts[0].baseline;
    let kind = if is_exploratory { "exploratory comparison" } else { "comparison" };
    if found.is_empty() {
        return format!("No {kind} with {baseline} has a Holm-adjusted p of at most .05.");
    }
    let plural = if contrasts.len() == 1 { "" } else { "s" };
    format!(
        "Against {baseline}, with a Holm-adjusted p of at most .05 over {} {kind}{plural}: {}.",
        contrasts.len(),
        found.join("; ")
    )
}

pub(crate) fn what_n_allows(seeds: usize, comparisons: usize, has_primary: bool) -> String {
    let needed = seeds_needed(comparisons);
    let plural = if comparisons == 1 { "" } else { "s" };
    let end = match (seeds < needed, has_primary) {
        (true, false) => ": read this as a screening.",
        (true, true) => ": read all but the primary contrast as a screening.",
        (false, _) => ".",
    };
    format!(
        "With n = {seeds} seeds an exact two-sided sign-flip test cannot go below p = {}; for p = .05 after Holm's \
         correction over {comparisons} comparison{plural} it takes n = {needed}{end}",
        smallest_p(seeds)
    )
}

fn closest_arms(closest: &Closest, metric: &Metric) -> String {
    let style = Style::of(metric);
    let [first, second] = &closest.arms;
    let unit = if metric.is_accuracy() { " points" } else { "" };
    let seen = format!(
        "Closest: {first} and {second}, mean difference {}{unit}, sd {} (n = {}).",
        style.signed().show(closest.mean),
        style.show(closest.sd),
        closest.n
    );
    match closest.seeds {
        Some(seeds) => format!(
            "{seen} If both are as estimated, it takes {} seeds to tell them apart (80 % power, paired t at .05, \
             noncentral t).",
            cell::thousands(seeds as u64)
        ),
        None if closest.mean == 0.0 => format!("{seen} No number of seeds tells equal means apart."),
        None => format!("{seen} To tell them apart takes more than {} seeds.", cell::thousands(MOST_SEEDS as u64)),
    }
}

/// The fewest pairs with which the smallest p, times the number of comparisons, is at most .05: 1 + log2(m / .05).
fn seeds_needed(comparisons: usize) -> usize {
    (1.0 + (comparisons as f64 / 0.05).log2()).ceil() as usize
}

/// The smallest two-sided p of an exact sign-flip test with n pairs: 2^(1-n).
fn smallest_p(n: usize) -> f64 {
    (1.0 - n as f64).exp2().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The design's own numbers: one primary contrast takes 6 seeds, seven comparisons take 9.
    #[test]
    fn the_seeds_that_a_table_needs() {
        assert_eq!([1, 2, 3, 4, 7].map(seeds_needed), [6, 7, 7, 8, 9]);
        for m in 1..50 {
            let n = seeds_needed(m);
            assert!(smallest_p(n) * m as f64 <= 0.05 && smallest_p(n - 1) * m as f64 > 0.05, "{m}: {n}");
        }
    }
}
