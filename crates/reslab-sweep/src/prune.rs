//! Run folders that a sweep's plan no longer has: listed, and deleted only when that is asked for.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use reslab_record::{Plan, RecordError, RunLock, RunState, run_state};

use crate::freeze::PATIENCE;

/// A run's folder that is not in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The folder.
    pub path: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
    /// What it holds.
    pub state: LeftoverState,
}

/// What a leftover folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverState {
    /// A run in this state.
    Run(RunState),
    /// No run, or one that can't be looked at: it is never deleted.
    Unknown,
}

impl fmt::Display for LeftoverState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run(RunState::Done) => "done",
            Self::Run(RunState::Running) => "running: it is kept",
            Self::Run(RunState::Failed) => "failed",
            Self::Run(RunState::Partial) => "not done",
            Self::Run(RunState::Absent) | Self::Unknown => "no run: it is kept",
        })
    }
}

/// The folders under `runs/` that the plan does not have, by name.
///
/// # Errors
/// `runs/` cannot be read.
pub fn leftovers(plan: &Plan, sweep: &Path) -> Result<Vec<Leftover>, RecordError> {
    let runs = sweep.join("runs");
    let entries = match fs::read_dir(&runs) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(RecordError::Io { path: runs, action: "read", source }),
    };
    let planned: Vec<PathBuf> = plan.runs.iter().map(|run| run.dir(sweep)).collect();
    let mut found: Vec<Leftover> = entries
        .flatten()
        // A link leads elsewhere, which is not the sweep's to delete.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && !planned.contains(&entry.path()))
        .map(|entry| leftover(entry.path()))
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn leftover(path: PathBuf) -> Leftover {
    let state = match run_state(&path) {
        Ok(RunState::Absent) | Err(_) => LeftoverState::Unknown,
        Ok(state) => LeftoverState::Run(state),
    };
    let files = fs::read_dir(&path).into_iter().flatten().flatten();
    let bytes = files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
    Leftover { path, bytes, state }
}

/// Deletes the leftovers that hold a run which nobody is at, under the sweep's lock; gives how many those were.
///
/// # Errors
/// Another process is at the plan, or a folder cannot be deleted.
pub fn delete(leftovers: &[Leftover], sweep: &Path) -> Result<usize, RecordError> {
    let _sweep = RunLock::wait(sweep, PATIENCE)?;
    let mut deleted = 0;
    for Leftover { path, state, .. } in leftovers {
        if matches!(state, LeftoverState::Unknown | LeftoverState::Run(RunState::Running)) {
            continue;
        }
        let lock = match RunLock::acquire(path) {
            // It was started since it was listed.
            Err(RecordError::Locked { .. }) => continue,
            lock => lock?,
        };
        fs::remove_dir_all(path).map_err(|source| RecordError::Io { path: path.clone(), action: "delete", source })?;
        drop(lock);
        deleted += 1;
    }
    Ok(deleted)
}
