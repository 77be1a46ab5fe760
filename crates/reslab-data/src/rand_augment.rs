//! RandAugment: which operations a training image goes through.

use reslab_config::{ConfigError, require};
use reslab_image::{MAX_MAGNITUDE, Op, Rgb, Strength};
use reslab_torch::stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// RandAugment as timm defines it; its `rand-m9-n2-mstd0.5-inc1` is `{ ops = 2, magnitude = 9, magnitude_std = .5, probability = .5,
/// increasing = true }`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandAugment {
    /// Operations per image, drawn from 15 with repetition.
    pub ops: u32,
    /// Strength, 0 to 10.
    pub magnitude: f64,
    /// Standard deviation of the strength around it, cut at 0 and 10. 0: always the same.
    pub magnitude_std: f64,
    /// With which each operation is really done.
    pub probability: f64,
    /// Whether all operations change more with a larger magnitude.
    pub increasing: bool,
}

impl RandAugment {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let key = |name: &str| format!("data.rand_augment.{name}");
        require((1..=16).contains(&self.ops), &key("ops"), || format!("must be 1 to 16, but is {}", self.ops))?;
        require((0.0..=MAX_MAGNITUDE).contains(&self.magnitude), &key("magnitude"), || {
            format!("must be 0 to {MAX_MAGNITUDE}, but is {}", self.magnitude)
        })?;
        require(self.magnitude_std.is_finite() && self.magnitude_std >= 0.0, &key("magnitude_std"), || {
            format!("must be finite and at least 0, but is {}", self.magnitude_std)
        })?;
        require((0.0..=1.0).contains(&self.probability), &key("probability"), || {
            format!("must be 0 to 1, but is {}", self.probability)
        })
    }

    /// The operations of sample `at` = (seed, step, sample). All numbers are drawn, also those that come to nothing.
    fn draw(&self, at: (u64, u64, u64)) -> impl Iterator<Item = Op> {
        let mut draw = stream(at.0, "augment/rand_augment", &[at.1, at.2]);
        let Self { ops, magnitude, magnitude_std, probability, increasing } = *self;
        (0..ops).filter_map(move |_| {
            let number = draw.below(Op::COUNT as u64) as usize;
            let is_done = draw.uniform() < probability;
            let magnitude = (magnitude + magnitude_std * draw.normal()).clamp(0.0, MAX_MAGNITUDE);
            let negative = draw.below(2) == 1;
            is_done.then(|| Op::of(number, Strength { magnitude, negative, increasing }))
        })
    }

    /// The image after the operations of its sample; `fill` comes in from outside.
    pub(crate) fn alter(&self, image: Rgb, fill: [u8; 3], at: (u64, u64, u64)) -> Rgb {
        self.draw(at).fold(image, |image, op| image.altered(op, fill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: RandAugment =
        RandAugment { ops: 2, magnitude: 9.0, magnitude_std: 0.5, probability: 0.5, increasing: true };

    /// 8,000 samples of 3 operations: 4 standard errors.
    #[test]
    fn operations_are_uniform_and_done_as_often_as_asked() {
        let (samples, augment) = (8_000, RandAugment { ops: 3, ..USUAL });
        let mut counts = [0u32; Op::COUNT];
        let mut tilts = Vec::new();
        for sample in 0..samples {
            for op in augment.draw((5, 6, sample)) {
                let of = |number| {
                    std::mem::discriminant(&Op::of(
                        number,
                        Strength { magnitude: 5.0, negative: false, increasing: true },
                    ))
                };
                counts[(0..Op::COUNT).find(|number| of(*number) == std::mem::discriminant(&op)).expect("known")] += 1;
                if let Op::Rotate(degrees) = op {
                    tilts.push(degrees);
                }
            }
        }
        let n = f64::from(augment.ops) * samples as f64;
        let near = |count: f64, p: f64| (count - n * p).abs() < 4.0 * (n * p * (1.0 - p)).sqrt();
        assert!(counts.iter().all(|count| near(f64::from(*count), 0.5 / 15.0)), "{counts:?}");
        assert!(!near(n * 0.6 / 15.0, 0.5 / 15.0), "negative control");
        // 27 degrees, give or take 1.5, to both sides, and never above 30.
        let (m, abs) = (tilts.len() as f64, tilts.iter().map(|tilt| tilt.abs()).collect::<Vec<_>>());
        let mean = abs.iter().sum::<f64>() / m;
        assert!((mean - 27.0).abs() < 4.0 * 1.5 / m.sqrt() + 0.05, "{mean}"); // .05: what the cut at 30 takes
        assert!(abs.iter().all(|tilt| *tilt <= 30.0) && abs.contains(&30.0));
        let left = tilts.iter().filter(|tilt| **tilt > 0.0).count() as f64;
        assert!((left - m / 2.0).abs() < 2.0 * m.sqrt(), "{left} of {m}");
    }

    #[test]
    fn operations_are_a_function_of_seed_step_and_sample() {
        let ops = |seed, step, sample| USUAL.draw((seed, step, sample)).collect::<Vec<_>>();
        let all = |seed, step| (0..20).map(|sample| ops(seed, step, sample)).collect::<Vec<_>>();
        assert_eq!(all(1, 2), all(1, 2));
        assert!(all(1, 2) != all(2, 2) && all(1, 2) != all(1, 3) && ops(1, 2, 0) != ops(1, 2, 1));
        let off = RandAugment { probability: 0.0, ..USUAL };
        let image = Rgb::new(2, 1, vec![1, 2, 3, 4, 5, 6]);
        assert_eq!(off.alter(image.clone(), [0; 3], (1, 2, 3)), image);
    }
}
