//! What can be wrong with a file: the byte, what was expected and what came.

use std::fmt;
use std::io;
use std::path::Path;

/// A file that can't be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// A file that is there but does not hold what its format says.
    #[error("{place}: {problem}")]
    Format {
        /// Where: file and byte.
        place: Place,
        /// What is wrong there.
        problem: Problem,
    },
    /// A file that can't be read, or whose compression is broken.
    #[error("{place}: can't be read: {source}")]
    Io {
        /// Where: file and byte.
        place: Place,
        /// The operating system's or the decompressor's words.
        source: io::Error,
    },
    /// A file of the data set is not among those that were found.
    #[error("no file {file} among [{listed}]")]
    Absent {
        /// The file's name, or its beginning.
        file: String,
        /// The files that are there.
        listed: String,
    },
}

/// A byte of a file. In a compressed file bytes are counted as they come out of the decompressor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The byte, counted from 0.
    pub offset: u64,
}

impl Place {
    /// The byte `offset` of a file.
    pub fn new(file: impl Into<String>, offset: u64) -> Self {
        Self { file: file.into(), offset }
    }

    /// The beginning of a file.
    pub fn of(file: &Path) -> Self {
        Self::new(file.display().to_string(), 0)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: byte {}", self.file, self.offset)
    }
}

/// What is wrong at a place of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file ends too early.
    #[error("the file ends here, {missing} bytes before the end of its {what}; fetch it again")]
    Truncated {
        /// The part that is cut.
        what: &'static str,
        /// Bytes that are missing.
        missing: u64,
    },
    /// The file goes on after its data.
    #[error("the data ends here, but the file goes on; it is another file, or its header is wrong")]
    Trailing,
    /// The first four bytes are not those of the format.
    #[error("must start with {expected:#010x} ({what}), but starts with {found:#010x}")]
    Magic {
        /// What the file should be.
        what: &'static str,
        /// The number that the format starts with.
        expected: u32,
        /// The number that is there.
        found: u32,
    },
    /// A number of the header is not that of the data set.
    #[error("the header says {found} {what}, but the data set has {expected}")]
    Header {
        /// What the number counts.
        what: &'static str,
        /// The data set's number.
        expected: u64,
        /// The header's number.
        found: u64,
    },
    /// As many labels as images are needed.
    #[error("the header says {labels} labels, but {file} has {images} images")]
    Unpaired {
        /// The file of the images.
        file: String,
        /// Its number of images.
        images: u64,
        /// The number of labels.
        labels: u64,
    },
    /// A label that is no class.
    #[error("{what} {found} is out of range: must be below {classes}")]
    Label {
        /// Which label, where a file has several.
        what: &'static str,
        /// The label.
        found: u64,
        /// Classes of the data set.
        classes: u64,
    },
    /// A line of text that is not what it should be.
    #[error("line {line}: {problem}")]
    Line {
        /// The line, counted from 1.
        line: u64,
        /// What was expected and what came.
        problem: String,
    },
}

impl Problem {
    /// The problem as an error, at its place.
    pub fn at(self, place: Place) -> DecodeError {
        DecodeError::Format { place, problem: self }
    }
}
