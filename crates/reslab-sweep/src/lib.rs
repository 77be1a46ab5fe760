//! A sweep file becomes a frozen plan; its runs are started, watched and skipped when done.
//!
//! The way through: [`load`] a file, [`expand`] it (all errors at once, nothing written), [`freeze`] the plan into the
//! sweep's folder, [`probe`] and [`Estimate`], [`execute`]. What a model is, this crate never learns: resolved tables are
//! checked by a function that is handed in, and runs are computed by commands that are handed in.

mod axes;
mod classify;
mod error;
mod estimate;
mod execute;
mod expand;
mod freeze;
mod identity;
mod job;
mod keys;
mod names;
mod node;
mod point;
mod pool;
mod prune;
mod reader;
mod remedy;
mod set;
mod source;
mod span;
mod state;
mod stop;
mod summary;

pub use classify::EXIT_IO;
pub use error::{SweepError, SweepErrors};
pub use estimate::{Cost, Estimate, Probe, Work, networks, probe};
pub use execute::execute;
pub use expand::{Check, Facts, Target, expand, filter};
pub use freeze::{Frozen, freeze, preview};
pub use job::{EXIT_LOCKED, Event, Job, OnFailure, Remedy, Retry, Skip, Start};
pub use keys::METRICS;
pub use pool::Slot;
pub use prune::{Leftover, LeftoverState, delete, leftovers};
pub use source::{Overrides, ProfileChoice, SweepFile, load};
pub use span::span;
pub use state::{is_done, pending};
pub use stop::Stop;
pub use summary::{FailedRun, Summary};
