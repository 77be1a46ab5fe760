//! Means and intervals over seeds. A diverged run is a value like any other (chance), but forbids a t interval.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// What the two ends of a [`Summary`] are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Interval {
    /// There is none: one value, or a diverged run among them.
    None,
    /// Smallest and largest of two values.
    Range,
    /// The 95 % interval of Student's t.
    T95,
}

/// Values of one figure over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// How many of them are of diverged runs; of pairs of runs, how many have one.
    pub diverged: usize,
    /// Their mean.
    pub mean: f64,
    /// What `low` and `high` are.
    pub interval: Interval,
    /// Lower end, where there is an interval.
    pub low: Option<f64>,
    /// Upper end, where there is an interval.
    pub high: Option<f64>,
}

/// Mean and interval of `values`, of which `diverged` come from diverged runs; `None` of no values.
pub fn summarize(values: &[f64], diverged: usize) -> Option<Summary> {
    let n = values.len();
    let mean = mean(values)?;
    let (interval, ends) = match n {
        2 if diverged == 0 => (Interval::Range, Some((values[0].min(values[1]), values[0].max(values[1])))),
        3.. if diverged == 0 => {
            let half = t_quantile(n - 1) * standard_deviation(values, mean) / (n as f64).sqrt();
            (Interval::T95, Some((mean - half, mean + half)))
        }
        _ => (Interval::None, None),
    };
    Some(Summary { n, diverged, mean, interval, low: ends.map(|e| e.0), high: ends.map(|e| e.1) })
}

/// The mean; `None` of no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / values.len() as f64) }
}

/// The sample's standard deviation (n - 1), of at least two values.
pub(crate) fn standard_deviation(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// The 97.5 % quantile of Student's t with `freedom` degrees of freedom.
pub(crate) fn t_quantile(freedom: usize) -> f64 {
    let t = StudentsT::new(0.0, 1.0, freedom as f64).expect("at least one degree of freedom");
    t.inverse_cdf(0.975)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_close, golden, numbers};

    /// Against `scipy.stats.t.ppf` (tests/golden/make_golden.py). The normal quantile, 1.96, is off by .003 even at
    /// 1000 degrees of freedom, so 1e-9 separates the two.
    #[test]
    fn quantiles_are_scipys() {
        for pair in golden()["t_quantiles"].as_array().unwrap() {
            let [freedom, want] = numbers(pair)[..] else { panic!() };
            assert_close(t_quantile(freedom as usize), want, 1e-9);
            assert!((want - 1.959_963_984_540_054).abs() > 1e-3, "negative control: not the normal quantile");
        }
    }

    /// Against `scipy.stats.t.interval`; with n instead of n - 1 in the deviation, the narrowest moves by 5 %.
    #[test]
    fn intervals_are_scipys() {
        for case in golden()["intervals"].as_array().unwrap() {
            let got = summarize(&numbers(&case["values"]), 0).unwrap();
            assert_eq!(got.interval, Interval::T95);
            assert_close(got.mean, case["mean"].as_f64().unwrap(), 1e-14);
            assert_close(got.low.unwrap(), case["low"].as_f64().unwrap(), 1e-12);
            assert_close(got.high.unwrap(), case["high"].as_f64().unwrap(), 1e-12);
        }
    }

    /// Against `scipy.stats.ttest_rel`: the paired interval is that of the differences.
    #[test]
    fn paired_intervals_are_scipys() {
        for case in golden()["paired"].as_array().unwrap() {
            let (arm, baseline) = (numbers(&case["arm"]), numbers(&case["baseline"]));
            let differences: Vec<f64> = arm.iter().zip(&baseline).map(|(a, b)| a - b).collect();
            let got = summarize(&differences, 0).unwrap();
            assert_close(got.mean, case["mean"].as_f64().unwrap(), 1e-14);
            assert_close(got.low.unwrap(), case["low"].as_f64().unwrap(), 1e-12);
            assert_close(got.high.unwrap(), case["high"].as_f64().unwrap(), 1e-12);
        }
    }

    /// By hand: of 1, 2, 3 the mean is 2, the deviation 1, and t(2) = 4.302653: half-width 4.302653 / sqrt(3).
    #[test]
    fn an_interval_by_hand() {
        let got = summarize(&[1.0, 2.0, 3.0], 0).unwrap();
        assert_close(got.high.unwrap() - got.mean, 2.484_138, 1e-6);
        assert_close(got.mean - got.low.unwrap(), 2.484_138, 1e-6);
    }

    #[test]
    fn few_values_get_no_interval_that_they_do_not_carry() {
        assert_eq!(summarize(&[], 0), None);
        let one = summarize(&[0.5], 0).unwrap();
        assert_eq!((one.n, one.mean, one.interval, one.low), (1, 0.5, Interval::None, None));
        let two = summarize(&[0.75, 0.25], 0).unwrap();
        assert_eq!((two.mean, two.interval, two.low, two.high), (0.5, Interval::Range, Some(0.25), Some(0.75)));
        let equal = summarize(&[0.5; 4], 0).unwrap();
        assert_eq!((equal.low, equal.high), (Some(0.5), Some(0.5)));
    }

    #[test]
    fn a_diverged_run_counts_and_forbids_the_interval() {
        let got = summarize(&[0.9, 0.9, 0.1], 1).unwrap();
        assert_close(got.mean, 1.9 / 3.0, 1e-15);
        assert_eq!((got.n, got.diverged, got.interval, got.low, got.high), (3, 1, Interval::None, None, None));
        assert_eq!(summarize(&[0.9, 0.1], 1).unwrap().interval, Interval::None);
    }
}
