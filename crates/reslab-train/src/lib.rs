//! One run: a [`RunConfig`] in, a record out.
//!
//! [`train`] is the loop, read from top to bottom; [`Learner::step`] is one training step. Nothing here knows a
//! strategy's name.
//!
//! Shapes: B batch, N tokens, D width, H heads, C classes (of logits; channels of images), L blocks, P parameters.

mod config;
mod ema;
mod error;
mod evaluate;
mod finetune;
mod gradients;
mod groups;
mod interval;
mod job;
mod learner;
mod probe;
mod records;
mod run;
mod run_config;
mod saved;

pub use config::{OptimConfig, Precision, ReportWeights, Schedule, TrainConfig};
pub use error::TrainError;
pub use evaluate::Scores;
pub use finetune::{Backbone, FinetuneConfig, GammaRule, HeadRule, Knn, KnnRule, Off, StartReport, WeightsFrom};
pub use interval::Interval;
pub use job::Job;
pub use learner::{Learner, Measured, Watch};
pub use probe::probe;
pub use run::{Ended, train};
pub use run_config::{Facts, RunConfig, TABLES};
