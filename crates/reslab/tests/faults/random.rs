//! A seeded generator (SplitMix64), and how much a call of the tests is to do.

use std::time::Duration;

/// The seed of all kills, unless `RESLAB_SEED` names another.
const SEED: u64 = 20_260_101;

/// The generator.
pub struct Random(u64);

impl Random {
    /// One stream for each test.
    pub fn new(stream: u64) -> Self {
        Self(number("RESLAB_SEED", SEED).wrapping_add(stream.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of `count` numbers from 0.
    pub fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    /// Uniform from nothing to `longest`.
    pub fn delay(&mut self, longest: Duration) -> Duration {
        longest.mul_f64((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// How many kills there are to be: `RESLAB_KILLS` of runs, and three tenths of it of sweeps.
pub fn kills(default: u64) -> u64 {
    number("RESLAB_KILLS", default)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}
