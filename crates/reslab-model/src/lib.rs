//! The networks. Their only variable part is the strategy: this crate names none.
//!
//! Shapes: B batch, C channels (classes where a head is concerned), N tokens, D width, S width of the stream, H heads.

mod attention;
mod block;
mod config;
mod embed;
mod error;
mod flops;
mod layers;
mod mlp;
mod vit;

pub use config::{InputShape, ModelConfig, ModelKind, NormPlacement, Pool};
pub use error::ModelError;
pub use flops::flops_per_image;
pub use vit::Vit;
