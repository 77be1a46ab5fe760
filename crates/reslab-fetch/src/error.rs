//! What can go wrong, said with what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::catalog::DatasetFiles;

/// Why the files of a data set could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No folder holds a complete set, and nothing was downloaded.
    #[error("{dataset}: files not found. Looked in:{}\n{help}", list(looked))]
    Missing {
        /// Name of the data set.
        dataset: &'static str,
        /// Every folder that was looked into, and what was wrong there.
        looked: Vec<Looked>,
        /// The three ways to get the files.
        help: String,
    },
    /// No address gave a good copy of one file.
    #[error("{dataset}: {file} could not be downloaded:{}\n{help}", list(failures))]
    Download {
        /// Name of the data set.
        dataset: &'static str,
        /// The file asked for.
        file: &'static str,
        /// What each address answered.
        failures: Vec<Failure>,
        /// The three ways to get the files.
        help: String,
    },
    /// An archive that is not what it says it is.
    #[error("{}: {problem}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file or folder of this machine could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl FetchError {
    /// Wraps a system error with the path it is about.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> FetchError {
        move |source| FetchError::Io { path: path.to_path_buf(), source }
    }
}

/// One folder that was looked into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// The folder.
    pub dir: PathBuf,
    /// Why it does not serve.
    pub why: String,
}

impl fmt::Display for Looked {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.dir.display(), self.why)
    }
}

/// One address that did not give the file.
#[derive(Debug)]
pub struct Failure {
    /// The address.
    pub url: &'static str,
    /// What happened.
    pub problem: Problem,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.url, self.problem)
    }
}

/// What happened at one address.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Not reached, or cut off and not reached again.
    #[error("{0}")]
    Network(String),
    /// Reached, but it answered something else.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// The file has another length than the published one.
    #[error("expected {expected} bytes, but the server sent {found}")]
    Length {
        /// Published size.
        expected: u64,
        /// Size received, at least.
        found: u64,
    },
    /// All bytes came, and they are not the published ones. The copy was deleted.
    #[error("wrong checksum, so the copy was deleted: expected sha256 {expected}, found {found}")]
    Checksum {
        /// Published sum.
        expected: &'static str,
        /// Sum of what came.
        found: String,
    },
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(|item| format!("\n  {item}")).collect()
}

/// The three ways to get the files of a data set, for the end of a message.
pub(crate) fn ways(dataset: &DatasetFiles, cache: &Path) -> String {
    let first = match dataset.debian {
        Some(package) => format!("on Debian or Ubuntu: apt install {package}"),
        None => {
            format!("on a machine with network: reslab data fetch {}, then copy the folder that it names", dataset.name)
        }
    };
    let urls: String = dataset.downloads.iter().map(|d| format!("\n       {}", d.urls[0])).collect();
    format!(
        "Three ways to get them:\n  1. {first}\n  2. by hand, into {}:{urls}\n  3. if you have them: \
         --data-dir DIR or RESLAB_DATA=DIR, with the files in DIR or in DIR/{}",
        cache.join(dataset.name).display(),
        dataset.name,
    )
}
