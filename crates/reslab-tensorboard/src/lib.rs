//! Records become event files, which TensorBoard shows: `tensorboard --logdir results/`.
//!
//! [`write_events`] writes `tensorboard/` into a sweep's folder: one file for the sweep's axes, and one per run with its
//! scalars, histograms of gamma and hyper-parameters. The records stay the only truth: event files are made from them alone,
//! and equal records give equal bytes, so that writing them again changes nothing and doubles no point.

mod error;
mod framing;
mod hparams;
mod proto;
mod run;
mod write;

pub use error::EventError;
pub use write::{FILE, FOLDER, write_events, write_run};
