//! What a run would take: a few real steps, timed, with nothing written.

use std::time::Instant;

use reslab_record::{Progress, Split, Weights};
use reslab_torch::{peak_memory, synchronize};

use crate::learner::{Learner, Watch};
use crate::{Job, TrainError};

/// Times `steps` training steps and one evaluation of `job`'s network; the job's folder is not touched.
///
/// # Errors
/// As [`crate::train`], but for the disk's.
pub fn probe(job: &Job, steps: u64) -> Result<Progress, TrainError> {
    let config = job.config;
    let mut splits = reslab_data::load(&config.data, &job.sources, job.device)?;
    let few = (config.batch() as usize).min(splits.test.len());
    splits.test = splits.test.select(&(0..few).collect::<Vec<_>>())?;
    let mut learner = Learner::new(config, splits, job.seed, job.device)?;
    // The first step allocates and is slower; it is no part of the figure.
    learner.step(0, Watch::Step)?;
    let started = Instant::now();
    for step in 1..=steps {
        learner.step(step, Watch::Step)?;
    }
    synchronize(job.device);
    let seconds_per_step = started.elapsed().as_secs_f64() / steps as f64;
    let started = Instant::now();
    learner.evaluate(Split::Test, Weights::Raw)?;
    synchronize(job.device);
    Ok(Progress::Probe {
        seconds_per_step,
        eval_images_per_s: few as f64 / started.elapsed().as_secs_f64(),
        peak_memory_bytes: peak_memory(job.device),
    })
}
