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
mod keys;
mod names;
mod node;
mod point;
mod pool;
mod reader;
mod set;
mod source;
mod stop;
mod summary;

pub use classify::EXIT_IO;
pub use error::{SweepError, SweepErrors};
pub use estimate::{Cost, Estimate, Probe, Work, networks, probe, span};
pub use execute::{EXIT_LOCKED, Event, Job, OnFailure, Retry, Skip, Start, execute, is_done, pending};
pub use expand::{Check, Facts, Target, expand, filter};
pub use freeze::{Frozen, freeze};
pub use keys::METRICS;
pub use pool::Slot;
pub use source::{Overrides, ProfileChoice, SweepFile, load};
pub use stop::Stop;
pub use summary::{FailedRun, Summary};
