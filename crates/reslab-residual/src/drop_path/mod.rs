//! Drop path (stochastic depth): the table, and the draws of a step.

mod config;
mod draw;

pub use config::{DropMode, DropPathConfig, Schedule, subset_size};
pub(crate) use draw::Dropped;
pub use draw::{DrawStep, DropPath, Masks};

#[cfg(test)]
mod tests;
