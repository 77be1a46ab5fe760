//! Files of data sets: where they are looked for, fetched from, checked, and what they hold; no libtorch.
//!
//! - [`dataset`] knows the names, sizes, checksums and official addresses.
//! - [`locate`] finds a complete set of files in the folders of [`Sources`], gzip or plain.
//! - [`fetch`] does the same, and downloads what is missing into the cache: resumed, checked, then renamed into place.
//! - [`verify`] compares the files that were found with their published sha256.
//! - [`decode`] turns their bytes into images and labels on the host.

mod catalog;
pub mod decode;
mod digest;
mod download;
mod error;
mod fetch;
mod locate;
#[cfg(test)]
mod testing;

pub use catalog::{DATASETS, DataFile, DatasetFiles, Download, Packing, dataset};
pub use digest::{FileCheck, FileState, verify};
pub use error::{Failure, FetchError, Looked, Problem};
pub use fetch::{FetchProgress, Stage, fetch};
pub use locate::{DEBIAN_DIR, Located, LocatedFile, Sources, locate};
