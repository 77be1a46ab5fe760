//! How far two computations of one run may lie apart by chance.
//!
//! Another rounding (other code, another machine) sends training down another path, and the end is at worst that of
//! another seed. So a difference of two runs has at most twice the variance that the arm has over its recorded seeds,
//! and twice that of the share of right answers among so many images.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::stats::{mean, standard_deviation};

/// Degrees of freedom that the other arms may lend to an arm's spread: their spreads are like its own, not the same.
const LENT: usize = 2;

/// The spread of a figure over the seeds of an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// Standard deviation.
    pub(crate) sd: f64,
    /// Degrees of freedom.
    pub(crate) freedom: usize,
}

impl Spread {
    /// Over seeds, as recorded and as computed anew: the smaller of the two, for one run that is far off must not hide
    /// itself in the spread that it makes. `None` of fewer than two.
    pub(crate) fn of(recorded: &[f64], anew: &[f64]) -> Option<Self> {
        let deviation = |values: &[f64]| standard_deviation(values, mean(values).unwrap_or_default());
        let n = recorded.len().min(anew.len());
        (n > 1).then(|| Self { sd: deviation(recorded).min(deviation(anew)), freedom: n - 1 })
    }

    /// What is to be reckoned with in an arm of spread `own`: no less than that of the median arm, since from two or
    /// three seeds a spread too often comes out far too small. `None` where no arm has one.
    pub(crate) fn among(own: Option<Self>, all: &[Self]) -> Option<Self> {
        let mut sds: Vec<f64> = all.iter().map(|spread| spread.sd).collect();
        sds.sort_by(f64::total_cmp);
        let middle = sds.len() / 2;
        let typical = match sds.len() {
            0 => return None,
            n if n.is_multiple_of(2) => (sds[middle - 1] + sds[middle]) / 2.0,
            _ => sds[middle],
        };
        let (sd, freedom) = own.map_or((0.0, 0), |own| (own.sd, own.freedom));
        let together: usize = all.iter().map(|spread| spread.freedom).sum();
        Some(Self { sd: sd.max(typical), freedom: together.min(freedom + LENT) })
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
    two_sided(difference, (variance / n as f64).sqrt(), spread.map(|spread| spread.freedom))
}

/// The two-sided p of a paired t test: whether `differences` agree on another value than 0. `None` of fewer than three.
/// Their deviation counts as at least `resolution`, the smallest step of the figure: three runs that happen to gain
/// one right answer each agree on nothing.
pub(crate) fn paired(differences: &[f64], resolution: f64) -> Option<f64> {
    let n = differences.len();
    let mean = mean(differences).filter(|_| n > 2)?;
    let deviation = standard_deviation(differences, mean).max(resolution);
    two_sided(mean, deviation / (n as f64).sqrt(), Some(n - 1))
}

/// Of Student's t, or of the normal distribution where the error is known and not estimated. `None` where the two are no
/// figures, or too large for a quotient to be one.
fn two_sided(difference: f64, error: f64, freedom: Option<usize>) -> Option<f64> {
    if difference == 0.0 {
        return Some(1.0);
    }
    let below = -(difference / error).abs();
    if below.is_nan() {
        return None;
    }
    Some(
        2.0 * match freedom {
            Some(freedom) => {
                StudentsT::new(0.0, 1.0, freedom as f64).expect("at least one degree of freedom").cdf(below)
            }
            None => Normal::standard().cdf(below),
        },
    )
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
        let all = [[1.0, 3.0], [5.0, 9.0], [2.0, 2.0]].map(|values| Spread::of(&values, &values).unwrap());
        let among = |own: Option<usize>| Spread::among(own.map(|index| all[index]), &all).unwrap();
        assert_close(among(Some(0)).sd, 2_f64.sqrt(), 1e-15);
        assert_close(among(Some(1)).sd, 8_f64.sqrt(), 1e-15);
        assert_close(among(Some(2)).sd, 2_f64.sqrt(), 1e-15);
        assert_close(among(None).sd, 2_f64.sqrt(), 1e-15);
        assert_eq!([among(Some(0)).freedom, among(None).freedom], [3, 2], "1 + 2, 0 + 2");
        assert_eq!(Spread::among(Some(all[0]), &all[..1]).unwrap().freedom, 1, "no more than there are");
        assert_eq!(Spread::among(None, &[]), None);
    }

    /// 1, 2, 3 has the deviation 1, and 1, 2, 99 one of 56.
    #[test]
    fn a_run_that_is_far_off_does_not_hide_in_the_spread_that_it_makes() {
        let (near, far) = ([1.0, 2.0, 3.0], [1.0, 2.0, 99.0]);
        assert_eq!(Spread::of(&near, &far), Some(Spread { sd: 1.0, freedom: 2 }));
        assert_eq!(Spread::of(&far, &near), Some(Spread { sd: 1.0, freedom: 2 }));
        assert!(Spread::of(&far, &far).unwrap().sd > 50.0, "negative control");
        assert_eq!(Spread::of(&[1.0], &[1.0]), None);
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
