//! What is to be done with each run of a plan, from what is on disk.

use std::path::Path;

use reslab_record::{Failed, FailureClass, PlannedRun, RunDir, RunState, run_state};

use crate::job::{Retry, Skip};

/// The runs that [`execute`] would start now, in the order of the start: all arms of the first seed come first.
pub fn pending(sweep: &Path, runs: &[PlannedRun], retry: Retry) -> Vec<PlannedRun> {
    order(runs).into_iter().map(|i| &runs[i]).filter(|run| look(run, sweep, retry).is_none()).cloned().collect()
}

/// Run numbers: by seed in order of appearance, then in plan order, so that a table has all its rows early.
pub(crate) fn order(runs: &[PlannedRun]) -> Vec<usize> {
    let mut seeds: Vec<u64> = Vec::new();
    for run in runs {
        if !seeds.contains(&run.seed) {
            seeds.push(run.seed);
        }
    }
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|i| seeds.iter().position(|seed| *seed == runs[*i].seed));
    order
}

/// Why a run is not to be started, from what is on disk.
pub(crate) fn look(run: &PlannedRun, sweep: &Path, retry: Retry) -> Option<Skip> {
    let dir = &run.dir(sweep);
    let record = RunDir::open(dir).ok();
    match run_state(dir).unwrap_or(RunState::Absent) {
        RunState::Done => Some(done(run, dir)),
        RunState::Running => Some(Skip::Elsewhere),
        RunState::Failed if retry == Retry::Pending => {
            let unreadable =
                Failed { class: FailureClass::Bug, message: "failed.json cannot be read".to_owned(), last_step: None };
            let failed = record.and_then(|r| r.read_failed().ok()?).unwrap_or(unreadable);
            (!failed.class.may_pass()).then_some(Skip::Failed(failed))
        }
        RunState::Partial | RunState::Absent if retry == Retry::FailedOnly => Some(Skip::NotFailed),
        RunState::Failed | RunState::Partial | RunState::Absent => None,
    }
}

/// Whether a run has its result: a done.json that can be read and is its own.
pub fn is_done(run: &PlannedRun, sweep: &Path) -> bool {
    let dir = run.dir(sweep);
    dir.join("done.json").exists() && matches!(done(run, &dir), Skip::Done(_))
}

/// The result in `dir`. A done.json that cannot be read, or is of another run, is none; and what is finished is never
/// written again, so that only its owner can clear it away.
fn done(run: &PlannedRun, dir: &Path) -> Skip {
    let problem = match RunDir::open(dir).and_then(|record| record.read_done()) {
        Ok(Some(done)) if done.id == run.id => return Skip::Done(Some(done.outcome)),
        Ok(Some(done)) => format!("{}: its done.json is that of run {}", dir.display(), done.id),
        // It was there a moment ago.
        Ok(None) => return Skip::Done(None),
        Err(error) => error.to_string(),
    };
    let message = format!("{problem}; move the run's folder away, and it is computed anew");
    Skip::Failed(Failed { class: FailureClass::Io, message, last_step: None })
}
