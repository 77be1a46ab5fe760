//! Figures as they are shown: value, interval, n.

use crate::metric::Metric;
use crate::stats::{Interval, Summary};

/// How a figure is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Style {
    /// Factor before it is printed: 100 for percent.
    factor: f64,
    /// Digits behind the point.
    digits: usize,
    /// Whether a plus is printed.
    signed: bool,
}

impl Style {
    /// Four digits for what may be the metric, three for what is looked at beside it.
    pub(crate) const LOSS: Self = Self { factor: 1.0, digits: 4, signed: false };
    pub(crate) const FINAL_LOSS: Self = Self { digits: 3, ..Self::LOSS };
    /// A probability.
    pub(crate) const SHARE: Self = Self { digits: 2, ..Self::LOSS };

    pub(crate) fn of(metric: &Metric) -> Self {
        if metric.is_accuracy() { Self { factor: 100.0, digits: 2, signed: false } } else { Self::LOSS }
    }

    pub(crate) fn signed(self) -> Self {
        Self { signed: true, ..self }
    }

    pub(crate) fn show(self, x: f64) -> String {
        let text = format!("{:.*}", self.digits, x * self.factor);
        // A rounded zero has no sign.
        let text = if text.trim_start_matches('-').chars().all(|c| matches!(c, '0' | '.')) {
            text.trim_start_matches('-').to_owned()
        } else {
            text
        };
        if self.signed && !text.starts_with('-') { format!("+{text}") } else { text }
    }
}

/// Nothing to show.
pub(crate) const NONE: &str = "-";

/// `71.34 +- 0.18`, `71.34 [71.16, 71.52]` or `71.34`.
pub(crate) fn short(summary: Option<&Summary>, style: Style) -> String {
    let Some(s) = summary else { return NONE.to_owned() };
    let mean = style.show(s.mean);
    match (s.interval, s.low, s.high) {
        (Interval::T95, _, Some(high)) => format!("{mean} +- {}", Style { signed: false, ..style }.show(high - s.mean)),
        (Interval::Range, Some(low), Some(high)) => format!("{mean} [{}, {}]", style.show(low), style.show(high)),
        _ => mean,
    }
}

/// `71.34 +- 0.18 (n=6, 0 diverged)`; for n = 2 it says that the brackets are the range.
pub(crate) fn full(summary: Option<&Summary>, style: Style) -> String {
    let Some(s) = summary else { return NONE.to_owned() };
    format!("{} (n={}{}, {} diverged)", short(summary, style), s.n, range(s), s.diverged)
}

/// `+1.23 +- 0.40 (n=3)`; diverged pairs are said where there are any.
pub(crate) fn difference(summary: Option<&Summary>, style: Style) -> String {
    let Some(s) = summary else { return NONE.to_owned() };
    let diverged = if s.diverged > 0 { format!(", {} diverged", s.diverged) } else { String::new() };
    format!("{} (n={}{}{diverged})", short(summary, style), s.n, range(s))
}

/// As [`short`]; n and diverged runs are said where not all of `planned` are there or one diverged.
pub(crate) fn seen(summary: Option<&Summary>, style: Style, planned: usize) -> String {
    let mut text = short(summary, style);
    let (n, diverged) = summary.map_or((0, 0), |s| (s.n, s.diverged));
    if n < planned || diverged > 0 {
        let of = if n < planned { format!(" of {planned}") } else { String::new() };
        let diverged = if diverged > 0 { format!(", {diverged} diverged") } else { String::new() };
        text += &format!(" (n={n}{of}{diverged})");
    }
    text
}

fn range(s: &Summary) -> &'static str {
    if s.interval == Interval::Range { ", range" } else { "" }
}

/// A figure with three digits that count: `0.00123`, `12.3`, `4.57e6`.
pub(crate) fn three_digits(x: Option<f64>) -> String {
    let Some(x) = x else { return NONE.to_owned() };
    let size = x.abs();
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    if !(1e-4..1e6).contains(&size) {
        return format!("{x:.2e}");
    }
    let digits = (2 - size.log10().floor() as i32).clamp(0, 6) as usize;
    format!("{x:.digits$}")
}

