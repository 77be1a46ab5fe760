//! What may help a failed run.

use reslab_record::{Failed, FailureClass, MicroBatches, PlannedRun, RecordError, RunDir};

use crate::job::{Job, Remedy};

/// Prepares the folder of a run that failed for another start, where one may help. `retries` were tried before.
pub(crate) fn remedy(job: &Job<'_>, run: &PlannedRun, failed: &Failed, retries: u32) -> Option<Remedy> {
    let dir = RunDir::open(&run.dir(job.sweep)).ok()?;
    let remedy = match failed.class {
        class if class.may_pass() => {
            (retries < job.retries).then_some(Remedy::Retry { number: retries + 1, of: job.retries })?
        }
        FailureClass::OutOfMemory => split_more(&dir, run).ok()??,
        _ => return None,
    };
    dir.clear_failed().ok()?;
    Some(remedy)
}

/// Writes down twice as many micro-batches as before, where the batch can be split so.
fn split_more(dir: &RunDir, run: &PlannedRun) -> Result<Option<Remedy>, RecordError> {
    let Some(split) = MicroBatches::more(&run.config, dir.read_micro_batches()?) else { return Ok(None) };
    dir.write_micro_batches(&split)?;
    Ok(Some(Remedy::Accumulate { micro_batches: split.accumulate }))
}
