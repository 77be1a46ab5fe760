//! A sweep file becomes a frozen plan; its runs are started, watched and skipped when done.

mod axes;
mod error;
mod expand;
mod identity;
mod keys;
mod names;
mod node;
mod point;
mod set;
mod source;

pub use error::{SweepError, SweepErrors};
pub use expand::{Check, Facts, Target, expand, filter};
pub use keys::METRICS;
pub use source::{Overrides, ProfileChoice, SweepFile, load};
