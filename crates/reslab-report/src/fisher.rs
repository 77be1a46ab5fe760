//! Fisher's exact test: do two arms diverge equally often?

use statrs::function::factorial::ln_binomial;

/// Tables as likely as the one seen, but for rounding, count as as likely.
const TIE: f64 = 1e-7;

/// Two-sided p of Fisher's exact test, `a` of `of_a` against `b` of `of_b`: the probability, at the same total, of all
/// tables that are not more likely than the one seen. 1 where an arm has no run.
pub fn fisher_exact((a, of_a): (usize, usize), (b, of_b): (usize, usize)) -> f64 {
    let (total, of_total) = (a + b, of_a + of_b);
    let likelihood = |a: usize| {
        let ways = |k: usize, n: usize| ln_binomial(n as u64, k as u64);
        (ways(a, of_a) + ways(total - a, of_b) - ways(total, of_total)).exp()
    };
    let limit = likelihood(a) * (1.0 + TIE);
    let possible = total.saturating_sub(of_b)..=total.min(of_a);
    possible.map(likelihood).filter(|likelihood| *likelihood <= limit).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_close, comparisons, numbers};

    /// Against `scipy.stats.fisher_exact` (tests/golden/make_comparisons.py).
    #[test]
    fn p_values_are_scipys() {
        for case in comparisons()["fisher"].as_array().unwrap() {
            let [a, of_a, b, of_b, want] = numbers(case)[..] else { panic!() };
            let got = fisher_exact((a as usize, of_a as usize), (b as usize, of_b as usize));
            assert_close(got, want, 1e-10);
        }
    }

    /// By hand, 3 of 3 against 0 of 3: one of the 6 over 3 = 20 tables, and its mirror: .1. Even so clear a count of
    /// six runs is not below .05; 4 of 4 against 0 of 4 is, 2 / 70.
    #[test]
    fn p_by_hand() {
        assert_close(fisher_exact((3, 3), (0, 3)), 0.1, 1e-14);
        assert_close(fisher_exact((0, 4), (4, 4)), 2.0 / 70.0, 1e-14);
    }

    #[test]
    fn edges_none_diverged_all_diverged_and_no_runs() {
        for (a, b) in [((0, 3), (0, 3)), ((3, 3), (3, 3)), ((1, 1), (0, 1)), ((0, 0), (2, 3)), ((0, 0), (0, 0))] {
            assert_close(fisher_exact(a, b), 1.0, 1e-14);
        }
        assert!(fisher_exact((3, 6), (0, 3)) < 1.0, "an arm with fewer seeds");
    }
}
