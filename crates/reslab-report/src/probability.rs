//! P(arm > baseline): how often the one is above the other, ties as a half.

/// Over seeds that both have: the share of the differences arm - baseline that are above 0, those of 0 as a half; `None`
/// of none.
pub fn probability_paired(differences: &[f64]) -> Option<f64> {
    share(differences.iter().map(|d| (*d, 0.0)))
}

/// Over all pairs of a value of one and a value of the other (Mann-Whitney's U / (n m)); `None` where one has none.
pub fn probability_above(arm: &[f64], baseline: &[f64]) -> Option<f64> {
    share(arm.iter().flat_map(|a| baseline.iter().map(|b| (*a, *b))))
}

fn share(pairs: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let score = |(a, b): (f64, f64)| if a > b { 1.0 } else { 0.5 * f64::from(u8::from(a == b)) };
    let (sum, n) = pairs.fold((0.0, 0_u32), |(sum, n), pair| (sum + score(pair), n + 1));
    if n == 0 { None } else { Some(sum / f64::from(n)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: two above, one equal, one below: (2 + .5) / 4.
    #[test]
    fn ties_are_a_half() {
        assert_eq!(probability_paired(&[0.1, 0.0, -0.1, 0.2]), Some(0.625));
        // Of 3, 1 against 1, 2: 3 > 1, 3 > 2, 1 = 1, 1 < 2: 2.5 of 4.
        assert_eq!(probability_above(&[3.0, 1.0], &[1.0, 2.0]), Some(0.625));
    }

    #[test]
    fn edges_one_value_all_equal_and_none() {
        assert_eq!(probability_paired(&[-0.1]), Some(0.0));
        assert_eq!(probability_paired(&[0.0; 3]), Some(0.5), "all equal, or all diverged");
        assert_eq!(probability_paired(&[]), None);
        assert_eq!(probability_above(&[1.0], &[]), None);
        assert_eq!(probability_above(&[1.0, 1.0], &[1.0]), Some(0.5), "an arm missing a seed");
    }
}
