//! What can go wrong with data.

use std::io;

use reslab_config::ConfigError;
use reslab_fetch::FetchError;
use reslab_fetch::decode::DecodeError;
use reslab_image::Broken;

/// Data that can't be had or used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A value of the table `[data]`.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Files that are not there, or not what they should be.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A file that does not hold what its format says, or can't be read: file and byte.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An image in a folder that can't be read, where `data.broken` is "fail".
    #[error("{path}: {problem}; data.broken = \"skip\" goes on without such images")]
    Image {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: Broken,
    },
    /// So many images in a row can't be read that it is no accident.
    #[error("{images} images in a row can't be read, the last: {last}")]
    NoImage {
        /// How many.
        images: usize,
        /// The last one, and what is wrong with it.
        last: String,
    },
    /// Threads that can't be started.
    #[error("data.workers: no more threads can be started: {0}")]
    Workers(io::Error),
    /// A fault of this program.
    #[error("a worker thread panicked at an image; its message stands in the run's error output")]
    Panic,
    /// An image number that a split does not have.
    #[error("image {index} was asked of a split of {images} images")]
    Index {
        /// The number asked for.
        index: i64,
        /// Images of the split.
        images: i64,
    },
    /// libtorch could not do it: above all, no memory.
    #[error("libtorch: {0}")]
    Tensor(#[from] tch::TchError),
}
