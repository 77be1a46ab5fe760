//! RandomResizedCrop: which part of an image a training step sees.

use reslab_config::{ConfigError, require};
use reslab_image::Region;
use reslab_torch::stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the parts of `RandomResizedCrop` come from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomResizedCrop {
    /// Smallest and largest share of the image's area.
    pub scale: [f64; 2],
    /// Smallest and largest width over height; its logarithm is uniform.
    pub ratio: [f64; 2],
}

/// How often a part that does not fit is drawn again.
const TRIES: usize = 10;

impl RandomResizedCrop {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let [low, high] = self.scale;
        require(low > 0.0 && low <= high && high <= 1.0, "data.random_resized_crop.scale", || {
            format!("must be two shares of an area, above 0, ascending, at most 1, but is [{low}, {high}]")
        })?;
        let [low, high] = self.ratio;
        require(low > 0.0 && low <= high && high.is_finite(), "data.random_resized_crop.ratio", || {
            format!("must be two ratios of width to height, above 0, ascending, but is [{low}, {high}]")
        })
    }

    /// The part of an image of (width, height) that sample `at` = (seed, step, sample) sees: torchvision's algorithm. A part of which
    /// ten draws do not fit is the largest in the centre whose ratio is allowed.
    pub(crate) fn draw(&self, (width, height): (u32, u32), at: (u64, u64, u64)) -> Region {
        let mut draw = stream(at.0, "augment/resized_crop", &[at.1, at.2]);
        let area = f64::from(width) * f64::from(height);
        let ratios = self.ratio.map(libm::log);
        for _ in 0..TRIES {
            let target = area * lerp(self.scale, draw.uniform());
            let ratio = libm::exp(lerp(ratios, draw.uniform()));
            let (w, h) = (round((target * ratio).sqrt()), round((target / ratio).sqrt()));
            if (1..=width).contains(&w) && (1..=height).contains(&h) {
                let top = draw.below(u64::from(height - h) + 1) as u32;
                let left = draw.below(u64::from(width - w) + 1) as u32;
                return Region { top, left, height: h, width: w };
            }
        }
        let own = f64::from(width) / f64::from(height);
        let (w, h) = match self.ratio {
            [low, _] if own < low => (width, round(f64::from(width) / low)),
            [_, high] if own > high => (round(f64::from(height) * high), height),
            _ => (width, height),
        };
        let (w, h) = (w.clamp(1, width), h.clamp(1, height));
        Region { top: (height - h) / 2, left: (width - w) / 2, height: h, width: w }
    }
}

/// The point at `share` of the way between two.
pub(crate) fn lerp([low, high]: [f64; 2], share: f64) -> f64 {
    low + (high - low) * share
}

/// As Python rounds: a half to the even neighbour.
pub(crate) fn round(value: f64) -> u32 {
    value.round_ties_even() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGENET: RandomResizedCrop = RandomResizedCrop { scale: [0.08, 1.0], ratio: [0.75, 4.0 / 3.0] };

    fn parts(crop: RandomResizedCrop, size: (u32, u32), n: u64) -> Vec<Region> {
        (0..n).map(|sample| crop.draw(size, (1, 2, sample))).collect()
    }

    fn fits(part: &Region, (width, height): (u32, u32)) -> bool {
        part.width > 0 && part.height > 0 && part.left + part.width <= width && part.top + part.height <= height
    }

    /// 20,000 parts of a square image, of which all ratios fit where the area is at most .75. Standard errors: of a uniform share
    /// .0775 / sqrt(n), as its standard deviation is width / sqrt(12); of the log ratio .166 / sqrt(n).
    #[test]
    fn areas_are_uniform_ratios_are_log_uniform_and_places_are_uniform() {
        let crop = RandomResizedCrop { scale: [0.1, 0.7], ..IMAGENET };
        let (n, side) = (20_000, 1_000);
        let parts = parts(crop, (side, side), n);
        assert!(parts.iter().all(|part| fits(part, (side, side))));
        let mean = |value: &dyn Fn(&Region) -> f64| parts.iter().map(value).sum::<f64>() / n as f64;
        let near = |found: f64, expected: f64, std: f64| (found - expected).abs() < 4.0 * std / (n as f64).sqrt();
        let area = |part: &Region| f64::from(part.width) * f64::from(part.height) / 1e6;
        let ratio = |part: &Region| (f64::from(part.width) / f64::from(part.height)).ln();
        assert!(near(mean(&area), 0.4, 0.6 / 12f64.sqrt()));
        assert!(near(mean(&ratio), 0.0, 2.0 * (4f64 / 3.0).ln() / 12f64.sqrt()));
        // The mean square tells a uniform one from others with the same mean; its own spread is below 1.
        assert!(near(mean(&|part| area(part).powi(2)), 0.16 + 0.36 / 12.0, 0.15));
        let left = |part: &Region| f64::from(part.left) / f64::from(side - part.width).max(1.0);
        assert!(near(mean(&left), 0.5, 1.0 / 12f64.sqrt()));
        let (low, high) = (area(parts.iter().min_by(|l, r| area(l).total_cmp(&area(r))).expect("parts")), mean(&area));
        assert!(low > 0.099 && low < 0.102, "{low}");
        assert!(!near(high + 0.01, 0.4, 0.6 / 12f64.sqrt()), "negative control: one percent more would be seen");
    }

    /// `torchvision.transforms.RandomResizedCrop.get_params` where no draw fits: the part in the centre with the nearest allowed ratio.
    #[test]
    fn an_image_that_no_part_fits_gives_its_centre() {
        let whole = RandomResizedCrop { scale: [1.0, 1.0], ..IMAGENET };
        assert_eq!(whole.draw((100, 10), (0, 0, 0)), Region { top: 0, left: 43, height: 10, width: 13 });
        assert_eq!(whole.draw((10, 100), (0, 0, 0)), Region { top: 43, left: 0, height: 13, width: 10 });
        for size in [(1, 1), (1, 500), (500, 1), (3, 2)] {
            assert!(parts(IMAGENET, size, 200).iter().all(|part| fits(part, size)), "{size:?}");
        }
    }

    #[test]
    fn a_part_is_a_function_of_seed_step_and_sample() {
        let at = |seed, step, sample| IMAGENET.draw((500, 400), (seed, step, sample));
        assert_eq!(at(1, 2, 3), at(1, 2, 3));
        assert!(at(1, 2, 3) != at(2, 2, 3) && at(1, 2, 3) != at(1, 3, 3) && at(1, 2, 3) != at(1, 2, 4));
    }
}
