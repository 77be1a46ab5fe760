//! Training images from a split: gathered, moved, normalised, mixed; all on the device, for the logical batch.
//!
//! Every number is drawn on the host from the streams named in [`draws`] and reaches the device in one copy per step. Batches of a
//! config differ in values only, never in shapes or kernels. With everything off, a batch is a gather and a normalisation.

mod draws;
mod erase;
mod mix;
mod place;

use tch::{Device, Kind, Tensor};

use crate::{DataConfig, DataError, DataShape, Normalization, Order, Split};
use draws::{Draws, Numbers};
pub use erase::{EraseMode, RandomErasing};

/// A training batch as the network takes it.
#[derive(Debug)]
pub struct Batch {
    /// f32 `[B, C, H, W]`, normalised.
    pub images: Tensor,
    /// What the network should answer.
    pub targets: Targets,
}

/// What the network should answer.
#[derive(Debug)]
pub enum Targets {
    /// The class of each image: i64 `[B]`.
    Hard(Tensor),
    /// A distribution over the classes for each image: f32 `[B, classes]`, rows sum to 1. Label smoothing is not in it: the loss applies
    /// it, as it is linear in the targets.
    Soft(Tensor),
}

impl Batch {
    /// The images `start..start + len` of the batch, as views: a micro-batch.
    pub fn narrow(&self, start: i64, len: i64) -> Self {
        let targets = match &self.targets {
            Targets::Hard(labels) => Targets::Hard(labels.narrow(0, start, len)),
            Targets::Soft(shares) => Targets::Soft(shares.narrow(0, start, len)),
        };
        Self { images: self.images.narrow(0, start, len), targets }
    }
}

/// Makes training batches, and the input of an evaluation.
///
/// In this order: random crop (pixels outside the image are 0, black), mirror left to right, normalisation, random erasing, then mixup or CutMix.
/// RandomResizedCrop and RandAugment come before all of them, in the workers that read the images.
/// With both of these on, each batch takes one of them with probability 1/2, as timm does.
#[derive(Debug)]
pub struct Augment {
    config: DataConfig,
    seed: u64,
    shape: DataShape,
    norm: Normalization,
    /// 0..H, i64 `[H, 1]`.
    rows: Tensor,
    /// 0..W, i64 `[1, W]`.
    columns: Tensor,
    /// 0..classes, i64 `[1, classes]`.
    classes: Tensor,
    /// Where erased pixels come from, f32; empty where there are none.
    noise: Tensor,
}

impl Augment {
    /// The augmentation of `config` in the run of `seed`, on the device of `norm`.
    ///
    /// # Errors
    /// When libtorch can't: above all, when the device is out of memory.
    pub fn new(config: &DataConfig, seed: u64, shape: DataShape, norm: &Normalization) -> Result<Self, DataError> {
        let range = |end: i64| Tensor::f_arange(end, (Kind::Int64, norm.device()));
        Ok(Self {
            config: config.clone(),
            seed,
            shape,
            norm: norm.shallow_clone(),
            rows: range(shape.height)?.f_unsqueeze(1)?,
            columns: range(shape.width)?.f_unsqueeze(0)?,
            classes: range(shape.classes)?.f_unsqueeze(0)?,
            noise: erase::noise(config, seed, &shape)?.f_to_device(norm.device())?,
        })
    }

    /// The logical batch of `step` from the images of `split` in their order; micro-batches are cut from it with [`Batch::narrow`]. Images in files are
    /// read ahead: those of the next steps too.
    ///
    /// # Errors
    /// When images can't be read, or memory is short.
    pub fn train(&self, split: &Split, order: &mut Order, step: u64) -> Result<Batch, DataError> {
        split.expect(self.seed, order, step);
        self.batch(split, &order.indices(step), step)
    }

    fn batch(&self, split: &Split, indices: &[i64], step: u64) -> Result<Batch, DataError> {
        check(split, indices)?;
        let draws = Draws::of(&self.config, &self.shape, (self.seed, step), indices.len());
        let mut numbers = Numbers::upload(indices, &draws, self.device())?; // the step's one copy
        let index = numbers.take(indices.len())?; // [B]
        let (mut images, labels) = split.gather((self.seed, step), indices, &index)?; // u8 [B, C, H, W], i64 [B]
        if let Some(places) = numbers.take_places(&draws)? {
            images = self.place(&images, &places)?;
        }
        let images = self.norm.apply(&images)?; // f32 [B, C, H, W]
        if let Some(holes) = &draws.holes {
            self.erase(&images, holes)?;
        }
        match numbers.take_mix(&draws)? {
            Some(mix) => self.mix(&images, &labels, &mix),
            None => Ok(Batch { images, targets: Targets::Hard(labels) }),
        }
    }

    /// images: u8 `[B, C, H, W]` -> f32 `[B, C, H, W]`, normalised and nothing else.
    ///
    /// # Errors
    /// When memory is short.
    pub fn eval(&self, images: &Tensor) -> Result<Tensor, DataError> {
        self.norm.apply(images)
    }

    fn device(&self) -> Device {
        self.norm.device()
    }
}

/// On a device a wrong index would end the whole process.
fn check(split: &Split, indices: &[i64]) -> Result<(), DataError> {
    let images = split.len() as i64;
    match indices.iter().find(|index| !(0..images).contains(*index)) {
        Some(index) => Err(DataError::Index { index: *index, images }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
