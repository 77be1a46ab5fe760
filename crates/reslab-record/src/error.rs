//! Errors of records: the path, what was being done, and what stood in the way.

use std::path::{Path, PathBuf};

/// The result of reading or writing a record.
pub type Result<T> = std::result::Result<T, RecordError>;

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried: "read", "write", ...
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is there, but is not what it should be.
    #[error("{path}: {problem}", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong in it, and where.
        problem: String,
    },
    /// Not enough free space.
    #[error(
        "{path}: not enough space: {needed} bytes are needed, {free} are free; free some or use `--out` on another disk",
        path = path.display()
    )]
    NoSpace {
        /// The file that was to be written.
        path: PathBuf,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// Another process holds the lock.
    #[error("{path}: another process is at work here (its lock is held); wait for it or end it", path = path.display())]
    Locked {
        /// The lock's file.
        path: PathBuf,
    },
    /// The run is finished, and its folder is never written again.
    #[error("{path}: this run is finished (done.json is there); its records are never written again", path = path.display())]
    Finished {
        /// The run's folder.
        path: PathBuf,
    },
}

impl RecordError {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, action, source }
    }

    pub(crate) fn parse(path: &Path, problem: impl ToString) -> Self {
        Self::Parse { path: path.to_owned(), problem: problem.to_string() }
    }
}