/// A p value: three digits behind the point, or that it is less: `0.031`, `2.4e-4`.
pub(crate) fn p_value(p: Option<f64>) -> String {
    p.map_or(NONE.to_owned(), |p| if p < 0.001 && p > 0.0 { format!("{p:.1e}") } else { format!("{p:.3}") })
}

/// A share from 0 to 1.
pub(crate) fn share(x: Option<f64>) -> String {
    x.map_or(NONE.to_owned(), |x| Style::SHARE.show(x))
}

/// A share in percent.
pub(crate) fn percent(x: Option<f64>) -> String {
    x.map_or(NONE.to_owned(), |x| format!("{:.2}", x * 100.0))
}

/// A large whole number: `1_234_567` as `1,234,567`.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::summarize;

    #[test]
    fn a_cell_says_value_interval_n_and_diverged() {
        let accuracy = Style::of(&Metric::new("test/top1"));
        let cell = |values: &[f64], diverged| full(summarize(values, diverged).as_ref(), accuracy);
        // Of .71, .72, .73: deviation .01, t(2) = 4.302653, so 4.302653 x .01 / sqrt(3) = .024841.
        assert_eq!(cell(&[0.71, 0.72, 0.73], 0), "72.00 +- 2.48 (n=3, 0 diverged)");
        assert_eq!(cell(&[0.71, 0.73], 0), "72.00 [71.00, 73.00] (n=2, range, 0 diverged)");
        assert_eq!(cell(&[0.71], 0), "71.00 (n=1, 0 diverged)");
        assert_eq!(cell(&[0.7, 0.7, 0.1], 1), "50.00 (n=3, 1 diverged)");
        assert_eq!(cell(&[], 0), "-");
    }

    #[test]
    fn what_is_as_usual_is_not_said() {
        let accuracy = Style::of(&Metric::new("test/top1"));
        let cell = |values: &[f64], diverged, planned| seen(summarize(values, diverged).as_ref(), accuracy, planned);
        assert_eq!(cell(&[0.71, 0.72, 0.73], 0, 3), "72.00 +- 2.48");
        assert_eq!(cell(&[0.71, 0.73], 0, 3), "72.00 [71.00, 73.00] (n=2 of 3)");
        assert_eq!(cell(&[0.7, 0.7, 0.1], 1, 3), "50.00 (n=3, 1 diverged)");
        assert_eq!(cell(&[], 0, 3), "- (n=0 of 3)");
    }

    #[test]
    fn a_difference_has_its_sign_and_a_zero_has_none() {
        let accuracy = Style::of(&Metric::new("test/top1"));
        let cell = |values: &[f64], diverged| difference(summarize(values, diverged).as_ref(), accuracy.signed());
        assert_eq!(cell(&[0.01, 0.02, 0.03], 0), "+2.00 +- 2.48 (n=3)");
        assert_eq!(cell(&[-0.01, -0.02], 0), "-1.50 [-2.00, -1.00] (n=2, range)");
        assert_eq!(cell(&[0.6, 0.0], 1), "+30.00 (n=2, 1 diverged)");
        assert_eq!(cell(&[-1e-9], 0), "+0.00 (n=1)");
        assert_eq!(short(summarize(&[0.12345], 0).as_ref(), Style::of(&Metric::new("val/loss"))), "0.1235");
    }

    #[test]
    fn small_and_large_figures_keep_three_digits() {
        let cases = [
            (0.001_234, "0.00123"),
            (12.345, "12.3"),
            (99.96, "100.0"),
            (1234.5, "1234"),
            (4_567_890.0, "4.57e6"),
            (1e-9, "1.00e-9"),
            (0.0, "0"),
            (f64::INFINITY, "inf"),
            (0.5, "0.500"),
        ];
        for (x, want) in cases {
            assert_eq!(three_digits(Some(x)), want);
        }
        assert_eq!(
            (thousands(0), thousands(999), thousands(1_234_567)),
            ("0".into(), "999".into(), "1,234,567".into())
        );
        assert_eq!(percent(Some(0.0058)), "0.58");
        let p_values = [1.0, 0.25, 0.03125, 0.000_244_140_625].map(|p| p_value(Some(p)));
        assert_eq!(p_values, ["1.000", "0.250", "0.031", "2.4e-4"]);
        assert_eq!((p_value(None), share(Some(0.666)), share(None)), ("-".into(), "0.67".into(), "-".into()));
    }
}
