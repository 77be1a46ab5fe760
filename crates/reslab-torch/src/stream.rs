//! Random streams: every random number of a run is a function of (seed, purpose, position).
//!
//! A stream is ChaCha with 8 rounds under the key
//! `sha256("reslab stream 1" NUL | seed | len(purpose) | purpose | position[0] | position[1] | ..)`, integers as 8 bytes,
//! little-endian. Streams of different (seed, purpose, position) are independent, and any of them can be opened without
//! drawing from another: a resumed run replays nothing. libtorch's global generator is never drawn from. Transcendental
//! functions come from crate `libm`, so that machines agree bit by bit.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

/// Separates these keys from any other use of the same hash; counts up if the meaning of a stream ever changes.
const DOMAIN: &[u8] = b"reslab stream 1\0";

/// A stream of random numbers; see [`stream`].
#[derive(Debug, Clone)]
pub struct Stream {
    rng: ChaCha8Rng,
    /// The second half of a Box-Muller pair.
    spare: Option<f64>,
}

/// Opens the stream of one purpose at one position, as `stream(seed, "order", &[epoch])`.
pub fn stream(seed: u64, purpose: &str, position: &[u64]) -> Stream {
    let mut hash = Sha256::new();
    hash.update(DOMAIN);
    hash.update(seed.to_le_bytes());
    // The length keeps (purpose, position) apart from a longer purpose that ends in the same bytes.
    hash.update((purpose.len() as u64).to_le_bytes());
    hash.update(purpose.as_bytes());
    for coordinate in position {
        hash.update(coordinate.to_le_bytes());
    }
    Stream { rng: ChaCha8Rng::from_seed(hash.finalize().into()), spare: None }
}

