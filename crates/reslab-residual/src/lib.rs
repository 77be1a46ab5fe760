//! Residual-scaling strategies: the object of study.
//!
//! A [`Strategy`] says how the branches of a network are joined to its residual stream. Each one is a file of
//! `src/variants/` that is found by the build script; [`Registry`] holds them by name. Drop path is an axis that is
//! crossed with every strategy ([`DropPathConfig`], [`connect`]), never a strategy itself.
//!
//! Shapes: B batch, N tokens, D width, S width of the stream (D unless a strategy opens several), H heads.

mod compatible;
mod connect;
mod drop_path;
mod parts;
mod pass;
mod registry;
mod site;
mod start;
mod strategy;
pub mod streams;
mod telemetry;

pub use compatible::{check_compatible, require_norm};
pub use connect::{connect, connect_apart};
pub use drop_path::{DrawStep, DropMode, DropPath, DropPathConfig, Masks, Schedule, subset_size};
pub use parts::{LayerNorm, NORM_EPS, gate_share, normalize};
pub use pass::{Mode, Pass};
pub use registry::{Registry, Variant};
pub use site::{BranchKind, LINEAR_STD, Norm, Site, Weight};
pub use start::{Start, start};
pub use strategy::{
    Branch, DropRule, Gamma, Inner, InnerMap, Join, Network, OneStream, OptimScale, Strategy, StrategyClone,
    StrategyError, Stream,
};
pub use telemetry::{BlockFigures, Gate, LayerTelemetry, Probe, ProbeFigures, SiteFigures};

/// The strategies that come with reslab: one module per file of `src/variants/`.
pub mod variants {
    include!(concat!(env!("OUT_DIR"), "/variants.rs"));
}
