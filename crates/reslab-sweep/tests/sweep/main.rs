//! The crate from outside: sweep files in temporary folders, a fake check in the place of the model, shell scripts in the
//! place of runs.

mod again;
mod common;
mod configs;
mod estimate;
mod execute;
mod freeze;
mod hostile;
mod identity;
mod names;
mod plan;
mod prune;
mod refusals;
mod stop;
