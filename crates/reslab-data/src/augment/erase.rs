//! Random erasing: Zhong et al. 2017, arXiv:1708.04896, as timm's `RandomErasing` with one box per image.
//!
//! Noise comes from a bank that is drawn once per run: a box takes its pixels from a place in it that is drawn for the sample. So a box
//! holds independent normal numbers, and a step draws a handful of numbers and not a million.

use reslab_config::{ConfigError, require};
use reslab_torch::{Stream, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::Augment;
use crate::resized_crop::{lerp, round};
use crate::{DataConfig, DataError, DataShape, Switch};

/// Random erasing of normalised images.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomErasing {
    /// Of an image to lose a box.
    pub probability: f64,
    /// What is there afterwards.
    pub mode: EraseMode,
    /// Smallest and largest share of the image's area.
    pub area: [f64; 2],
    /// Smallest height over width; the largest is its inverse, and the logarithm is uniform.
    pub min_aspect: f64,
}

/// What is in a box that was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EraseMode {
    /// A standard normal number per pixel and channel.
    Pixel,
    /// 0: the mean colour.
    Const,
}

/// How often a box that does not fit is drawn again.
const TRIES: usize = 10;
/// Places in the bank of noise at which a box can begin.
const PLACES: u64 = 1 << 20;

/// What is erased of an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hole {
    pub(super) top: i64,
    pub(super) left: i64,
    pub(super) height: i64,
    pub(super) width: i64,
    /// Where its noise begins.
    pub(super) place: i64,
}

impl RandomErasing {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let key = |name: &str| format!("data.random_erasing.{name}");
        require((0.0..=1.0).contains(&self.probability), &key("probability"), || {
            format!("must be 0 to 1, but is {}", self.probability)
        })?;
        let [low, high] = self.area;
        require(low > 0.0 && low <= high && high <= 1.0, &key("area"), || {
            format!("must be two shares, above 0, ascending, at most 1, but is [{low}, {high}]")
        })?;
        require(self.min_aspect > 0.0 && self.min_aspect <= 1.0, &key("min_aspect"), || {
            format!("must be above 0 and at most 1, but is {}", self.min_aspect)
        })
    }

    /// The box of a sample; none, with 1 - probability, or where ten draws do not fit.
    pub(super) fn draw(&self, shape: &DataShape, draw: &mut Stream) -> Option<Hole> {
        if draw.uniform() >= self.probability {
            return None;
        }
        for _ in 0..TRIES {
            let (height, width) = self.sides(shape, [draw.uniform(), draw.uniform()]);
            if width < shape.width && height < shape.height {
                let mut below = |room: i64| draw.below(room as u64 + 1) as i64;
                let (top, left) = (below(shape.height - height), below(shape.width - width));
                return Some(Hole { top, left, height, width, place: draw.below(PLACES) as i64 });
            }
        }
        None
    }

    /// (height, width) of a box, from where two uniform numbers are between the smallest and the largest area, and aspect.
    pub(super) fn sides(&self, shape: &DataShape, [area, aspect]: [f64; 2]) -> (i64, i64) {
        let area = lerp(self.area, area) * (shape.height * shape.width) as f64;
        let aspects = [libm::log(self.min_aspect), -libm::log(self.min_aspect)];
        let aspect = libm::exp(lerp(aspects, aspect));
        (round((area * aspect).sqrt()).into(), round((area / aspect).sqrt()).into())
    }
}

/// The bank of noise: long enough for an image from each place.
pub(super) fn noise(config: &DataConfig, seed: u64, shape: &DataShape) -> Result<Tensor, DataError> {
    let mode = config.random_erasing.as_ref().and_then(Switch::on).map(|erasing| erasing.mode);
    let len = if mode == Some(EraseMode::Pixel) { PLACES + shape.image_bytes() as u64 } else { 0 };
    if len == 0 {
        return Ok(Tensor::f_zeros([0], (Kind::Float, tch::Device::Cpu))?);
    }
    let mut draw = stream(seed, "augment/erase_noise", &[]);
    let values: Vec<f32> = (0..len).map(|_| draw.normal() as f32).collect();
    Ok(Tensor::f_from_slice(&values)?)
}

impl Augment {
    /// images: f32 `[B, C, H, W]`, changed in place.
    pub(super) fn erase(&self, images: &Tensor, holes: &[Option<Hole>]) -> Result<(), DataError> {
        let channels = self.shape.channels;
        for (sample, hole) in (0..).zip(holes) {
            let Some(Hole { top, left, height, width, place }) = *hole else { continue };
            let mut erased = images.f_get(sample)?.f_narrow(1, top, height)?.f_narrow(2, left, width)?; // [C, h, w]
            let _in_place = if self.noise.numel() == 0 {
                erased.f_zero_()?
            } else {
                let noise = self.noise.f_narrow(0, place, channels * height * width)?;
                erased.f_copy_(&noise.f_view([channels, height, width])?)?;
                erased
            };
        }
        Ok(())
    }
}
