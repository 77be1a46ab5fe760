//! One run, from its first line to done.json.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use reslab_record::{Outcome, Progress, Split, Weights};

use crate::learner::{Learner, Watch};
use crate::records::Records;
use crate::saved::{Best, restore, save};
use crate::{Job, ReportWeights, TrainError};

/// How [`train`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The run is done: a result, recorded in done.json.
    Done(Outcome),
    /// It was asked to stop, and goes on at this step when it is started again.
    Interrupted {
        /// Steps that are done and saved.
        step: u64,
    },
}

/// Computes the run of `job` in its folder, from its checkpoint if it has one, until it is done or `stop` is set.
///
/// # Errors
/// When data, device or disk refuse. A loss or gradient that is not finite ends the run as a result.
pub fn train(job: &Job, progress: &mut dyn FnMut(&Progress), stop: &AtomicBool) -> Result<Ended, TrainError> {
    let config = job.config;
    let mut records = Records::start(job)?;

    // ---- data, network, optimizer
    let splits = reslab_data::load(&config.data, &job.sources, job.device)?;
    let mut learner = Learner::new(config, splits, job.seed, job.device)?;
    let mut best = Best::default();

    // ---- where it goes on
    let start = restore(job, &mut learner, &mut best, &mut records)?;
    records.began(&learner, start)?;
    records.log_all(learner.take_notices())?;
    progress(&Progress::Start {
        id: job.id.clone(),
        steps: config.steps(),
        from_step: start,
        parameters: learner.num_parameters(),
    });
    if let Some(found) = learner.start() {
        progress(&Progress::Note { text: found.line() });
    }

    // ---- steps
    let every = |interval: u64, step: u64| interval > 0 && step.is_multiple_of(interval);
    let mut saved = Instant::now();
    for step in start..config.steps() {
        if stop.load(Ordering::Relaxed) {
            save(job, &learner, &best, step, &mut records)?;
            return Ok(Ended::Interrupted { step });
        }
        let watch = if every(config.train.telemetry_every, step) { Watch::Layers } else { Watch::Step };
        let measured = learner.step(step, watch)?;
        progress(&records.step(&learner, step, &measured)?);
        records.log_all(learner.take_notices())?;
        if !measured.is_finite() {
            let outcome = Outcome::NonFinite { step };
            records.end(&learner, outcome, step + 1)?;
            progress(&Progress::End { outcome });
            return Ok(Ended::Done(outcome));
        }
        let done = step + 1;
        if every(config.train.eval_every, done) && done < config.steps() {
            validate(&mut learner, step, &mut best, &mut records, progress)?;
        }
        if config.train.checkpoint_every.is_due(done, saved.elapsed()) && done < config.steps() {
            save(job, &learner, &best, done, &mut records)?;
            saved = Instant::now();
            progress(&Progress::Checkpoint { step: done });
        }
    }

    // ---- the end
    finish(job, &mut learner, &mut best, &mut records, progress)?;
    Ok(Ended::Done(Outcome::Finished))
}

/// Validation once more, the last checkpoint, then the only look at the test split.
fn finish(
    job: &Job,
    learner: &mut Learner,
    best: &mut Best,
    records: &mut Records,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), TrainError> {
    let (report, steps) = (learner.config().train.report, learner.config().steps());
    validate(learner, steps - 1, best, records, progress)?;
    // From here a run that is killed goes on without a step. It is what the run leaves as its network.
    save(job, learner, best, steps, records)?;
    if let (ReportWeights::BestVal, Some(weights)) = (report, best.weights()) {
        learner.set_weights(weights);
    }
    for weights in learner.kinds_of_weights() {
        let scores = learner.evaluate(Split::Test, weights)?;
        records.log_all(learner.take_notices())?;
        progress(&records.evaluation(steps - 1, Split::Test, weights, scores)?);
    }
    records.choose(best.reported(report));
    records.end(learner, Outcome::Finished, steps)?;
    progress(&Progress::End { outcome: Outcome::Finished });
    Ok(())
}

/// Evaluates on the validation split, if there is one, and keeps the weights that were best on it where the run reports
/// those.
fn validate(
    learner: &mut Learner,
    step: u64,
    best: &mut Best,
    records: &mut Records,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), TrainError> {
    if !learner.validates() {
        return Ok(());
    }
    if learner.config().train.telemetry_every > 0 {
        records.probe(step, &learner.probe()?)?;
    }
    for weights in learner.kinds_of_weights() {
        let scores = learner.evaluate(Split::Val, weights)?;
        records.log_all(learner.take_notices())?;
        progress(&records.evaluation(step, Split::Val, weights, scores)?);
        if weights == Weights::Raw {
            best.offer(step, scores, learner);
        }
    }
    Ok(())
}
