//! Holm's correction for several comparisons.

/// Holm-adjusted p values, in the order given. A comparison without a p (its runs are not done) has none, but counts as
/// one of the family, so that p values do not rise while runs finish.
pub fn holm(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut rising: Vec<(usize, f64)> = p.iter().enumerate().filter_map(|(index, p)| Some((index, (*p)?))).collect();
    rising.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted = vec![None; p.len()];
    let mut largest = 0.0_f64;
    for (before, (index, value)) in rising.into_iter().enumerate() {
        largest = largest.max((value * (p.len() - before) as f64).min(1.0));
        adjusted[index] = Some(largest);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_close;

    /// By hand, of .01, .04, .03, .005: rising .005 x 4 = .02, .01 x 3 = .03, .03 x 2 = .06, .04 x 1 = .04 < .06.
    /// Bonferroni would give .04, .16, .12, .02.
    #[test]
    fn adjusted_by_hand() {
        let got = holm(&[0.01, 0.04, 0.03, 0.005].map(Some));
        for (got, want) in got.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert_close(got.unwrap(), want, 1e-15);
        }
    }

    /// By hand: rising .01, .02, .03, .9 times 4, 3, 2, 1 are .04, .06, .06, .9.
    #[test]
    fn a_smaller_product_takes_the_larger_one_before_it() {
        let got = holm(&[0.03, 0.01, 0.9, 0.02].map(Some));
        for (got, want) in got.iter().zip([0.06, 0.04, 0.9, 0.06]) {
            assert_close(got.unwrap(), want, 1e-15);
        }
    }

    #[test]
    fn edges_one_comparison_ties_ones_and_missing_ones() {
        assert_eq!(holm(&[Some(0.03)]), [Some(0.03)]);
        assert_eq!(holm(&[]), []);
        assert_eq!(holm(&[Some(0.25); 3]), [Some(0.75); 3]);
        assert_eq!(holm(&[Some(1.0), Some(0.5)]), [Some(1.0), Some(1.0)], "never above 1");
        // Three comparisons, of which one is not done: .01 x 3 = .03, .02 x 2 = .04.
        let got = holm(&[Some(0.02), None, Some(0.01)]);
        assert_eq!((got[0], got[1], got[2]), (Some(0.04), None, Some(0.03)));
        assert_eq!(holm(&[Some(0.02), Some(0.01)])[1], Some(0.02), "negative control: left out it would shrink them");
    }
}
