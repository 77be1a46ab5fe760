//! What became of the runs of one call.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reslab_record::{Failed, Outcome, PlannedRun};

use crate::span::span;

/// How many runs ended how, in one call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Runs that did all their steps now.
    pub finished: usize,
    /// Runs that ended now because loss or gradient was not finite: a result.
    pub non_finite: usize,
    /// Runs that were done before.
    pub done_before: usize,
    /// Runs that another process finished meanwhile.
    pub done_elsewhere: usize,
    /// Runs that have failed, now or before.
    pub failed: Vec<FailedRun>,
    /// Runs that another process is at.
    pub elsewhere: usize,
    /// Runs that were asked to stop and go on next time.
    pub interrupted: usize,
    /// Runs that were not reached.
    pub not_started: usize,
    /// Runs that are not done and were not asked for, since only failed ones were.
    pub not_asked: usize,
    /// Wall time.
    pub wall: Duration,
    /// The signal that stopped it, if one did.
    pub signal: Option<i32>,
}

/// A run that has failed.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedRun {
    /// The arm's full name.
    pub arm: String,
    /// The seed.
    pub seed: u64,
    /// Why.
    pub failed: Failed,
    /// Where all that it printed stands.
    pub log: PathBuf,
}

impl FailedRun {
    pub(crate) fn new(run: &PlannedRun, failed: &Failed, log: &Path) -> Self {
        Self { arm: run.arm.clone(), seed: run.seed, failed: failed.clone(), log: log.to_owned() }
    }
}

impl Summary {
    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Finished => self.finished += 1,
            Outcome::NonFinite { .. } => self.non_finite += 1,
        }
    }

    /// The program's exit code: 128 + signal when stopped, else 1 if a run failed, else 0. A run that diverged is a result.
    pub fn exit_code(&self) -> i32 {
        match self.signal {
            Some(signal) => 128 + signal,
            None => i32::from(!self.failed.is_empty()),
        }
    }

    /// Whether there was nothing to do, because all runs are done.
    pub fn all_done_before(&self) -> bool {
        let open = self.finished
            + self.non_finite
            + self.done_elsewhere
            + self.failed.len()
            + self.elsewhere
            + self.interrupted;
        self.done_before > 0 && open + self.not_started + self.not_asked == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.finished, "finished"),
            (self.non_finite, "ended non-finite"),
            (self.done_before, "done before"),
            (self.done_elsewhere, "done by another process"),
            (self.failed.len(), "failed"),
            (self.elsewhere, "running elsewhere"),
            (self.interrupted, "interrupted"),
            (self.not_started, "not started"),
            (self.not_asked, "not asked for"),
        ];
        let told: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
        let told = if told.is_empty() { "no runs".to_owned() } else { told.join(", ") };
        write!(f, "{told}; {}", span(self.wall.as_secs_f64()))
    }
}
