//! Files that are torn, odd or lie, and arbitrary ones: no panic, no memory beyond the file's own size class, and what
//! was written comes back as it was. Cases are the same in every run; more of them: `fuzz/`.

mod allocation;
mod checkpoint;
mod csv;
mod json;
mod plan;

use proptest::test_runner::{Config, RngSeed};

/// So many cases, the same in every run: a failure in CI is a failure here.
pub fn cases(count: u32) -> Config {
    Config { cases: count, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() }
}
