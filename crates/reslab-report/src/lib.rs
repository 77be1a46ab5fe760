//! Records become tables.
//!
//! [`read_sweep`] reads a sweep's folder, [`table`] computes its figures by the rules of docs/records.md, and a
//! [`Table`] turns itself into text, Markdown, CSV, LaTeX or JSON. Reports read records only: what is missing or
//! damaged is named in the table, never guessed and never left out in silence.
//!
//! Equal records give equal bytes: a table holds no date, host or absolute path, its rows are in plan order, and
//! figures that depend on time stand in a table of their own.

mod arm;
mod cell;
mod chance;
mod data;
mod error;
#[cfg(test)]
mod golden;
mod heading;
mod judge;
mod metric;
mod notes;
mod origin;
mod reproduction;
mod reproduction_text;
mod section;
mod select;
mod stability;
mod stats;
mod sweep;
mod table;
mod text;
mod write;

pub use arm::{ArmRow, ArmTiming};
pub use error::ReportError;
pub use heading::Heading;
pub use metric::Metric;
pub use reproduction::{ArmPair, Cell, Equality, Pair, Reproduction, Verdict, compare};
pub use select::{Chosen, Selection};
pub use stability::{Sides, SpikeRule, diverges, is_not_trained, largest_grad_norm, smoothed_loss, spike_score};
pub use stats::{Interval, Summary, mean, summarize};
pub use sweep::{Finished, Run, Status, Sweep, read_sweep, read_sweep_with};
pub use table::{Options, Table, table};
pub use write::{write_reproduction, write_tables};
