//! The random numbers of a step's augmentation, drawn on the host and uploaded together.
//!
//! Streams, all at position `[step]` and of the run's seed: "augment/crop" (row and column offset of each sample in turn), "augment/flip" (one
//! draw per sample), "augment/mix" (which of the two, lam, partners, box). One stream per kind, so that turning one on changes no
//! draw of another. "augment/erase" has a stream for each sample, at `[step, sample]`, as the number of its draws varies.

use reslab_torch::stream;
use tch::{Device, Kind, Tensor};

use super::erase::{Hole, RandomErasing};
use crate::{DataConfig, DataError, DataShape, Switch};

/// What a batch was dealt; absent where the config turns it off.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draws {
    /// Offsets in the padded image: all rows', then all columns', each in 0..=2 * crop_pad.
    pub(super) offsets: Option<Vec<i64>>,
    /// 1 where the sample is mirrored.
    pub(super) flips: Option<Vec<i64>>,
    /// What is erased of each sample, if anything.
    pub(super) holes: Option<Vec<Option<Hole>>>,
    pub(super) mix: Option<Mix>,
}

/// How two images become one: of weight `inside` in the box and `outside` around it is the sample, the rest is its partner.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mix {
    /// A permutation of the batch.
    pub(super) partners: Vec<i64>,
    /// Rows from..to, columns from..to.
    pub(super) region: [i64; 4],
    pub(super) inside: f64,
    pub(super) outside: f64,
    /// The sample's share of the pixels: lam, corrected for a box that the border cuts.
    pub(super) share: f64,
}

impl Draws {
    pub(super) fn of(config: &DataConfig, shape: &DataShape, at: (u64, u64), batch: usize) -> Self {
        let (seed, step) = at;
        let open = |purpose: &str| stream(seed, purpose, &[step]);
        let pad = u64::from(config.crop_pad);
        let offsets = (pad > 0).then(|| {
            let mut crop = open("augment/crop");
            let pairs: Vec<_> = (0..batch).map(|_| (crop.below(2 * pad + 1), crop.below(2 * pad + 1))).collect();
            pairs.iter().map(|pair| pair.0 as i64).chain(pairs.iter().map(|pair| pair.1 as i64)).collect()
        });
        let flips = config.flip.then(|| {
            let mut flip = open("augment/flip");
            (0..batch).map(|_| flip.below(2) as i64).collect()
        });
        let erasing = config.random_erasing.as_ref().and_then(Switch::on);
        let hole =
            |erasing: &RandomErasing, sample| erasing.draw(shape, &mut stream(seed, "augment/erase", &[step, sample]));
        let holes = erasing.map(|erasing| (0..batch as u64).map(|sample| hole(erasing, sample)).collect());
        Self { offsets, flips, holes, mix: Mix::of(config, shape, &mut open("augment/mix"), batch) }
    }
}

impl Mix {
    /// lam is from Beta(alpha, alpha); the box is that of the CutMix paper (Yun et al. 2019, arXiv:1905.04899) in timm's rounding: sides
    /// floor(side * sqrt(1 - lam)) around a uniform centre, cut at the border.
    fn of(config: &DataConfig, shape: &DataShape, draw: &mut reslab_torch::Stream, batch: usize) -> Option<Self> {
        if config.mixup == 0.0 && config.cutmix == 0.0 {
            return None;
        }
        let second = draw.uniform() < 0.5; // drawn always: the other draws stay in place
        let is_cutmix = config.cutmix > 0.0 && (second || config.mixup == 0.0);
        let alpha = if is_cutmix { config.cutmix } else { config.mixup };
        let lam = draw.beta(alpha, alpha);
        let partners = draw.permutation(batch);
        if !is_cutmix {
            return Some(Self { partners, region: [0; 4], inside: lam, outside: lam, share: lam });
        }
        let centre = (draw.below(shape.height as u64) as i64, draw.below(shape.width as u64) as i64);
        let region = cut(shape, lam, centre);
        let area = (region[1] - region[0]) * (region[3] - region[2]);
        let share = 1.0 - area as f64 / (shape.height * shape.width) as f64;
        Some(Self { partners, region, inside: 0.0, outside: 1.0, share })
    }
}

/// The rows and columns of a box of area 1 - lam around `centre` (row, column), cut at the border.
pub(super) fn cut(shape: &DataShape, lam: f64, centre: (i64, i64)) -> [i64; 4] {
    let ratio = (1.0 - lam).sqrt();
    let side = |length: i64, centre: i64| {
        let cut = (length as f64 * ratio) as i64;
        [(centre - cut / 2).clamp(0, length), (centre + (cut + 1) / 2).clamp(0, length)]
    };
    let ([top, bottom], [left, right]) = (side(shape.height, centre.0), side(shape.width, centre.1));
    [top, bottom, left, right]
}

/// A step's numbers on the device, taken from the front in the order in which they were packed.
#[derive(Debug)]
pub(super) struct Numbers {
    /// i64, one dimension.
    all: Tensor,
    taken: i64,
}

/// Where each sample is cut from its padded image: i64 `[B]` each.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) rows: Option<Tensor>,
    pub(super) columns: Option<Tensor>,
    pub(super) flips: Option<Tensor>,
}

/// [`Mix`] on the device.
#[derive(Debug)]
pub(super) struct DeviceMix {
    /// i64 `[B]`.
    pub(super) partners: Tensor,
    /// i64 `[4]`.
    pub(super) region: Tensor,
    /// inside, outside, share: f32 `[3]`.
    pub(super) weights: Tensor,
}

impl Numbers {
    /// Packs and copies: indices, offsets, flips, partners, box, weights (as the bits of f64, which an i64 holds).
    pub(super) fn upload(indices: &[i64], draws: &Draws, device: Device) -> Result<Self, DataError> {
        let mut packed = indices.to_vec();
        packed.extend(draws.offsets.iter().flatten());
        packed.extend(draws.flips.iter().flatten());
        if let Some(mix) = &draws.mix {
            packed.extend(&mix.partners);
            packed.extend(mix.region);
            packed.extend([mix.inside, mix.outside, mix.share].map(|weight| weight.to_bits() as i64));
        }
        Ok(Self { all: Tensor::f_from_slice(&packed)?.f_to_device(device)?, taken: 0 })
    }

    /// The next `len` numbers.
    pub(super) fn take(&mut self, len: usize) -> Result<Tensor, DataError> {
        let taken = self.all.f_narrow(0, self.taken, len as i64)?;
        self.taken += len as i64;
        Ok(taken)
    }

    /// None where no sample moves.
    pub(super) fn take_places(&mut self, draws: &Draws) -> Result<Option<Places>, DataError> {
        let mut places = Places { rows: None, columns: None, flips: None };
        if let Some(offsets) = &draws.offsets {
            places.rows = Some(self.take(offsets.len() / 2)?);
            places.columns = Some(self.take(offsets.len() / 2)?);
        }
        if let Some(flips) = &draws.flips {
            places.flips = Some(self.take(flips.len())?);
        }
        Ok((places.rows.is_some() || places.flips.is_some()).then_some(places))
    }

    pub(super) fn take_mix(&mut self, draws: &Draws) -> Result<Option<DeviceMix>, DataError> {
        let Some(mix) = &draws.mix else { return Ok(None) };
        Ok(Some(DeviceMix {
            partners: self.take(mix.partners.len())?,
            region: self.take(4)?,
            weights: self.take(3)?.f_view_dtype(Kind::Double)?.f_to_kind(Kind::Float)?,
        }))
    }
}