impl Stream {
    /// Uniform in [0, 1): the upper 53 bits of one draw.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Standard normal, by Box-Muller: two uniforms give two values, the second of which is kept for the next call.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        if let Some(z) = self.spare.take() {
            return z;
        }
        let radius = (-2.0 * libm::log(1.0 - self.uniform())).sqrt(); // 1 - u is in (0, 1]: never log(0)
        let (sin, cos) = libm::sincos(std::f64::consts::TAU * self.uniform());
        self.spare = Some(radius * sin);
        radius * cos
    }

    /// Uniform in 0..n without bias (Lemire's multiplication, rejecting the incomplete part).
    ///
    /// # Panics
    /// If `n` is 0: there is no such number.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a number below 0 was asked of a stream");
        let reject_under = n.wrapping_neg() % n; // 2^64 mod n
        loop {
            let wide = u128::from(self.rng.next_u64()) * u128::from(n);
            if wide as u64 >= reject_under {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A uniform permutation of 0..n (Fisher-Yates, from the end).
    pub fn permutation(&mut self, n: usize) -> Vec<i64> {
        let mut order: Vec<i64> = (0..n as i64).collect();
        for last in (1..n).rev() {
            order.swap(last, self.below(last as u64 + 1) as usize);
        }
        order
    }

    /// Beta(a, b), from two gamma draws, compared as logarithms so that small a and b do not give 0 / 0.
    ///
    /// # Panics
    /// If `a` or `b` is not positive and finite.
    pub fn beta(&mut self, a: f64, b: f64) -> f64 {
        let (log_x, log_y) = (self.log_gamma_draw(a), self.log_gamma_draw(b));
        1.0 / (1.0 + libm::exp(log_y - log_x))
    }

    /// Logarithm of a Gamma(shape, 1) draw: Marsaglia and Tsang 2000, with their step up for shapes under 1.
    fn log_gamma_draw(&mut self, shape: f64) -> f64 {
        assert!(shape > 0.0 && shape.is_finite(), "a gamma draw needs a positive, finite shape, but was given {shape}");
        if shape < 1.0 {
            let up = self.log_gamma_draw(shape + 1.0);
            return up + libm::log(1.0 - self.uniform()) / shape;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            if libm::log(1.0 - self.uniform()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return libm::log(d * v);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean of `n` draws.
    fn mean(n: usize, mut draw: impl FnMut() -> f64) -> f64 {
        (0..n).map(|_| draw()).sum::<f64>() / n as f64
    }

    /// Asserts that an estimate lies within 4 of its standard errors.
    fn assert_within(estimate: f64, expected: f64, standard_error: f64) {
        let off = (estimate - expected) / standard_error;
        assert!(off.abs() < 4.0, "{estimate} should be {expected}; it is {off:.1} standard errors off");
    }

    /// tests/golden/make_stream.py computes the same from hashlib and an own ChaCha.
    #[test]
    fn draws_are_those_of_an_independent_implementation() {
        let golden: serde_json::Value = serde_json::from_str(include_str!("../tests/golden/stream.json")).unwrap();
        for case in golden.as_array().unwrap() {
            let position: Vec<u64> = case["position"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap()).collect();
            let seed: u64 = case["seed"].as_str().unwrap().parse().unwrap();
            let open = || stream(seed, case["purpose"].as_str().unwrap(), &position);
            let (mut uniforms, mut normals) = (open(), open());
            for expected in case["uniform_2_53"].as_array().unwrap() {
                assert_eq!(uniforms.uniform() * (1_u64 << 53) as f64, expected.as_u64().unwrap() as f64);
            }
            for expected in case["normal"].as_array().unwrap() {
                assert!((normals.normal() - expected.as_f64().unwrap()).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn seed_purpose_and_position_each_make_another_stream() {
        let first = |seed, purpose, position: &[u64]| stream(seed, purpose, position).uniform();
        let base = first(1, "order", &[2]);
        assert_eq!(base, first(1, "order", &[2]));
        for other in
            [first(2, "order", &[2]), first(1, "orders", &[2]), first(1, "order", &[3]), first(1, "order", &[])]
        {
            assert_ne!(base, other);
        }
        assert_ne!(first(1, "order", &[2, 3]), first(1, "order", &[3, 2]));
        // The bytes of a position cannot be taken for the end of a longer purpose.
        assert_ne!(first(1, "a", &[u64::from_le_bytes(*b"bcdefghi")]), first(1, "abcdefghi", &[]));
    }

    /// n = 1e6 uniforms: the mean's standard error is sqrt(1/12 / n), that of the mean square sqrt(4/45 / n).
    #[test]
    fn uniform_fills_the_unit_interval() {
        let n = 1_000_000;
        let mut draws = stream(0, "uniform", &[]);
        let values: Vec<f64> = (0..n).map(|_| draws.uniform()).collect();
        assert!(values.iter().all(|u| (0.0..1.0).contains(u)));
        let mut each = values.iter();
        assert_within(mean(n, || *each.next().unwrap()), 0.5, (1.0 / 12.0 / n as f64).sqrt());
        let mut each = values.iter();
        assert_within(mean(n, || each.next().unwrap().powi(2)), 1.0 / 3.0, (4.0 / 45.0 / n as f64).sqrt());
    }

    /// n = 1e6 normals: standard errors of mean, mean square, mean cube, mean fourth power are sqrt(1, 2, 15, 96 / n);
    /// of the share beyond 2, sqrt(p (1 - p) / n).
    #[test]
    fn normal_has_the_moments_and_tails_of_a_standard_normal() {
        let n = 1_000_000;
        let mut draws = stream(0, "normal", &[]);
        let values: Vec<f64> = (0..n).map(|_| draws.normal()).collect();
        for (power, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            let mut each = values.iter();
            assert_within(mean(n, || each.next().unwrap().powi(power)), expected, (variance / n as f64).sqrt());
        }
        let p = 0.045_500_26;
        let beyond = values.iter().filter(|z| z.abs() > 2.0).count() as f64 / n as f64;
        assert_within(beyond, p, (p * (1.0 - p) / n as f64).sqrt());
        // Both halves of a pair are independent: n/2 products of variance 1.
        let pairs = values.chunks(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / (n / 2) as f64;
        assert_within(pairs, 0.0, (2.0 / n as f64).sqrt());
    }

    /// For n = 3 * 2^62 a multiplication without rejection would give a third of the numbers twice the chance of the
    /// others: P(x < 2^62) would be 1/2 instead of 1/3 or so. 1e5 draws: standard error .0015.
    #[test]
    fn below_is_unbiased_also_for_huge_bounds() {
        let mut draws = stream(0, "below", &[]);
        let n = 100_000;
        let seen: Vec<u64> = (0..n).map(|_| draws.below(3 << 62)).collect();
        assert!(seen.iter().all(|&x| x < 3 << 62));
        for third in 0..3_u64 {
            let residue = seen.iter().filter(|&&x| x % 3 == third).count() as f64 / f64::from(n);
            assert_within(residue, 1.0 / 3.0, (2.0 / 9.0 / f64::from(n)).sqrt());
        }
        let mut counts = [0_u32; 7];
        (0..n).for_each(|_| counts[draws.below(7) as usize] += 1);
        for count in counts {
            assert_within(f64::from(count) / f64::from(n), 1.0 / 7.0, (6.0 / 49.0 / f64::from(n)).sqrt());
        }
        assert_eq!(draws.below(1), 0);
    }

    /// 12,000 permutations of 4: each of the 24 has a share of 1/24, standard error sqrt(1/24 * 23/24 / 12000).
    #[test]
    fn permutations_are_uniform() {
        let mut draws = stream(0, "permutation", &[]);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..12_000 {
            *counts.entry(draws.permutation(4)).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        for (order, count) in counts {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
            assert_within(f64::from(count) / 12_000.0, 1.0 / 24.0, (23.0 / 576.0 / 12_000.0_f64).sqrt());
        }
        assert_eq!(draws.permutation(0), Vec::<i64>::new());
        assert_eq!(draws.permutation(1), [0]);
    }

    /// n = 1e5 draws: mean a / (a + b), variance ab / ((a + b)^2 (a + b + 1)); the square's variance is at most 1/4.
    #[test]
    fn beta_has_its_mean_and_variance() {
        let n = 100_000;
        for (a, b) in [(0.2, 0.2), (1.0, 1.0), (0.8, 0.8), (2.0, 5.0), (0.01, 0.03)] {
            let mut draws = stream(0, "beta", &[]);
            let values: Vec<f64> = (0..n).map(|_| draws.beta(a, b)).collect();
            assert!(values.iter().all(|x| (0.0..=1.0).contains(x)));
            let (expected, variance) = (a / (a + b), a * b / ((a + b) * (a + b) * (a + b + 1.0)));
            let mut each = values.iter();
            assert_within(mean(n, || *each.next().unwrap()), expected, (variance / n as f64).sqrt());
            let mut each = values.iter();
            let square = mean(n, || each.next().unwrap().powi(2));
            assert_within(square, variance + expected * expected, (0.25 / n as f64).sqrt());
        }
    }
}
