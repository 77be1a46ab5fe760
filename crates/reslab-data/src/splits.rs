//! Train, validation and test images.

use std::path::PathBuf;

use reslab_fetch::decode::{RawSet, read_files};
use reslab_fetch::{Sources, locate};
use tch::Device;

use crate::digits::read_digits;
use crate::{DataConfig, DataError, DataShape, Dataset, Normalization, Split, dataset, folder, memory};

/// A data set, ready for a device.
#[derive(Debug)]
pub struct Splits {
    /// What is trained on.
    pub train: Split,
    /// What selects (learning rates, checkpoints); empty when `data.val_images` is 0.
    pub val: Split,
    /// What is evaluated once, at the end.
    pub test: Split,
    /// Mean and standard deviation that `data.normalization` asks for.
    pub norm: Normalization,
    /// What the images look like.
    pub shape: DataShape,
    pub(crate) notices: Vec<String>,
}

impl Splits {
    /// Lines for a log that were not told yet: what was found, and files that can't be read.
    pub fn take_notices(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.notices);
        for split in [&self.train, &self.val, &self.test] {
            lines.extend(split.take_notices());
        }
        lines
    }
}

/// Makes the data set of `config` ready, validation cut from its training part. Images are read and moved to `device`; those of a folder
/// stay where they are.
///
/// Nothing is downloaded: that is [`reslab_fetch::fetch`]'s.
///
/// # Errors
/// When files are missing (with the ways to get them) or broken (with file and byte), or memory is short.
pub fn load(config: &DataConfig, sources: &Sources, device: Device) -> Result<Splits, DataError> {
    if let Some(listed) = &config.folder {
        return folder::build(config, listed, device);
    }
    let set = dataset(&config.dataset)?;
    config.counts()?; // before any file is opened
    memory::build(config, set, read(set, sources)?, device)
}

fn read(set: &Dataset, sources: &Sources) -> Result<RawSet, DataError> {
    let Some(known) = reslab_fetch::dataset(set.name) else { return Ok(read_digits()?) };
    let located = locate(known, sources)?;
    let files: Vec<PathBuf> = located.files.iter().map(|file| file.path.clone()).collect();
    Ok(read_files(set.name, &set.shape, &files)?)
}
