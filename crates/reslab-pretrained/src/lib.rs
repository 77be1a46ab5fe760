//! Checkpoints of other programs, read exactly and written again; no libtorch.
//!
//! [`Pretrained::open`] maps a file into memory, recognises by its keys who wrote it ([`Layout`]), reads the network off
//! the shapes ([`Architecture`]) and says which of reslab's parameters each tensor fills ([`Mapped`]). Every key of the
//! file is a parameter, is ignored for a stated reason, or is an error; every parameter is filled, or it is an error.
//!
//! [`write`](fn@write) goes the other way by the same table, which stands in `schema.rs` once for both directions.
//!
//! A file that is made shorter by another program while it is mapped ends the process, as with every mapping.
//!
//! Shapes: D width, H heads, P side of a patch, C channels, N positions, R registers, K classes.

mod account;
mod architecture;
mod config_json;
mod dtype;
mod error;
mod file;
mod hints;
mod ignored;
mod keys;
mod layout;
mod locate;
mod pretrained;
mod python;
mod read_off;
mod schema;
mod spelling;
mod target;
mod weight;
mod write;

pub use architecture::{Architecture, Kind, Mlp, NormPlacement, Pool, Position, QkvBias};
pub use dtype::Dtype;
pub use error::{KeyReport, PretrainedError, WrongShape};
pub use layout::Layout;
pub use pretrained::{Mapped, Part, Pretrained, Weights};
pub use python::python_line;
pub use target::{Target, remarks};
pub use weight::{GAMMA, Weight, fold_gamma, layer_before, widen_gammas};
pub use write::write;
