//! Event files for TensorBoard, beside the tables, where they are asked for. They are made from the records alone.

use crate::terminal::{note, warn};
use crate::watch::Watch;
use anyhow::Result;
use reslab_record::{Plan, PlannedRun, Progress};
use reslab_tensorboard::{FOLDER, write_events, write_run};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A run that goes on is written no more often than this.
const EVERY: Duration = Duration::from_secs(5);
/// Nor so often that it takes more than this part of the time: all records of the run are read for it.
const SHARE: u32 = 20;

/// The event files of a sweep's folder while its runs go on.
pub(crate) struct Board<'a> {
    dir: &'a Path,
    wanted: bool,
    /// When a run's file may be written again, by id.
    due: BTreeMap<String, Instant>,
}

impl<'a> Board<'a> {
    /// Of the folder `dir`; does nothing unless they are wanted.
    pub(crate) fn new(dir: &'a Path, wanted: bool) -> Self {
        Self { dir, wanted, due: BTreeMap::new() }
    }

    /// All files: before the first run, so that a TensorBoard can be opened, and at the end.
    ///
    /// # Errors
    /// One can't be written.
    pub(crate) fn write(&self) -> Result<()> {
        if !self.wanted {
            return Ok(());
        }
        let runs = write_events(self.dir, &Plan::read(self.dir)?)?;
        let (folder, dir) = (self.dir.join(FOLDER), self.dir.display());
        note(format_args!("wrote event files of {runs} runs in {}; tensorboard --logdir {dir}", folder.display()));
        Ok(())
    }

    /// The same where the runs matter more: what can't be written is told.
    pub(crate) fn write_if_possible(&self) {
        if let Err(error) = self.write() {
            warn(format_args!("the event files could not be written: {error:#}"));
        }
    }

    /// A run that goes on has said something: its file follows at evaluations and checkpoints.
    pub(crate) fn progress(&mut self, run: &PlannedRun, progress: &Progress, watch: &Watch) {
        let is_worth_it = matches!(progress, Progress::Eval { .. } | Progress::Checkpoint { .. });
        if self.wanted && is_worth_it && self.due.get(&run.id).is_none_or(|due| Instant::now() >= *due) {
            let began = Instant::now();
            self.ended(run, watch);
            self.due.insert(run.id.clone(), Instant::now() + EVERY.max(began.elapsed() * SHARE));
        }
    }

    /// A run has ended. A file that can't be written is told, and stops nothing.
    pub(crate) fn ended(&self, run: &PlannedRun, watch: &Watch) {
        if !self.wanted {
            return;
        }
        if let Err(error) = write_run(self.dir, run) {
            watch.note(&format!("warning: an event file could not be written: {error}"));
        }
    }
}
