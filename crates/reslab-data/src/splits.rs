//! Train, validation and test images on the device.

use std::path::PathBuf;

use reslab_fetch::decode::{RawSet, read_files};
use reslab_fetch::{Sources, locate};
use tch::{Device, Kind, Tensor};

use crate::digits::read_digits;
use crate::{DataConfig, DataError, DataShape, Dataset, Normalization, dataset, memory};

/// Images and labels on the device.
#[derive(Debug)]
pub struct Split {
    /// u8 `[N, C, H, W]`.
    pub images: Tensor,
    /// i64 `[N]`, each below the number of classes.
    pub labels: Tensor,
}

impl Split {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.size()[0] as usize
    }

    /// Where the images are.
    pub fn device(&self) -> Device {
        self.images.device()
    }

    /// Whether there is no image: validation, when `data.val_images` is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All images in order, `batch` at a time, the last batch smaller where it does not divide:
    /// (images u8 `[B, C, H, W]`, labels i64 `[B]`), views of the split.
    ///
    /// # Panics
    /// If `batch` is 0.
    pub fn batches(&self, batch: usize) -> impl Iterator<Item = (Tensor, Tensor)> + '_ {
        let len = self.len();
        (0..len).step_by(batch).map(move |start| {
            let size = batch.min(len - start) as i64;
            (self.images.narrow(0, start as i64, size), self.labels.narrow(0, start as i64, size))
        })
    }

    /// pixels: u8 `[N, C, H, W]`.
    pub(crate) fn upload(pixels: &[u8], labels: &[u8], shape: &DataShape, device: Device) -> Result<Self, DataError> {
        let images = labels.len() as i64;
        let size = [images, shape.channels, shape.height, shape.width];
        if images == 0 {
            // An empty slice has no address to copy from.
            let empty = Tensor::f_zeros(size, (Kind::Uint8, device))?;
            return Ok(Self { images: empty, labels: Tensor::f_zeros([0], (Kind::Int64, device))? });
        }
        let pixels = Tensor::f_from_data_size(pixels, &size, Kind::Uint8)?;
        let labels = Tensor::f_from_slice(labels)?.f_to_kind(Kind::Int64)?;
        Ok(Self { images: pixels.f_to_device(device)?, labels: labels.f_to_device(device)? })
    }
}

/// A data set on the device.
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
}

/// Reads the data set of `config`, cuts validation from its training part, and moves all to `device`.
///
/// Nothing is downloaded: that is [`reslab_fetch::fetch`]'s.
///
/// # Errors
/// When files are missing (with the ways to get them) or broken (with file and byte), or memory is short.
pub fn load(config: &DataConfig, sources: &Sources, device: Device) -> Result<Splits, DataError> {
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
