//! The plan, frozen: written under the sweep's lock, an older one kept, runs that are known left where they are.

use std::fs;
use std::path::Path;
use std::time::Duration;

use reslab_record::{Plan, PlannedRun, RecordError, RunLock};

use crate::state::is_done;

/// How long another process that writes the plan is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// A plan as it stands on disk now, and what it changed there.
#[derive(Debug, Clone, PartialEq)]
pub struct Frozen {
    /// The plan; a run whose id was known keeps the folder that it has.
    pub plan: Plan,
    /// Runs that the folder's plan did not have before.
    pub added: Vec<PlannedRun>,
    /// How many runs it had already.
    pub kept: usize,
    /// Runs that it had and has no more: their records stay, the tables leave them out.
    pub removed: Vec<PlannedRun>,
    /// Whether the folder had no plan before.
    pub is_new: bool,
}

/// Writes `plan.toml` into the sweep's folder, which is made if need be.
///
/// # Errors
/// Another process is at the plan, the plan that is there cannot be read, or a file cannot be written.
pub fn freeze(plan: &Plan, sweep: &Path) -> Result<Frozen, RecordError> {
    fs::create_dir_all(sweep).map_err(|source| RecordError::Io {
        path: sweep.to_owned(),
        action: "create the folder",
        source,
    })?;
    let _lock = RunLock::wait(sweep, PATIENCE)?;
    let frozen = preview(plan, sweep)?;
    frozen.plan.write(sweep)?;
    Ok(frozen)
}

/// What [`freeze`] would give; nothing is written.
///
/// # Errors
/// The plan that is there cannot be read.
pub fn preview(plan: &Plan, sweep: &Path) -> Result<Frozen, RecordError> {
    let old = if Plan::path(sweep).exists() { Some(Plan::read(sweep)?) } else { None };
    if let Some(old) = old.as_ref().filter(|old| old.name != plan.name) {
        // Names that differ only in characters that no folder's name has would share one.
        let problem = format!(
            "is the plan of the sweep {:?}, and this one is {:?}; rename one, or use `--out` with another folder",
            old.name, plan.name
        );
        return Err(RecordError::Parse { path: Plan::path(sweep), problem });
    }
    let mut plan = plan.clone();
    let folders = folders(sweep);
    for run in &mut plan.runs {
        keep_folder(run, old.as_ref(), &folders);
    }
    date_study(&mut plan, old.as_ref(), sweep);
    let has = |runs: &[PlannedRun], id: &str| runs.iter().any(|run| run.id == id);
    let before = old.as_ref().map_or(&[][..], |old| &old.runs);
    let added: Vec<PlannedRun> = plan.runs.iter().filter(|run| !has(before, &run.id)).cloned().collect();
    let removed = before.iter().filter(|run| !has(&plan.runs, &run.id)).cloned().collect();
    let kept = plan.runs.len() - added.len();
    Ok(Frozen { plan, added, kept, removed, is_new: old.is_none() })
}

/// A primary contrast that is named, or changed, when there are results was not named before its runs: the plan says so.
/// A plan that was copied from elsewhere keeps what it says.
fn date_study(plan: &mut Plan, old: Option<&Plan>, sweep: &Path) {
    let asks = |plan: &Plan| {
        let study = plan.study.as_ref()?;
        Some((study.primary.clone(), plan.metric.clone(), plan.select.clone()))
    };
    let asked = asks(plan);
    let known = old.filter(|old| asks(old) == asked).and_then(|old| old.study.as_ref());
    let done = || plan.runs.iter().filter(|run| is_done(run, sweep)).count() as u64;
    let done_before = known.map_or_else(done, |study| study.done_before);
    if let Some(study) = &mut plan.study {
        study.done_before = study.done_before.max(done_before);
    }
}

/// The folders of runs that are there, by name.
fn folders(sweep: &Path) -> Vec<String> {
    let entries = fs::read_dir(sweep.join("runs")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// A run is its id: under a new arm's name, or taken up again after it was left out, it goes on in the folder that it has.
fn keep_folder(run: &mut PlannedRun, old: Option<&Plan>, folders: &[String]) {
    let known = old.and_then(|old| old.runs.iter().find(|known| known.id == run.id));
    if let Some(known) = known {
        run.folder.clone_from(&known.folder);
        return;
    }
    let end = format!("-s{}-{}", run.seed, &run.id[..8.min(run.id.len())]);
    let own = run.folder.strip_prefix("runs/").unwrap_or("").to_owned();
    if !folders.contains(&own)
        && let Some(found) = folders.iter().find(|name| name.ends_with(&end))
    {
        run.folder = format!("runs/{found}");
    }
}
