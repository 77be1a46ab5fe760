//! Taking over a pretrained network: what becomes of its gammas, which weights are trained and how fast, and what that does to the network
//! before its first step.

mod config;
mod gamma;
mod knn;
mod rates;
mod source;
mod start;

pub use config::{Backbone, FinetuneConfig, GammaRule, HeadRule, Knn, KnnRule, Off, WeightsFrom};
pub use start::StartReport;

pub(crate) use rates::{Depths, is_trained, lr_factor};
pub(crate) use source::{Source, complete, fitted};
pub(crate) use start::take_over;
