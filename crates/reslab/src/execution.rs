//! One run in this process: its lock, its folder, and what is left when it fails.

use crate::environment;
use crate::outcome::with_causes;
use crate::signals::STOPPING;
use anyhow::{Context, Result, anyhow};
use reslab_fetch::Sources;
use reslab_record::{
    Done, Failed, FailureClass, Outcome, PlannedRun, Progress, RecordError, RunDir, RunLock, says_out_of_memory,
    without_frames,
};
use reslab_residual::Registry;
use reslab_torch::{keep_freed_memory, open_device, set_threads};
use reslab_train::{Ended, Job, RunConfig, TrainError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Where a run is computed.
pub(crate) struct Site<'a> {
    /// Name of the device.
    pub(crate) device: &'a str,
    /// The run's folder.
    pub(crate) dir: PathBuf,
    /// Where data is looked for.
    pub(crate) sources: Sources,
}

/// The configuration of a planned run, which was checked when it was planned.
pub(crate) fn config_of(run: &PlannedRun, registry: &Registry) -> Result<RunConfig> {
    RunConfig::from_table(&run.config, registry).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow!("run {} of the plan is not valid for this program: {}", run.id, errors.join("; "))
    })
}

/// The job of a planned run: device opened, threads set.
pub(crate) fn job<'a>(run: &PlannedRun, config: &'a RunConfig, site: &Site) -> Result<Job<'a>> {
    // Before anything else touches libtorch: it looks for its CUDA half once.
    let device = open_device(site.device)?;
    set_threads(i32::try_from(run.threads).context("threads")?);
    keep_freed_memory();
    Ok(Job {
        config,
        table: run.config.clone(),
        id: run.id.clone(),
        arm: run.arm.clone(),
        seed: run.seed,
        device,
        dir: site.dir.clone(),
        sources: site.sources.clone(),
        env: environment::of_run(run, site.device, deterministic(run)),
    })
}

/// Whether a run asks for deterministic algorithms.
pub(crate) fn deterministic(run: &PlannedRun) -> bool {
    run.config.get("train").and_then(|train| train.get("deterministic")).and_then(toml::Value::as_bool).unwrap_or(false)
}

/// What became of a run.
#[derive(Debug)]
pub(crate) enum Ran {
    /// It has its result, now or since earlier.
    Done(Outcome),
    /// It was asked to stop, and saved.
    Interrupted,
    /// Another process is at it; nothing was written.
    Elsewhere,
    /// It failed, as recorded in failed.json.
    Failed(Failed),
}

/// Computes `run` under its folder's lock, until it is done or the program is asked to stop.
///
/// # Errors
/// Where its folder can't be written to. Other failures are recorded there.
pub(crate) fn execute(
    run: &PlannedRun,
    site: &Site,
    registry: &Registry,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Ran> {
    if let Some(done) = read_done(&site.dir)? {
        return Ok(Ran::Done(done.outcome));
    }
    let dir = RunDir::create(&site.dir)?;
    let _lock = match RunLock::acquire(&site.dir) {
        Err(RecordError::Locked { .. }) => return Ok(Ran::Elsewhere),
        lock => lock?,
    };
    // Another process may have brought it to its end before the lock was ours.
    if let Some(done) = read_done(&site.dir)? {
        return Ok(Ran::Done(done.outcome));
    }
    let mut last_step = None;
    let mut heard = |event: &Progress| {
        if let Progress::Step { step, .. } = event {
            last_step = Some(*step);
        }
        progress(event);
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| -> Result<Ended> {
        let mut config = config_of(run, registry)?;
        let unusable = || {
            format!("{}/micro_batches.json: remove it, and the batch is split as the config says", site.dir.display())
        };
        if let Some(split) = dir.read_micro_batches().with_context(unusable)? {
            config.split_batch(split.accumulate).with_context(unusable)?;
            dir.log(&format!("memory ran out before: {} micro-batches per batch", split.accumulate))?;
        }
        let job = job(run, &config, site)?;
        dir.write_code_diff(environment::code_diff()).map_err(TrainError::from)?;
        Ok(reslab_train::train(&job, &mut heard, &STOPPING)?)
    }));
    let (class, message) = match outcome {
        Ok(Ok(Ended::Done(outcome))) => return Ok(Ran::Done(outcome)),
        Ok(Ok(Ended::Interrupted { .. })) => return Ok(Ran::Interrupted),
        Ok(Err(error)) => (class_of(&error), with_causes(&error)),
        Err(panic) => class_of_panic(panic.as_ref()),
    };
    let failed = Failed { class, message: without_frames(&message), last_step };
    // On a full disk the log may be refused and failed.json not.
    let logged = dir.log(&format!("failed ({class}): {}", failed.message));
    dir.write_failed(&failed).and(logged).with_context(|| failed.message.clone())?;
    Ok(Ran::Failed(failed))
}

fn read_done(dir: &Path) -> Result<Option<Done>> {
    match RunDir::open(dir) {
        Ok(dir) => Ok(dir.read_done()?),
        Err(_) => Ok(None),
    }
}

fn class_of(error: &anyhow::Error) -> FailureClass {
    error.downcast_ref::<TrainError>().map_or(FailureClass::Bug, TrainError::class)
}

/// tch's plain operators panic with libtorch's text; a lack of memory is told by that text alone.
fn class_of_panic(panic: &(dyn std::any::Any + Send)) -> (FailureClass, String) {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    let text = text.unwrap_or_else(|| "panic without words".to_owned());
    (if says_out_of_memory(&text) { FailureClass::OutOfMemory } else { FailureClass::Bug }, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_lack_of_memory_only_if_libtorch_says_so() {
        let class = |text: &str| class_of_panic(&text.to_owned()).0;
        assert_eq!(class("CUDA out of memory. Tried to allocate 2 GiB"), FailureClass::OutOfMemory);
        assert_eq!(
            class("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            FailureClass::OutOfMemory
        );
        assert_eq!(class("shape '[2]' is invalid"), FailureClass::Bug);
    }
}
