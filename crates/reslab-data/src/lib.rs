//! Data sets as uint8 tensors on the device, seeded order and augmentation.
//!
//! - [`DataConfig`] is the table `[data]`; [`shape`] and [`DataConfig::counts`] answer without any file.
//! - [`load`] reads a data set into three [`Split`]s: train, validation and test.
//! - [`Order`] says which images are in the batch of a step; [`Augment`] turns them into the network's input.
//!
//! Shapes: N images of a split, B batch, C channels, H height, W width.

mod augment;
mod config;
mod dataset;
mod digits;
mod error;
mod memory;
mod normalization;
mod order;
mod select;
mod splits;

pub use augment::{Augment, Batch, Targets};
pub use config::{DataConfig, NormalizationKind, SplitCounts};
pub use dataset::{DATASETS, Dataset, PerClass, dataset, shape};
pub use error::DataError;
pub use normalization::Normalization;
pub use order::Order;
pub use reslab_fetch::decode::DataShape;
pub use select::SPLIT_SEED;
pub use splits::{Split, Splits, load};
