//! The exact sign-flip test of paired differences: how often would signs drawn by a coin give a sum as far from zero?

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Up to this many pairs all 2^n patterns are counted, by the sums of two halves; beyond it, patterns are drawn.
pub const EXACT_UP_TO: usize = 40;
/// Patterns that are drawn where not all are counted.
pub const DRAWS: u32 = 100_000;
/// Sums that differ by less than this share of the sum of all sizes are equal: differences of accuracies that are
/// equal in decimal digits differ in their last bits.
const TIE: f64 = 1e-9;

/// The result of a sign-flip test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignFlip {
    /// Two-sided p: the share of the sign patterns whose sum is at least as far from zero as the one seen.
    pub p: f64,
    /// Pairs.
    pub n: usize,
    /// Whether all patterns were counted; else p is an estimate from [`DRAWS`] of them.
    pub exact: bool,
}

/// The two-sided sign-flip test of `differences`; `None` of none, or where one is not finite. A difference of 0 is a
/// pair like any other. `seed` is used beyond [`EXACT_UP_TO`] pairs only.
pub fn sign_flip(differences: &[f64], seed: u64) -> Option<SignFlip> {
    let n = differences.len();
    if n == 0 || differences.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let sizes: f64 = differences.iter().map(|d| d.abs()).sum();
    let limit = differences.iter().sum::<f64>().abs() - TIE * sizes;
    let exact = n <= EXACT_UP_TO;
    let p = match limit {
        limit if limit <= 0.0 => 1.0,
        limit if exact => count(differences, limit) as f64 / (1_u64 << n) as f64,
        limit => draw(differences, limit, seed),
    };
    Some(SignFlip { p, n, exact })
}

/// How many of the 2^n patterns have a sum of at least `limit` > 0, on either side.
fn count(differences: &[f64], limit: f64) -> u64 {
    let (left, right) = differences.split_at(differences.len() / 2);
    let (left, right) = (sums(left), sums(right));
    // For rising sums of the left half, ever more of the right half's, from its top down, reach the limit.
    let mut reaching = 0;
    let mut above = 0_u64;
    for sum in &left {
        while reaching < right.len() && sum + right[right.len() - 1 - reaching] >= limit {
            reaching += 1;
        }
        above += reaching as u64;
    }
    // Patterns come in pairs of opposite sums.
    2 * above
}

/// The sums of all sign patterns, rising.
fn sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for value in values {
        sums = sums.iter().flat_map(|sum| [sum - value, sum + value]).collect();
    }
    sums.sort_unstable_by(f64::total_cmp);
    sums
}

/// The share of drawn patterns; the one seen counts as one of them, so that p is never 0.
fn draw(differences: &[f64], limit: f64, seed: u64) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut reached = 1_u32;
    for _ in 0..DRAWS {
        let mut sum = 0.0;
        for chunk in differences.chunks(64) {
            let signs = rng.next_u64();
            sum += chunk.iter().enumerate().map(|(bit, d)| if signs >> bit & 1 == 1 { *d } else { -d }).sum::<f64>();
        }
        reached += u32::from(sum.abs() >= limit);
    }
    f64::from(reached) / f64::from(DRAWS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{assert_close, comparisons, numbers};

    fn p(differences: &[f64]) -> f64 {
        sign_flip(differences, 0).unwrap().p
    }

    /// Against `scipy.stats.permutation_test` over all patterns (tests/golden/make_comparisons.py), ties included.
    #[test]
    fn p_values_are_scipys() {
        for case in comparisons()["sign_flip"].as_array().unwrap() {
            let got = sign_flip(&numbers(&case["differences"]), 0).unwrap();
            assert!(got.exact);
            assert_close(got.p, case["p"].as_f64().unwrap(), 1e-12);
        }
    }

    /// Of signed ranks the test is Wilcoxon's, whose exact p SciPy computes in another way: 20, 33 and 40 pairs.
    #[test]
    fn of_signed_ranks_it_is_wilcoxons_test_up_to_forty_pairs() {
        for case in comparisons()["wilcoxon"].as_array().unwrap() {
            assert_close(p(&numbers(&case["ranks"])), case["p"].as_f64().unwrap(), 1e-12);
        }
    }

    /// By hand, of 3, 1, 1: the eight sums are +-5, +-3, +-3, +-1. Seen is 5: two of eight. Of 3, 1, -1 it is 3: six.
    #[test]
    fn p_by_hand() {
        assert_eq!(p(&[3.0, 1.0, 1.0]), 0.25);
        assert_eq!(p(&[3.0, 1.0, -1.0]), 0.75);
        assert_eq!(p(&[-3.0, -1.0, -1.0]), 0.25, "either side");
    }

    #[test]
    fn the_smallest_p_is_two_of_all_patterns() {
        for n in 1..=40 {
            assert_eq!(p(&vec![0.1; n]), (1.0 - n as f64).exp2(), "{n}");
        }
    }

    #[test]
    fn edges_one_pair_equal_pairs_and_pairs_that_both_diverged() {
        assert_eq!(p(&[0.3]), 1.0, "one pair says nothing");
        assert_eq!(p(&[0.0; 6]), 1.0, "all equal, or all diverged");
        // A zero halves no p: 2 of 2^5 patterns for five differences, and twice as many of twice as many with a zero.
        assert_eq!(p(&[0.2, 0.2, 0.2, 0.2, 0.2, 0.0]), p(&[0.2; 5]));
        assert_eq!(sign_flip(&[], 0), None);
        assert_eq!(sign_flip(&[0.1, f64::NAN], 0), None);
    }

    /// .7427 - .7631 and the like: sums that are equal in decimal digits are ties, whatever their last bits.
    #[test]
    fn sums_that_differ_in_their_last_bits_are_ties() {
        // .1 + .2 is not .3 in binary. Sums of +-.1 +-.2 +-.3 +-.4: seen .4 = .1 + .2 - .3 + .4; at least .4 away from
        // zero are 1, .8, .6, .4 (twice: -.1 -.2 +.3 +.4 = .4 as well): 5 of 8 on either side.
        let differences = [0.1, 0.2, -0.3, 0.4];
        assert_eq!(p(&differences), 10.0 / 16.0);
        assert!(count(&differences, differences.iter().sum::<f64>()) < 10, "negative control: compared bit by bit");
    }

    #[test]
    fn beyond_forty_pairs_it_says_that_it_drew_and_comes_near() {
        // Of 60 signs 39 are positive: that is `scipy.stats.binomtest(39, 60)`. p is known to .0005 from 100,000 draws.
        let differences: Vec<f64> = (0..60).map(|i| if i < 39 { 1.0 } else { -1.0 }).collect();
        let got = sign_flip(&differences, 1).unwrap();
        assert!(!got.exact);
        assert_close(got.p, comparisons()["binomial_39_of_60"].as_f64().unwrap(), 0.002);
        assert_eq!(sign_flip(&differences, 1), sign_flip(&differences, 1), "the same seed");
        assert_ne!(got.p, sign_flip(&differences, 2).unwrap().p);
        assert!(sign_flip(&[1.0; 60], 0).unwrap().p > 0.0);
    }
}
