//! How many seeds would tell two arms apart: the power of the paired t test, by the noncentral t distribution.

use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::gamma::ln_gamma;

use crate::stats::t_quantile;

/// The power that is asked for.
pub const POWER: f64 = 0.8;
/// More seeds than this are not looked for.
pub const MOST_SEEDS: usize = 1_000_000;
/// Intervals of the integral: with them power agrees with SciPy's noncentral t to 1e-9.
const INTERVALS: u32 = 4000;

/// The fewest pairs with which a two-sided paired t test at .05 finds a mean difference `mean` among differences of
/// standard deviation `sd` with a probability of [`POWER`]; `None` where the mean is 0, one of the two is not a number,
/// or more than [`MOST_SEEDS`] are needed. At least 2, which is what equal differences need.
pub fn seeds_to_tell(mean: f64, sd: f64) -> Option<usize> {
    let effect = mean.abs() / sd;
    if mean == 0.0 || effect.is_nan() {
        return None;
    }
    let is_enough = |n: usize| power(effect, n) >= POWER;
    let mut most = 2;
    while !is_enough(most) {
        if most >= MOST_SEEDS {
            return None;
        }
        most = (2 * most).min(MOST_SEEDS);
    }
    let mut least = most / 2;
    while most - least > 1 {
        let middle = usize::midpoint(least, most);
        if is_enough(middle) { most = middle } else { least = middle }
    }
    Some(most)
}

/// The power of a two-sided paired t test at .05 with `n` >= 2 pairs: P(|T| > t) of the noncentral T with n - 1 degrees of
/// freedom, for a mean of `effect` standard deviations. T is (Z + effect sqrt(n)) / S, and the integral is over S.
fn power(effect: f64, n: usize) -> f64 {
    if effect.is_infinite() {
        return 1.0;
    }
    let freedom = (n - 1) as f64;
    let (shift, limit) = (effect * (n as f64).sqrt(), t_quantile(n - 1));
    let normal = Normal::standard();
    let half = freedom / 2.0;
    let constant = std::f64::consts::LN_2 + half * half.ln() - ln_gamma(half);
    let density = |s: f64| {
        let power = if freedom > 1.0 { (freedom - 1.0) * s.ln() } else { 0.0 };
        (constant + power - half * s * s).exp()
    };
    let beyond = |s: f64| normal.cdf(shift - limit * s) + normal.cdf(-shift - limit * s);
    // S has mean about 1 and standard deviation about 1 / sqrt(2 freedom).
    let reach = 12.0 / (2.0 * freedom).sqrt();
    let (low, high) = ((1.0 - reach).max(0.0), 1.0 + reach);
    simpson(|s| density(s) * beyond(s), low, high).min(1.0)
}

fn simpson(f: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    let step = (high - low) / f64::from(INTERVALS);
    let weight = |index: u32| match index {
        0 | INTERVALS => 1.0,
        odd if odd % 2 == 1 => 4.0,
        _ => 2.0,
    };
    (0..=INTERVALS).map(|i| weight(i) * f(low + step * f64::from(i))).sum::<f64>() * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_close, comparisons, numbers};

    /// Against `scipy.stats.nct` (tests/golden/make_comparisons.py).
    #[test]
    fn power_is_scipys() {
        for case in comparisons()["power"].as_array().unwrap() {
            let [effect, n, want] = numbers(case)[..] else { panic!() };
            assert_close(power(effect, n as usize), want, 1e-8);
        }
    }

    /// Against a search with `scipy.stats.nct`; the normal approximation, (1.96 + .84)^2 / effect^2, is one to two short.
    #[test]
    fn seeds_are_those_of_scipys_power() {
        for case in comparisons()["seeds"].as_array().unwrap() {
            let [effect, want] = numbers(case)[..] else { panic!() };
            assert_eq!(seeds_to_tell(-effect, 1.0), Some(want as usize), "effect {effect}");
            let normal = ((1.959_964 + 0.841_621) / effect).powi(2).ceil();
            assert!(normal < want, "negative control: {normal} {want}");
        }
    }

    #[test]
    fn edges_equal_differences_no_difference_and_too_many() {
        assert_eq!(seeds_to_tell(0.1, 0.0), Some(2), "differences that are all equal");
        assert_eq!(seeds_to_tell(0.0, 0.0), None);
        assert_eq!(seeds_to_tell(0.0, 0.1), None);
        assert_eq!(seeds_to_tell(f64::NAN, 0.1), None);
        assert_eq!(seeds_to_tell(1e-9, 1.0), None);
        assert_close(power(0.0, 5), 0.05, 1e-9);
    }
}
