//! The file formats: IDX, CIFAR's binary records, and the embedded digits.
//!
//! Every parser is told what the data set must hold and refuses a file that holds anything else, naming file and byte.

mod cifar;
mod digits;
mod idx;
mod source;

use std::path::{Path, PathBuf};

pub(crate) use digits::read_digits;
use source::Source;

use crate::error::{Place, Problem};
use crate::{DataError, Dataset};

/// Images and labels of one part of a data set, in the order of its files, on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawPart {
    /// u8 `[N, C, H, W]`, row-major.
    pub(crate) pixels: Vec<u8>,
    /// `[N]`, each below the number of classes.
    pub(crate) labels: Vec<u8>,
}

/// Both parts of a data set on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawSet {
    pub(crate) train: RawPart,
    pub(crate) test: RawPart,
}

/// Reads the files of a data set of IDX or CIFAR's format.
pub(crate) fn read_files(set: &Dataset, files: &[PathBuf]) -> Result<RawSet, DataError> {
    match set.name {
        "cifar10" => cifar::read(&cifar::CIFAR10, files),
        "cifar100" => cifar::read(&cifar::CIFAR100, files),
        _ => idx::read(set.shape, files),
    }
}

/// The file whose name starts with `start`.
fn find<'a>(files: &'a [PathBuf], start: &str) -> Result<&'a Path, DataError> {
    let named = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
    let listed = || files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let missing = || DataError::Absent { file: start.to_owned(), listed: listed() };
    files.iter().find(named).map(PathBuf::as_path).ok_or_else(missing)
}

/// Checks labels that stand `stride` bytes apart, the first at `place`; `kind` is the number of classes and a name.
fn check_labels(labels: &[u8], kind: (u64, &'static str), place: (&Place, u64)) -> Result<(), DataError> {
    let ((classes, what), (first, stride)) = (kind, place);
    let Some(bad) = labels.iter().position(|label| u64::from(*label) >= classes) else { return Ok(()) };
    let at = Place::new(first.file.clone(), first.offset + bad as u64 * stride);
    Err(Problem::Label { what, found: labels[bad].into(), classes }.at(at))
}
