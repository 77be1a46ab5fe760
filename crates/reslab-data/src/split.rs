//! A part of a data set: its images on the device, or in files.

use reslab_fetch::decode::DataShape;
use tch::{Device, Kind, Tensor};

use crate::stream::Stream;
use crate::{DataError, Order};

/// A part of a data set.
#[derive(Debug)]
pub struct Split(Images);

#[derive(Debug)]
enum Images {
    /// u8 `[N, C, H, W]` and i64 `[N]`, on the device.
    Memory { images: Tensor, labels: Tensor },
    /// Read when they are asked for.
    Files(Stream),
}

impl Split {
    /// Images in memory: u8 `[N, C, H, W]` and their labels, i64 `[N]`, each below the number of classes.
    pub fn of(images: Tensor, labels: Tensor) -> Self {
        Self(Images::Memory { images, labels })
    }

    pub(crate) fn of_files(stream: Stream) -> Self {
        Self(Images::Files(stream))
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        match &self.0 {
            Images::Memory { labels, .. } => labels.size()[0] as usize,
            Images::Files(stream) => stream.len(),
        }
    }

    /// Where the images come to be.
    pub fn device(&self) -> Device {
        match &self.0 {
            Images::Memory { labels, .. } => labels.device(),
            Images::Files(stream) => stream.device(),
        }
    }

    /// Whether there is no image: validation, when `data.val_images` is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The images of these places, in this order.
    ///
    /// # Errors
    /// When memory is short.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn select(&self, places: &[usize]) -> Result<Self, DataError> {
        match &self.0 {
            Images::Memory { images, labels } => {
                let index: Vec<i64> = places.iter().map(|place| *place as i64).collect();
                let index = Tensor::f_from_slice(&index)?.f_to_device(self.device())?;
                Ok(Self::of(images.f_index_select(0, &index)?, labels.f_index_select(0, &index)?))
            }
            Images::Files(stream) => Ok(Self::of_files(stream.select(places))),
        }
    }

    /// All images in order, `batch` at a time, the last batch smaller where it does not divide: (images u8 `[B, C, H, W]`, labels i64 `[B]`),
    /// views of images that are in memory. An image in a file that can't be read is left out, where `data.broken` allows that.
    ///
    /// # Errors
    /// Each batch, when its files can't be read.
    ///
    /// # Panics
    /// If `batch` is 0.
    pub fn batches(&self, batch: usize) -> Box<dyn Iterator<Item = Result<(Tensor, Tensor), DataError>> + '_> {
        match &self.0 {
            Images::Memory { images, labels } => {
                let len = self.len();
                Box::new((0..len).step_by(batch).map(move |start| {
                    let size = batch.min(len - start) as i64;
                    Ok((images.narrow(0, start as i64, size), labels.narrow(0, start as i64, size)))
                }))
            }
            Images::Files(stream) => Box::new(stream.batches(batch)),
        }
    }

    /// Says which training batches come next, so that files are read ahead.
    pub(crate) fn expect(&self, seed: u64, order: &mut Order, step: u64) {
        if let Images::Files(stream) = &self.0 {
            stream.expect(seed, order, step);
        }
    }

    /// The training batch of `at` = (seed, step): the images of `indices`, which are also on the device, as `index`.
    pub(crate) fn gather(
        &self,
        at: (u64, u64),
        indices: &[i64],
        index: &Tensor,
    ) -> Result<(Tensor, Tensor), DataError> {
        match &self.0 {
            Images::Memory { images, labels } => {
                Ok((images.f_index_select(0, index)?, labels.f_index_select(0, index)?))
            }
            Images::Files(stream) => stream.train(at.0, at.1, indices),
        }
    }

    /// Files that can't be read and were not told yet: lines for a log.
    pub fn take_notices(&self) -> Vec<String> {
        match &self.0 {
            Images::Memory { .. } => Vec::new(),
            Images::Files(stream) => stream.take_notices(),
        }
    }

    /// pixels: u8 `[N, C, H, W]`.
    pub(crate) fn upload(pixels: &[u8], labels: &[u8], shape: &DataShape, device: Device) -> Result<Self, DataError> {
        let images = labels.len() as i64;
        let size = [images, shape.channels, shape.height, shape.width];
        if images == 0 {
            // An empty slice has no address to copy from.
            let empty = Tensor::f_zeros(size, (Kind::Uint8, device))?;
            return Ok(Self::of(empty, Tensor::f_zeros([0], (Kind::Int64, device))?));
        }
        let pixels = Tensor::f_from_data_size(pixels, &size, Kind::Uint8)?;
        let labels = Tensor::f_from_slice(labels)?.f_to_kind(Kind::Int64)?;
        Ok(Self::of(pixels.f_to_device(device)?, labels.f_to_device(device)?))
    }
}
