//! Errors of event files.

use reslab_record::RecordError;
use std::path::{Path, PathBuf};

/// Why event files could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// A file cannot be written by rename.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl EventError {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, action, source }
    }
}
