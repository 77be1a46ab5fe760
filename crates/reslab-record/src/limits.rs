//! What the rows of a run can say. A step or block beyond it is damage: readers take both for places and amounts.

use std::path::Path;

use crate::rows::Row;
use crate::table::{Rows, read_rows};

/// No run has more steps: beyond it a float64 does not tell one step from the next.
const MOST_STEPS: u64 = 1 << 53;
/// No network has more blocks.
const MOST_BLOCKS: u64 = 1 << 16;

/// How many steps and blocks a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    steps: Option<u64>,
    depth: Option<u64>,
}

impl Limits {
    /// Those of a run's resolved configuration, as far as it says. Epochs are not counted here: that takes the data.
    pub fn of(config: &toml::Table) -> Self {
        let number = |table: &str, key: &str| u64::try_from(config.get(table)?.get(key)?.as_integer()?).ok();
        Self { steps: number("train", "steps"), depth: number("model", "depth") }
    }

    /// Steps of the run, where the configuration says them and a run can have so many.
    pub fn steps(&self) -> Option<u64> {
        self.steps.filter(|steps| *steps <= MOST_STEPS)
    }

    /// Blocks of the network, likewise.
    pub fn depth(&self) -> Option<u64> {
        self.depth.filter(|depth| *depth <= MOST_BLOCKS)
    }

    /// Why a row behind one of step `before` cannot be; `None` where it can.
    fn refuse(&self, step: u64, block: Option<u64>, before: u64) -> Option<String> {
        let beyond = |found: u64, limit: Option<u64>, most: u64| found >= limit.unwrap_or(most);
        let but = |limit: Option<u64>, say: fn(u64) -> String| limit.map_or("none can be so high".to_owned(), say);
        if beyond(step, self.steps(), MOST_STEPS) {
            let but = but(self.steps(), |steps| format!("the config has {steps} steps"));
            return Some(format!("step {step}, but {but}"));
        }
        if step < before {
            return Some(format!("step {step} behind step {before}"));
        }
        let block = block.filter(|block| beyond(*block, self.depth(), MOST_BLOCKS))?;
        let but = but(self.depth(), |depth| format!("the config has depth {depth}"));
        Some(format!("block {block}, but {but}"))
    }
}

/// As [`read_rows`], and a row that a run within `limits` cannot have, or whose step is before that of the row above it,
/// is damage like any other.
pub fn read_rows_within<R: Row>(dir: &Path, limits: &Limits) -> Rows<R> {
    let mut read = read_rows::<R>(dir);
    let mut before = 0;
    for (index, row) in read.rows.iter().enumerate() {
        if let Some(why) = limits.refuse(row.step(), row.block(), before) {
            // What else is damaged stands further down.
            read.problem = Some(format!("{}: damaged from line {} on: {why}", R::FILE, index + 2));
            read.rows.truncate(index);
            break;
        }
        before = row.step();
    }
    read
}
