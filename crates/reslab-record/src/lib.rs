//! What a run leaves on disk, written and read; no libtorch.
//!
//! A run's folder holds CSV files that only grow ([`rows`]), small JSON and TOML files that appear whole ([`Done`],
//! [`Failed`], [`Env`], [`Timing`]), and a checkpoint. A sweep's folder holds its frozen [`Plan`] and the runs'
//! folders. Everything in it is found by relative paths, so a folder can be moved.

mod error;
mod file;
mod number;
mod outcome;
mod plan;
mod progress;
pub mod rows;

pub use error::{RecordError, Result};
pub use file::write_atomic;
pub use number::widen;
pub use outcome::{Done, Env, Failed, FailureClass, Outcome, Timing};
pub use plan::{Axis, PLAN_FORMAT, Plan, PlannedRun, Source};
pub use progress::Progress;
pub use rows::{Branch, EvalRow, LayerRow, Row, Split, StepRow, Weights};
