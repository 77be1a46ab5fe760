//! What the files of a data set hold, decoded on the host: IDX (MNIST's format) and CIFAR's binary records.
//!
//! Every decoder is told what the data set must hold and refuses a file that holds anything else, naming file and byte.
//! Memory grows with the bytes that really come, never with what a header promises.

mod cifar;
mod error;
mod idx;
mod source;

use std::path::{Path, PathBuf};

pub use cifar::{CIFAR10, CIFAR100, Layout, cifar_records};
pub use error::{DecodeError, Place, Problem};
pub use idx::idx_part;
pub use source::Source;

/// What the images of a data set look like and how many there are; known without its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataShape {
    /// Channels of an image: 1 for grey, 3 for red, green, blue.
    pub channels: i64,
    /// Rows of an image.
    pub height: i64,
    /// Columns of an image.
    pub width: i64,
    /// Classes; labels are `0..classes`.
    pub classes: i64,
    /// Images of the training part, validation not yet cut from it.
    pub train_images: u64,
    /// Images of the test part.
    pub test_images: u64,
}

impl DataShape {
    /// Bytes of one image.
    pub fn image_bytes(&self) -> usize {
        (self.channels * self.height * self.width) as usize
    }
}

/// Images and labels of one part of a data set, in the order of its files, on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawPart {
    /// u8 `[N, C, H, W]`, row-major.
    pub pixels: Vec<u8>,
    /// `[N]`, each below the number of classes.
    pub labels: Vec<u8>,
}

/// Both parts of a data set on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawSet {
    /// What training and validation images are taken from.
    pub train: RawPart,
    /// The test images.
    pub test: RawPart,
}

/// Reads the files of the data set `name`, found by their names, plain or gzip.
///
/// # Errors
/// Names file and byte.
pub fn read_files(name: &str, shape: &DataShape, files: &[PathBuf]) -> Result<RawSet, DecodeError> {
    match name {
        "cifar10" => cifar::read(&CIFAR10, files),
        "cifar100" => cifar::read(&CIFAR100, files),
        _ => idx::read(shape, files),
    }
}

/// The file whose name starts with `start`.
fn find<'a>(files: &'a [PathBuf], start: &str) -> Result<&'a Path, DecodeError> {
    let named = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start));
    let listed = || files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let missing = || DecodeError::Absent { file: start.to_owned(), listed: listed() };
    files.iter().find(named).map(PathBuf::as_path).ok_or_else(missing)
}

/// Checks labels that stand `stride` bytes apart, the first at `place`; `kind` is the number of classes and a name.
fn check_labels(labels: &[u8], kind: (u64, &'static str), place: (&Place, u64)) -> Result<(), DecodeError> {
    let ((classes, what), (first, stride)) = (kind, place);
    let Some(bad) = labels.iter().position(|label| u64::from(*label) >= classes) else { return Ok(()) };
    let at = Place::new(first.file.clone(), first.offset + bad as u64 * stride);
    Err(Problem::Label { what, found: labels[bad].into(), classes }.at(at))
}
