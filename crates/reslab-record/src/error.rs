//! Errors of records: the path, what was being done, and what stood in the way.

use std::path::{Path, PathBuf};

/// The result of reading or writing a record.
pub type Result<T> = std::result::Result<T, RecordError>;

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}{}", remedy(source), path = path.display())]
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
    /// Something else wrote to a file that only its run writes.
    #[error(
        "{path}: {problem}: something else changed it while the run wrote it; rows would be missing, so what they stood for is \
         computed again when the run is started again",
        path = path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// How it differs from what was written.
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

/// What helps where the place itself is the trouble.
fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded => "; free some space and call again, or use `--out` on another disk",
        FileTooLarge => {
            "; raise the limit on the size of files (ulimit -f) and call again, or use `--out` on another disk"
        }
        ReadOnlyFilesystem => "; mount it for writing, or use `--out` on another disk",
        PermissionDenied => "; check its owner and permissions, or use `--out` on another disk",
        _ => "",
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_refuses_comes_with_what_helps_and_other_errors_do_not() {
        let told = |error: i32| {
            RecordError::io(Path::new("a/b"), "write")(std::io::Error::from_raw_os_error(error)).to_string()
        };
        // ENOSPC, EROFS, EFBIG, EACCES, EDQUOT; EIO
        for error in [28, 30, 27, 13, 122] {
            assert!(told(error).starts_with("a/b: cannot write: ") && told(error).contains("--out"), "{}", told(error));
        }
        assert_eq!(told(5), "a/b: cannot write: Input/output error (os error 5)");
    }
}
