//! Data sets: as uint8 tensors on the device or read from files as they are needed, seeded order and augmentation.
//!
//! - [`DataConfig`] is the table `[data]`; [`DataConfig::shape`] and [`DataConfig::counts`] answer without opening an image.
//! - [`load`] makes three [`Split`]s of a data set: train, validation and test.
//! - [`Order`] says which images are in the batch of a step; [`Augment`] turns them into the network's input.
//!
//! Shapes: N images of a split, B batch, C channels, H height, W width.

mod augment;
mod config;
mod dataset;
mod digits;
mod error;
mod folder;
mod memory;
mod normalization;
mod order;
mod rand_augment;
mod resized_crop;
mod select;
mod split;
mod splits;
mod stream;
mod switch;

pub use augment::{Augment, Batch, EraseMode, RandomErasing, Targets};
pub use config::{DataConfig, NormalizationKind, SplitCounts};
pub use dataset::{DATASETS, Dataset, PerClass, dataset, shape};
pub use error::DataError;
pub use folder::{IMAGE_FOLDER, OnBroken};
pub use normalization::Normalization;
pub use order::Order;
pub use rand_augment::RandAugment;
pub use resized_crop::RandomResizedCrop;
pub use reslab_fetch::decode::DataShape;
pub use select::SPLIT_SEED;
pub use split::Split;
pub use splits::{Splits, load};
pub use switch::Switch;
