//! `reslab inspect`: the gammas of a checkpoint, and what its branches add.

mod gamma;
mod look;
mod table;

pub(crate) use gamma::gammas;
pub(crate) use look::{Look, look};
pub(crate) use table::{Row, csv, lines, rows, summary};
