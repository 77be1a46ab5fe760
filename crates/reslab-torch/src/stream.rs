//! Random streams: every random number of a run is a function of (seed, purpose, position).
//!
//! A stream is ChaCha with 8 rounds under the key
//! `sha256("reslab stream 1" NUL | seed | len(purpose) | purpose | position[0] | position[1] | ..)`, integers as 8 bytes,
//! little-endian. Streams of different (seed, purpose, position) are independent, and any of them can be opened without
//! drawing from another: a resumed run replays nothing. libtorch's global generator is never drawn from. Transcendental
//! functions come from crate `libm`, so that machines agree bit by bit.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
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
