//! Figures over several depths or data sets, as rliable defines them: interquartile mean and probability of improvement,
//! with percentile intervals of a stratified bootstrap.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::probability::probability_above;
use crate::stats::mean;

/// Resamples that an interval is made from.
pub const RESAMPLES: usize = 2000;

/// A figure with its 95 % bootstrap interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The figure of the values themselves.
    pub value: f64,
    /// The 2.5 % quantile over resamples.
    pub low: f64,
    /// The 97.5 % quantile.
    pub high: f64,
}

/// The mean of the middle half: a quarter of the values, rounded down, is left out at either end (SciPy's `trim_mean`).
/// `None` of no values.
pub fn interquartile_mean(values: &[f64]) -> Option<f64> {
    let mut rising = values.to_vec();
    rising.sort_by(f64::total_cmp);
    let cut = values.len() / 4;
    mean(&rising[cut..rising.len() - cut])
}

/// The interquartile mean of all values of all `strata` together; seeds are drawn again within each stratum. `None`
/// where a stratum is empty, or there is none.
pub fn interquartile_mean_over(strata: &[Vec<f64>], seed: u64) -> Option<Estimate> {
    if strata.is_empty() || strata.iter().any(Vec::is_empty) {
        return None;
    }
    estimate(seed, interquartile_mean(&strata.concat())?, |draw| {
        interquartile_mean(&strata.iter().flat_map(|values| draw.resample(values)).collect::<Vec<_>>())
    })
}

/// The probability that a run of the arm is above one of the baseline, a mean over strata; the seeds of both are drawn
/// again, independently of each other. `strata` holds the arm's and the baseline's values per stratum. `None` where one
/// is empty, or there is none.
pub fn improvement_over(strata: &[(Vec<f64>, Vec<f64>)], seed: u64) -> Option<Estimate> {
    let over = |pairs: &[(Vec<f64>, Vec<f64>)]| {
        mean(&pairs.iter().map(|(a, b)| probability_above(a, b)).collect::<Option<Vec<_>>>()?)
    };
    estimate(seed, over(strata)?, |draw| {
        over(&strata.iter().map(|(a, b)| (draw.resample(a), draw.resample(b))).collect::<Vec<_>>())
    })
}

fn estimate(seed: u64, value: f64, again: impl Fn(&mut Draw) -> Option<f64>) -> Option<Estimate> {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed));
    let mut values: Vec<f64> = (0..RESAMPLES).map(|_| again(&mut draw)).collect::<Option<_>>()?;
    values.sort_by(f64::total_cmp);
    Some(Estimate { value, low: percentile(&values, 0.025), high: percentile(&values, 0.975) })
}

/// Values drawn with replacement.
struct Draw(ChaCha8Rng);

impl Draw {
    fn resample(&mut self, values: &[f64]) -> Vec<f64> {
        let index = |random: u64| ((u128::from(random) * values.len() as u128) >> 64) as usize;
        values.iter().map(|_| values[index(self.0.next_u64())]).collect()
    }
}

/// The quantile of rising values, linear between two of them (numpy's default).
fn percentile(rising: &[f64], share: f64) -> f64 {
    let at = share * (rising.len() - 1) as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(rising.len() - 1);
    rising[below] + (rising[above] - rising[below]) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_close, comparisons, numbers};
    use serde_json::Value;

    fn lists(value: &Value) -> Vec<Vec<f64>> {
        value.as_array().unwrap().iter().map(numbers).collect()
    }

    fn number(value: &Value) -> f64 {
        value.as_f64().unwrap()
    }

    /// Against `scipy.stats.trim_mean` (tests/golden/make_comparisons.py).
    #[test]
    fn interquartile_means_are_scipys() {
        for case in comparisons()["interquartile_means"].as_array().unwrap() {
            assert_close(interquartile_mean(&numbers(&case["values"])).unwrap(), number(&case["iqm"]), 1e-14);
        }
        // By hand: of 1, 2, 3, 100 the middle two; one outlier moves the mean to 26.5, not this.
        assert_eq!(interquartile_mean(&[100.0, 2.0, 1.0, 3.0]), Some(2.5));
        assert_eq!(interquartile_mean(&[]), None);
    }

    /// Three strata of three seeds have 27^3 resamples; their exact quantiles are in the golden. Two thousand of them
    /// come near; drawn without strata they would not: low strata would take the place of high ones.
    #[test]
    fn an_interval_comes_near_that_of_all_resamples() {
        let case = &comparisons()["strata"];
        let strata = lists(&case["strata"]);
        let got = interquartile_mean_over(&strata, 0).unwrap();
        assert_close(got.value, number(&case["iqm"]), 1e-14);
        assert_close(got.low, number(&case["low"]), 0.002);
        assert_close(got.high, number(&case["high"]), 0.002);
        let pooled = interquartile_mean_over(&[strata.concat()], 0).unwrap();
        assert!(pooled.low < got.low - 0.05, "negative control: {pooled:?}");
    }

    /// Against Mann-Whitney's U of SciPy, and all 27^4 resamples of two tasks.
    #[test]
    fn the_probability_of_improvement_is_that_of_all_resamples() {
        let case = &comparisons()["improvement"];
        let strata: Vec<_> = lists(&case["arm"]).into_iter().zip(lists(&case["baseline"])).collect();
        let got = improvement_over(&strata, 0).unwrap();
        assert_close(got.value, number(&case["probability"]), 1e-14);
        assert_close(got.low, number(&case["low"]), 0.03);
        assert_close(got.high, number(&case["high"]), 0.03);
    }

    #[test]
    fn the_seed_decides_the_resamples() {
        let strata = lists(&comparisons()["strata"]["strata"]);
        let of = |seed| interquartile_mean_over(&strata, seed).unwrap();
        assert_eq!(of(1), of(1));
        assert!((0..5).any(|seed| of(seed) != of(5)));
    }

    #[test]
    fn edges_one_seed_all_equal_and_an_empty_stratum() {
        let same = Estimate { value: 0.5, low: 0.5, high: 0.5 };
        assert_eq!(interquartile_mean_over(&[vec![0.5]], 0), Some(same), "one seed has no spread to show");
        assert_eq!(interquartile_mean_over(&[vec![0.5; 3], vec![0.5; 2]], 0), Some(same));
        assert_eq!(interquartile_mean_over(&[vec![0.5], vec![]], 0), None);
        assert_eq!(interquartile_mean_over(&[], 0), None);
        assert_eq!(improvement_over(&[], 0), None);
        assert_eq!(improvement_over(&[(vec![0.1; 3], vec![0.1; 2])], 0).unwrap(), same, "all diverged: all ties");
        assert_eq!(improvement_over(&[(vec![0.1], vec![])], 0), None);
    }

    /// `numpy.percentile([0, 10, 20, 40], 25)` is 7.5.
    #[test]
    fn percentiles_are_linear_between_two_values() {
        assert_eq!(percentile(&[0.0, 10.0, 20.0, 40.0], 0.25), 7.5);
        assert_eq!(percentile(&[3.0], 0.975), 3.0);
    }
}
