//! How far two computations of one run may lie apart by chance.
//!
//! Another rounding (other code, another machine) sends training down another path, and the end is at worst that of
//! another seed. So a difference of two runs has at most twice the variance that the arm has over its recorded seeds,
//! and twice that of the share of right answers among so many images.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::stats::{mean, standard_deviation};

/// Degrees of freedom that the other arms may lend to an arm's spread: their spreads are like its own, not the same.
const LENT: usize = 3;

/// The spread of a figure over the seeds of an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// Standard deviation: the arm's own or that of the median arm, whichever is larger. From two or three seeds it
    /// would too often come out far too small.
    pub(crate) sd: f64,
    /// Degrees of freedom of its t distribution.
    pub(crate) freedom: usize,
}

impl Spread {
    /// Of an arm with the values `own`; `all` are those of every arm, itself among them. `None` where no arm has two.
    pub(crate) fn of(own: &[f64], all: &[Vec<f64>]) -> Option<Self> {
        let deviation = |values: &[f64]| standard_deviation(values, mean(values).unwrap_or_default());
        let mut spreads: Vec<f64> = all.iter().filter(|values| values.len() > 1).map(|v| deviation(v)).collect();
        spreads.sort_by(f64::total_cmp);
        let middle = spreads.len() / 2;
        let typical = match spreads.len() {
            0 => return None,
            n if n.is_multiple_of(2) => (spreads[middle - 1] + spreads[middle]) / 2.0,
            _ => spreads[middle],
        };
        let own_freedom = own.len().saturating_sub(1);
        let known = if own_freedom > 0 { deviation(own) } else { 0.0 };
        let together: usize = all.iter().map(|values| values.len().saturating_sub(1)).sum();
        Some(Self { sd: known.max(typical), freedom: together.min(own_freedom + LENT) })
    }
}

/// Twice the variance of a share of right answers of about `share` among `images`.
pub(crate) fn sampling_noise(share: f64, images: u64) -> f64 {
    2.0 * share * (1.0 - share) / images as f64
}

/// The two-sided p of a mean `difference` over `n` pairs, by chance alone; `None` where nothing is known of chance.
pub(crate) fn by_chance(difference: f64, n: usize, spread: Option<Spread>, noise: Option<f64>) -> Option<f64> {
    let variance = match (spread, noise) {
        (None, None) => return None,
        _ => spread.map_or(0.0, |spread| 2.0 * spread.sd * spread.sd) + noise.unwrap_or(0.0),
    };
    Some(two_sided(difference, (variance / n as f64).sqrt(), spread.map(|spread| spread.freedom)))
}

/// The two-sided p of a paired t test: whether `differences` agree on another value than 0. `None` of fewer than three.
/// Their deviation counts as at least `resolution`, the smallest step of the figure: three runs that happen to gain
/// one right answer each agree on nothing.
pub(crate) fn paired(differences: &[f64], resolution: f64) -> Option<f64> {
    let n = differences.len();
    let mean = mean(differences).filter(|_| n > 2)?;
    let deviation = standard_deviation(differences, mean).max(resolution);
    Some(two_sided(mean, deviation / (n as f64).sqrt(), Some(n - 1)))
}

/// Of Student's t, or of the normal distribution where the error is known and not estimated.
fn two_sided(difference: f64, error: f64, freedom: Option<usize>) -> f64 {
    if difference == 0.0 {
        return 1.0;
    }
    let below = -(difference / error).abs();
    2.0 * match freedom {
        Some(freedom) => StudentsT::new(0.0, 1.0, freedom as f64).expect("at least one degree of freedom").cdf(below),
        None => Normal::standard().cdf(below),
    }
}

/// Holm's adjustment: with it, all of the p together are at most as often too small as one alone.
pub(crate) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[index]).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_close, golden, numbers};

    /// Against `scipy.stats.t.sf` and `norm.sf` (tests/golden/make_golden.py).
    #[test]
    fn chances_are_scipys() {
        for case in golden()["chance"].as_array().unwrap() {
            let number = |key: &str| case[key].as_f64().unwrap();
            let spread = case["freedom"].as_u64().map(|freedom| Spread { sd: number("sd"), freedom: freedom as usize });
            let n = number("n") as usize;
            let p = by_chance(number("difference"), n, spread, Some(number("noise"))).unwrap();
            assert_close(p, number("p"), 1e-10);
        }
    }

    /// Against `scipy.stats.ttest_1samp`.
    #[test]
    fn paired_p_are_scipys_and_equal_steps_agree_on_nothing() {
        for case in golden()["paired_p"].as_array().unwrap() {
            assert_close(paired(&numbers(&case[0]), 0.0).unwrap(), case[1].as_f64().unwrap(), 1e-10);
        }
        assert_eq!(paired(&[0.1, 0.1], 0.0), None);
        assert!(paired(&[0.25, 0.25, 0.25], 0.0).unwrap() < 1e-9, "without a resolution");
        assert!(paired(&[0.25, 0.25, 0.25], 0.25).unwrap() > 0.2);
    }

    /// By hand: deviations of 1, 3 and 5, 9 and 2, 2 are sqrt 2, 2 sqrt 2 and 0; their median is sqrt 2.
    #[test]
    fn a_spread_is_the_larger_of_the_arms_own_and_the_median_arms() {
        let all = [vec![1.0, 3.0], vec![5.0, 9.0], vec![2.0, 2.0], vec![7.0]];
        let of = |index: usize| Spread::of(&all[index], &all).unwrap();
        assert_close(of(0).sd, 2_f64.sqrt(), 1e-15);
        assert_close(of(1).sd, 8_f64.sqrt(), 1e-15);
        assert_close(of(2).sd, 2_f64.sqrt(), 1e-15);
        assert_close(of(3).sd, 2_f64.sqrt(), 1e-15);
        assert_eq!([of(0).freedom, of(3).freedom], [3, 3], "1 + 1 + 1, and no more");
        let many: Vec<Vec<f64>> = (0..9).map(|_| vec![1.0, 3.0]).collect();
        assert_eq!(Spread::of(&many[0], &many).unwrap().freedom, 1 + LENT);
        assert_eq!(Spread::of(&[1.0], &[vec![1.0]]), None);
    }

    /// By hand: sorted .01, .02, .03, .9 times 4, 3, 2, 1 are .04, .06, .06, .9.
    #[test]
    fn holm_by_hand() {
        let got = holm(&[0.03, 0.01, 0.9, 0.02]);
        for (got, want) in got.iter().zip([0.06, 0.04, 0.9, 0.06]) {
            assert_close(*got, want, 1e-15);
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0], "never above 1");
        assert_eq!(holm(&[]), [0.0; 0]);
    }

    #[test]
    fn nothing_is_said_where_nothing_is_known_of_chance() {
        assert_eq!(by_chance(0.1, 1, None, None), None);
        assert_eq!(by_chance(0.0, 1, None, Some(0.0)), Some(1.0));
        assert_eq!(by_chance(0.1, 1, None, Some(0.0)), Some(0.0));
        // Of 10,000 images a quarter: 2 * .25 * .75 / 10000.
        assert_close(sampling_noise(0.25, 10_000), 3.75e-5, 1e-18);
    }
}
