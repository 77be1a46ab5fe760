//! What is to be executed, and what is told while it is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reslab_record::{Failed, Outcome, PlannedRun, Progress};

use crate::pool::Slot;

/// Exit code of a child that found its run locked by another process, and wrote nothing.
pub const EXIT_LOCKED: i32 = 75;

/// The command that computes a run on a slot.
pub type Start<'a> = dyn Fn(&PlannedRun, &Slot) -> Command + 'a;

/// What is to be executed, where and how.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The sweep's folder.
    pub sweep: &'a Path,
    /// The runs, from the frozen plan.
    pub runs: &'a [PlannedRun],
    /// Devices, and how many runs each takes at once.
    pub slots: &'a [Slot],
    /// What a failure means for the other runs.
    pub on_failure: OnFailure,
    /// Which runs are started.
    pub retry: Retry,
    /// How often a run that was killed, hung, or met an I/O error is started again within this call.
    pub retries: u32,
    /// A run of which nothing is heard for so long is ended; `None`: it may take as long as it likes.
    pub hang_after: Option<Duration>,
}

/// What a failed run means for the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing.
    #[default]
    GoOn,
    /// They save and end, and no other is started.
    StopAll,
}

/// Which runs are started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Retry {
    /// All that are not done, but for failures that would come again (a bug, memory).
    #[default]
    Pending,
    /// Only those that failed, for whatever reason.
    FailedOnly,
}

/// What happens while a sweep runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run's process was started.
    Started {
        /// The run.
        run: &'a PlannedRun,
        /// Where.
        device: &'a str,
    },
    /// A run said something.
    Progress {
        /// The run.
        run: &'a PlannedRun,
        /// What.
        progress: Progress,
    },
    /// A run has its result.
    Finished {
        /// The run.
        run: &'a PlannedRun,
        /// Which.
        outcome: Outcome,
    },
    /// A run ended without a result.
    Failed {
        /// The run.
        run: &'a PlannedRun,
        /// Why.
        failed: Failed,
        /// Where all that it printed stands.
        log: PathBuf,
    },
    /// A run ended without a result, and is started once more, from its checkpoint.
    Again {
        /// The run.
        run: &'a PlannedRun,
        /// Why it ended.
        failed: Failed,
        /// What is done about it.
        remedy: Remedy,
    },
    /// A run was asked to stop; it goes on from its checkpoint next time.
    Interrupted {
        /// The run.
        run: &'a PlannedRun,
    },
    /// A run is not started.
    Skipped {
        /// The run.
        run: &'a PlannedRun,
        /// Why.
        why: Skip,
    },
    /// All runs were asked to save and end.
    Stopping,
}

/// What is done about a failure that need not come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The same once more.
    Retry {
        /// Which retry this is, from 1.
        number: u32,
        /// How many there are.
        of: u32,
    },
    /// Smaller micro-batches, whose gradients are added up.
    Accumulate {
        /// Micro-batches per batch from now on.
        micro_batches: u64,
    },
}

/// Why a run is not started.
#[derive(Debug, Clone, PartialEq)]
pub enum Skip {
    /// It is done; the outcome, where its record can be read.
    Done(Option<Outcome>),
    /// It failed before, in a way that would come again; or its result cannot be read.
    Failed(Failed),
    /// Another process is at it.
    Elsewhere,
    /// It did not fail, and only failed runs are asked for.
    NotFailed,
}
