//! What can go wrong with data.

use reslab_config::ConfigError;
use reslab_fetch::FetchError;
use reslab_fetch::decode::DecodeError;

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
