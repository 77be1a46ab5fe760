//! The lines under a table: how to read it, and what must be known of these runs.

use crate::aggregate::RESAMPLES;
use crate::arm::ArmRow;
use crate::contrast::SEED;
use crate::episodes::APART;
use crate::metric::Metric;
use crate::origin;
use crate::rates::AS_GOOD;
use crate::sweep::{Finished, Run, Status, Sweep};
use crate::table::Table;

/// How to read the columns.
pub(crate) fn legend(table: &Table) -> Vec<String> {
    let beside = match table.selection {
        None => "",
        Some(_) => " (in the chosen part, of each arm's own point to the baseline's own)",
    };
    let mut lines = vec![
        "Accuracies in percent: mean +- half-width of the 95 % t interval over seeds; for n = 2 the range in brackets; \
         no interval for n = 1 or where a run diverged."
            .to_owned(),
        format!(
            "Differences are to the baseline at the same grid point{beside}, paired by seed. Their intervals describe \
             these runs; the tests stand in a part of their own."
        ),
    ];
    lines.extend(tests(table));
    lines.push(
        "Diverged: loss or gradient norm not finite, or training loss (mean of 20 steps) above that of step 0 + 0.1 for \
         50 steps running. A diverged run scores chance (1/C, loss ln C); it is never left out. Not trained: final loss \
         above 0.95 ln C."
            .to_owned(),
    );
    lines.push(
        "Final loss: training loss, mean of the last 20 steps. Largest gradient norm: before clipping, over all steps and \
         seeds. Spikes: share of steps whose loss is more than 6 sd above the mean of the 128 before. Update ratio: mean \
         norm(update) / norm(residual) over the joins of the last third of the blocks, at the last telemetry step."
            .to_owned(),
    );
    if table.rows.iter().any(|row| row.episodes.episodes + row.grad_episodes.episodes > 0) {
        lines.push(format!(
            "Episodes: spikes less than {APART} steps apart, of loss and of gradient norm, over all seeds. Size: of the \
             largest, above the mean of the 128 values before it began. Recovery: the most steps from a first spike until \
             the value was below that spike's limit again; never: it was not to the run's end."
        ));
    }
    lines
}

/// How to read the parts that compare.
fn tests(table: &Table) -> Vec<String> {
    let mut lines = Vec::new();
    if table.comparison.primary.is_some() || !table.comparison.with_baseline.is_empty() {
        lines.push(
            "Sign-flip p: exact two-sided test of the paired differences, over all patterns of their signs. Holm p: \
             corrected for all comparisons of the part. P(arm > baseline): share of the seeds at which the arm's figure is \
             above, ties as a half. Fisher p: of the counts of diverged runs, where one diverged. Better and worse are said \
             at a Holm p (of a primary contrast, which is tested alone: at its sign-flip p) of at most .05."
                .to_owned(),
        );
    }
    if let Some(over) = &table.over_points {
        lines.push(format!(
            "IQM: interquartile mean of the runs at all points of {}. P(arm > baseline) there: over all pairs of runs at the \
             same point, mean over points. In brackets the 95 % interval of a stratified bootstrap ({RESAMPLES} resamples, \
             seed {SEED}).",
            over.keys.join(", ")
        ));
    }
    if !table.rates.is_empty() {
        lines.push(format!(
            "Largest stable learning rate: the largest at which every seed ends within {AS_GOOD} of its own best final \
             loss, with no unstable one below it (a seed diverged, or, above the best rate, ends further off). Sensitivity: \
             mean over the rates of min(final loss, loss at step 0) - the seed's best; a diverged run counts as the loss at \
             step 0."
        ));
    }
    lines
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
