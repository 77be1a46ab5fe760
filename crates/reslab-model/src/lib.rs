//! The networks. Their only variable part is the strategy: this crate names none.
//!
//! Shapes: B batch, C channels (classes where a head is concerned), N tokens, D width, S width of the stream, H heads.

mod attention;
mod block;
mod class_stage;
mod config;
mod embed;
mod error;
mod flops;
mod layers;
mod load;
mod mlp;
mod resize;
mod rope;
mod vit;
mod words;

pub use config::{InputShape, ModelConfig};
pub use error::ModelError;
pub use flops::flops_per_image;
pub use load::{LoadError, LoadOptions, LoadReport, Loaded, Resized};
pub use resize::Resize;
pub use vit::Vit;
pub use words::{MlpKind, ModelKind, NormPlacement, Pool, Position, QkvBias};
