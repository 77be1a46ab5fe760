//! Two arms whose runs can't be paired: Welch's t test, which lets their spreads differ.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::stats::{Interval, Summary, mean, standard_deviation};

/// The difference of the means b - a with its 95 % interval, and its two-sided p. As everywhere, there is no interval, and
/// then no p, where a run diverged or a side has a single value; nor where neither side has any spread. `None` where a side
/// has no value.
pub fn welch(b: &[f64], a: &[f64], diverged: usize) -> Option<(Summary, Option<f64>)> {
    let (mean_b, mean_a) = (mean(b)?, mean(a)?);
    let difference = mean_b - mean_a;
    let bare =
        Summary { n: a.len() + b.len(), diverged, mean: difference, interval: Interval::None, low: None, high: None };
    if diverged > 0 || a.len().min(b.len()) < 2 {
        return Some((bare, None));
    }
    let part = |values: &[f64], mean: f64| standard_deviation(values, mean).powi(2) / values.len() as f64;
    let (part_b, part_a) = (part(b, mean_b), part(a, mean_a));
    let variance = part_b + part_a;
    let freedom =
        variance * variance / (part_b * part_b / (b.len() - 1) as f64 + part_a * part_a / (a.len() - 1) as f64);
    let t = (difference / variance.sqrt()).abs();
    let (true, Ok(student)) = (t.is_finite() && freedom.is_finite(), StudentsT::new(0.0, 1.0, freedom)) else {
        return Some((bare, None));
    };
    let half = student.inverse_cdf(0.975) * variance.sqrt();
    let ends = Summary { interval: Interval::T95, low: Some(difference - half), high: Some(difference + half), ..bare };
    Some((ends, Some(2.0 * student.cdf(-t))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_close, comparisons, numbers};

    /// Against `scipy.stats.ttest_ind(equal_var=False)` (tests/golden/make_comparisons.py).
    #[test]
    fn difference_interval_and_p_are_scipys() {
        for case in comparisons()["welch"].as_array().unwrap() {
            let (b, a) = (numbers(&case["b"]), numbers(&case["a"]));
            let (summary, p) = welch(&b, &a, 0).unwrap();
            assert_close(p.unwrap(), case["p"].as_f64().unwrap(), 1e-9);
            assert_close(summary.low.unwrap(), case["low"].as_f64().unwrap(), 1e-8);
            assert_close(summary.high.unwrap(), case["high"].as_f64().unwrap(), 1e-8);
            assert_eq!(summary.n, a.len() + b.len());
        }
    }

    #[test]
    fn edges_no_value_one_value_no_spread_a_diverged_run_and_figures_of_any_size() {
        assert_eq!(welch(&[], &[1.0, 2.0], 0), None);
        let bare = |b: &[f64], a: &[f64], diverged| {
            let (summary, p) = welch(b, a, diverged).unwrap();
            assert_eq!((summary.interval, summary.low, p), (Interval::None, None, None), "{b:?} {a:?}");
            summary.mean
        };
        assert_eq!(bare(&[2.0], &[1.0, 1.5], 0), 0.75);
        assert_eq!(bare(&[2.0, 2.0], &[1.0, 1.0], 0), 1.0);
        assert_eq!(bare(&[0.5, 0.5], &[0.5, 0.5], 0), 0.0);
        assert_close(bare(&[0.7, 0.1], &[0.7, 0.8], 1), -0.35, 1e-12);
        bare(&[f64::MAX, -f64::MAX], &[1.0, 2.0], 0);
        bare(&[f64::NAN, 1.0], &[1.0, 2.0], 0);
        assert!(welch(&[1.0, 1.1], &[1.0, 1.2], 0).unwrap().1.is_some(), "negative control");
    }
}
