//! Why plots could not be made. Missing or damaged records are no reason: a plot is left out, or says so.

use std::path::PathBuf;

/// Why plots could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// A file could not be written.
    #[error(transparent)]
    Record(#[from] reslab_record::RecordError),
    /// A file or folder could not be changed.
    #[error("{}: cannot write: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The picture has too many pixels.
    #[error("a plot of {width} x {height} pixels is too large to be drawn")]
    TooLarge {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// The picture could not be packed.
    #[error("a plot cannot be written as PNG: {0}")]
    Png(#[from] png::EncodingError),
}
