//! The lines under a table: how to read it, and what must be known of these runs.

use crate::arm::ArmRow;
use crate::metric::Metric;
use crate::origin;
use crate::select::Selection;
use crate::sweep::{Finished, Run, Status, Sweep};

/// How to read the columns.
pub(crate) fn legend(rows: &[ArmRow], selection: Option<&Selection>) -> Vec<String> {
    let beside = match selection {
        None => "",
        Some(_) => " (in the chosen part, of each arm's own point to the baseline's own)",
    };
    let mut lines = vec![
        "Accuracies in percent: mean +- half-width of the 95 % t interval over seeds; for n = 2 the range in brackets; \
         no interval for n = 1 or where a run diverged."
            .to_owned(),
        format!(
            "Differences are to the baseline at the same grid point{beside}, paired by seed. Their intervals describe \
             these runs; no test was made."
        ),
        "Diverged: loss or gradient norm not finite, or training loss (mean of 20 steps) above that of step 0 + 0.1 for \
         50 steps running. A diverged run scores chance (1/C, loss ln C); it is never left out. Not trained: final loss \
         above 0.95 ln C."
            .to_owned(),
        "Final loss: training loss, mean of the last 20 steps. Largest gradient norm: before clipping, over all steps and \
         seeds. Spikes: share of steps whose loss is more than 6 sd above the mean of the 128 before. Update ratio: mean \
         norm(update) / norm(residual) over the joins of the last third of the blocks, at the last telemetry step."
            .to_owned(),
    ];
    let comparisons = match selection {
        None => rows.iter().filter(|row| !row.is_baseline).count(),
        Some(selection) => selection.rows.iter().filter(|choice| !choice.is_baseline).count(),
    };
    let few = rows.iter().map(|row| row.planned).max().unwrap_or(0);
    if comparisons > 0 && few < seeds_needed(comparisons) {
        lines.push(format!(
            "With n = {few} seeds an exact two-sided sign-flip test cannot go below p = {}; for p = .05 after Holm's \
             correction over {comparisons} comparisons it takes n = {}: read this as a screening.",
            smallest_p(few),
            seeds_needed(comparisons)
        ));
    }
    lines
}

/// The fewest pairs with which the smallest p, times the number of comparisons, is at most .05: 1 + log2(m / .05).
fn seeds_needed(comparisons: usize) -> usize {
    (1.0 + (comparisons as f64 / 0.05).log2()).ceil() as usize
}

/// The smallest two-sided p of an exact sign-flip test with n pairs: 2^(1-n).
fn smallest_p(n: usize) -> f64 {
    (1.0 - n as f64).exp2().min(1.0)
}

/// What must be known of these runs.
pub(crate) fn notes(sweep: &Sweep, rows: &[ArmRow], metrics: &[Metric]) -> Vec<String> {
    let mut notes = Vec::new();
    for row in rows.iter().filter(|row| row.done < row.planned) {
        notes.push(format!("{}: {} of {} seeds done.", row.arm, row.done, row.planned));
    }
    let mut list = |what: &str, of: Vec<String>| {
        if !of.is_empty() {
            notes.push(format!("{what}: {}.", of.join("; ")));
        }
    };
    list("Failed, no result", sweep.runs.iter().filter_map(failed).collect());
    list(
        "Diverged",
        which(
            sweep,
            |f| f.diverged,
            |run, f| {
                let at = match f.done.outcome {
                    reslab_record::Outcome::NonFinite { step } => format!(" (not finite at step {step})"),
                    reslab_record::Outcome::Finished => String::new(),
                };
                run.label() + &at
            },
        ),
    );
    list("Not trained", which(sweep, |f| f.not_trained, |run, _| run.label()));
    list(
        "Memory ran out: computed in smaller micro-batches, which round otherwise",
        which(
            sweep,
            |f| f.done.micro_batches.is_some(),
            |run, f| format!("{} ({} per batch)", run.label(), f.done.micro_batches.unwrap_or(1)),
        ),
    );
    for metric in metrics {
        let lacks = |f: &Finished| f.score(metric).is_none();
        list(&format!("Without {}", metric.name()), which(sweep, lacks, |run, _| run.label()));
    }
    problems(sweep, &mut notes);
    notes.extend(origin::notes(sweep));
    notes
}

fn failed(run: &Run) -> Option<String> {
    let Status::Failed(failed) = &run.status else { return None };
    let step = failed.last_step.map_or("before its first step".to_owned(), |step| format!("last step {step}"));
    // Its message may hold a path or a host: it is in the run's folder.
    Some(format!("{} ({}, {step}; {}/log.txt)", run.label(), failed.class, run.planned.folder))
}

fn which(sweep: &Sweep, holds: impl Fn(&Finished) -> bool, say: impl Fn(&Run, &Finished) -> String) -> Vec<String> {
    let finished = sweep.runs.iter().filter_map(|run| Some((run, run.finished()?)));
    finished.filter(|(_, f)| holds(f)).map(|(run, f)| say(run, f)).collect()
}

/// The same problem of several runs is said once.
fn problems(sweep: &Sweep, notes: &mut Vec<String>) {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for run in &sweep.runs {
        for problem in &run.problems {
            match found.iter_mut().find(|(known, _)| known == problem) {
                Some((_, runs)) => runs.push(run.label()),
                None => found.push((problem, vec![run.label()])),
            }
        }
    }
    for (problem, runs) in found {
        notes.push(format!("Records: {problem} ({}).", runs.join("; ")));
    }
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
