//! The table `[drop_path]`.

use reslab_config::{ConfigError, parse, require};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The table `drop_path`: how often a branch is left out during training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropPathConfig {
    /// Probability that a sample skips a branch, in [0, 1): 1 - keep_prob. 0: none.
    pub rate: f64,
    /// Rate over the blocks: the same everywhere, or growing from 0 at the first block to `rate` at the last.
    pub schedule: Schedule,
    /// What is dropped: a mask per sample, a subset of the batch that alone is computed, or the join as a whole.
    pub mode: DropMode,
}

/// The rate over the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// `rate` at every block (CaiT, DeiT III, DINOv2).
    Uniform,
    /// From 0 at the first block to `rate` at the last, both included (timm): the mean is rate / 2.
    Linear,
}

/// What is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DropMode {
    /// Each sample on its own, scaled by 1 / keep_prob (timm). Saves no work.
    Sample,
    /// Exactly s = max(floor(B (1 - rate)), 1) samples are kept and computed, scaled by B / s (DINOv2).
    Subset,
    /// The whole batch at once, one draw per join, scaled by 1 / keep_prob (Huang et al. 2016).
    Batch,
}

impl DropPathConfig {
    /// No drop path: what an arm without the table has.
    pub fn none() -> DropPathConfig {
        DropPathConfig { rate: 0.0, schedule: Schedule::Uniform, mode: DropMode::Sample }
    }

    /// Parses the table `drop_path`.
    ///
    /// # Errors
    /// Names the key.
    pub fn parse(table: &toml::Table) -> Result<DropPathConfig, ConfigError> {
        let config: DropPathConfig = parse("drop_path", table)?;
        require((0.0..1.0).contains(&config.rate), "drop_path.rate", || {
            format!("must be at least 0 and below 1, but is {}", config.rate)
        })?;
        Ok(config)
    }

    /// The rate at one block of a network of `depth` blocks.
    pub fn rate_at(&self, block: usize, depth: usize) -> f64 {
        match self.schedule {
            Schedule::Uniform => self.rate,
            Schedule::Linear if depth < 2 => 0.0,
            Schedule::Linear => self.rate * block as f64 / (depth - 1) as f64,
        }
    }

    /// The share of branch evaluations that are really left out, on average over joins and steps: what `subset` rounds.
    pub fn effective_rate(&self, depth: usize, batch: i64) -> f64 {
        let rates = (0..depth).map(|block| match (self.mode, self.rate_at(block, depth)) {
            (DropMode::Subset, rate) if rate > 0.0 => 1.0 - subset_size(batch, rate) as f64 / batch as f64,
            (_, rate) => rate,
        });
        rates.sum::<f64>() / depth as f64
    }
}

/// How many of `batch` samples `subset` keeps: max(floor(batch (1 - rate)), 1) as with exact decimals.
///
/// In floating point 10 * (1 - 0.8) is 1.9999999999999996; 1e-9 of a sample is far above such rounding and far below
/// any rate that a file could mean.
pub fn subset_size(batch: i64, rate: f64) -> i64 {
    ((batch as f64 * (1.0 - rate) + 1e-9).floor() as i64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<DropPathConfig, ConfigError> {
        DropPathConfig::parse(&text.parse().unwrap())
    }

    #[test]
    fn subset_sizes_are_those_of_exact_decimals() {
        for (batch, rate, kept) in [(10, 0.8, 2), (64, 0.3, 44), (64, 0.4, 38), (32, 0.15, 27), (8, 0.1, 7)] {
            assert_eq!(subset_size(batch, rate), kept, "batch {batch}, rate {rate}");
        }
        assert_eq!(subset_size(10, 0.9), 1);
        assert_eq!(subset_size(4, 0.99), 1, "one sample is always kept");
    }

    #[test]
    fn subset_sizes_equal_integer_arithmetic_for_every_rate_in_percent() {
        for batch in 1..300 {
            for percent in 0..100 {
                let exact = (batch * (100 - percent) / 100).max(1);
                assert_eq!(subset_size(batch, percent as f64 / 100.0), exact, "batch {batch}, {percent} %");
            }
        }
    }

    #[test]
    fn a_rate_outside_zero_to_one_is_refused() {
        for rate in ["1.0", "-0.1", "nan"] {
            let error = config(&format!("rate = {rate}\nschedule = 'uniform'\nmode = 'sample'")).unwrap_err();
            assert_eq!(error.key, "drop_path.rate");
        }
        assert!(config("rate = 0.0\nschedule = 'uniform'\nmode = 'sample'").is_ok());
        assert_eq!(config("rate = 0.1\nschedule = 'uniform'").unwrap_err().key, "drop_path.mode");
        assert!(config("rate = 0.1\nschedule = 'liner'\nmode = 'sample'").unwrap_err().problem.contains("linear"));
    }

    #[test]
    fn the_linear_schedule_includes_both_ends() {
        let linear = config("rate = 0.2\nschedule = 'linear'\nmode = 'sample'").unwrap();
        assert_eq!((linear.rate_at(0, 5), linear.rate_at(4, 5)), (0.0, 0.2));
        assert!((linear.effective_rate(5, 64) - 0.1).abs() < 1e-12);
        assert_eq!(linear.rate_at(0, 1), 0.0);
        let uniform = config("rate = 0.2\nschedule = 'uniform'\nmode = 'sample'").unwrap();
        assert_eq!((uniform.rate_at(0, 5), uniform.rate_at(4, 5)), (0.2, 0.2));
    }

    #[test]
    fn the_effective_rate_of_a_subset_is_what_is_really_dropped() {
        let subset = config("rate = 0.3\nschedule = 'uniform'\nmode = 'subset'").unwrap();
        assert_eq!(subset.effective_rate(12, 64), 0.3125);
    }
}
