//! Records become tables.
//!
//! [`read_sweep`] reads a sweep's folder, [`table`] computes its figures by the rules of docs/records.md, and a
//! [`Table`] turns itself into text, Markdown, CSV, LaTeX or JSON. Reports read records only: what is missing or
//! damaged is named in the table, never guessed and never left out in silence.
//!
//! Equal records give equal bytes: a table holds no date, host or absolute path, its rows are in plan order, and
//! figures that depend on time stand in a table of their own.

mod aggregate;
mod arm;
mod best;
mod cell;
mod chance;
mod columns;
mod contrast;
mod data;
mod document;
mod entry;
mod episodes;
mod error;
mod expected;
mod findings;
mod fisher;
#[cfg(test)]
mod golden;
mod grid;
mod heading;
mod holm;
mod judge;
mod metric;
mod notes;
mod origin;
mod over_points;
mod paper;
mod parallel;
mod parts;
mod pick;
mod power;
mod probability;
mod rate_rows;
mod rates;
mod reproduction;
mod reproduction_text;
mod section;
mod select;
mod settings;
mod sign_flip;
mod stability;
mod stats;
mod sweep;
mod sweeps;
mod table;
mod tex;
mod text;
mod view;
mod welch;
mod write;

pub use aggregate::{Estimate, RESAMPLES, improvement_over, interquartile_mean, interquartile_mean_over};
pub use arm::{ArmRow, ArmTiming};
pub use contrast::{Closest, Comparison, Contrast, Finding, LEVEL};
pub use episodes::{APART, Episode, EpisodeCount, spike_episodes};
pub use error::ReportError;
pub use fisher::fisher_exact;
pub use heading::Heading;
pub use holm::holm;
pub use metric::Metric;
pub use over_points::{OverPoints, OverRow};
pub use paper::{Paper, PublishedValues};
pub use parallel::map_parallel;
pub use pick::Columns;
pub use power::{MOST_SEEDS, POWER, seeds_to_tell};
pub use probability::{probability_above, probability_paired};
pub use rate_rows::RateRow;
pub use rates::{AS_GOOD, RatePoint, RateRun, largest_stable_rate, rate_sensitivity};
pub use reproduction::{ArmPair, Cell, Equality, Pair, Reproduction, Verdict, compare};
pub use section::Section;
pub use select::{Chosen, Selection};
pub use sign_flip::{DRAWS, EXACT_UP_TO, SignFlip, sign_flip};
pub use stability::{Sides, SpikeRule, diverges, is_not_trained, largest_grad_norm, smoothed_loss, spike_score};
pub use stats::{Interval, Summary, mean, summarize};
pub use sweep::{Finished, Run, Status, Sweep, read_sweep, read_sweep_of, read_sweep_with};
pub use sweeps::compare_sweeps;
pub use table::{Options, Table, table, table_with};
pub use view::{Published, View};
pub use welch::welch;
pub use write::{write_reproduction, write_table, write_tables};
