//! Event files on disk.

use reslab_record::{Plan, PlannedRun, clear_partials, write_atomic};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::framing::append;
use crate::proto::Event;
use crate::{EventError, hparams, run};

/// The folder of event files in a sweep's folder; below it each run has one, named as its folder of records.
pub const FOLDER: &str = "tensorboard";
/// The event file of a folder. TensorBoard takes any name with `tfevents` in it.
pub const FILE: &str = "events.out.tfevents.0.reslab";

/// Writes the event files of a sweep's folder: of its plan and of each run that has records. Files of runs that the plan no
/// longer has are removed. Returns how many runs have one.
///
/// # Errors
/// A file or folder cannot be written.
pub fn write_events(sweep: &Path, plan: &Plan) -> Result<usize, EventError> {
    write_experiment(sweep, plan)?;
    let mut written = 0;
    for run in &plan.runs {
        written += usize::from(write_run(sweep, run)?);
    }
    remove_others(sweep, plan)?;
    Ok(written)
}

/// Writes the event file of one run, which may still go on, from its records alone. False where there are none.
///
/// # Errors
/// A file or folder cannot be written.
pub fn write_run(sweep: &Path, run: &PlannedRun) -> Result<bool, EventError> {
    let folder = folder(sweep, run);
    match run::bytes(sweep, run) {
        Some(bytes) => settle(&folder, &bytes).map(|()| true),
        None => remove(&folder).map(|()| false),
    }
}

fn write_experiment(sweep: &Path, plan: &Plan) -> Result<(), EventError> {
    let mut bytes = Vec::new();
    append(&mut bytes, &Event::version());
    append(&mut bytes, &Event::new(0.0, 0, vec![hparams::experiment(plan)]));
    settle(&sweep.join(FOLDER), &bytes)
}

fn folder(sweep: &Path, run: &PlannedRun) -> PathBuf {
    sweep.join(FOLDER).join(run::name(run))
}

/// Makes the file in `folder` have these bytes. One that has them is left alone. Where it has their beginning the rest is
/// appended, since a TensorBoard that is open reads on in the file it has, and would not see another one of that name. Else
/// the whole file is written, by rename.
fn settle(folder: &Path, bytes: &[u8]) -> Result<(), EventError> {
    let path = folder.join(FILE);
    match fs::read(&path) {
        Ok(old) if old == bytes => return Ok(()),
        Ok(old) if !old.is_empty() && bytes.starts_with(&old) && extend(&path, &old, bytes).is_ok() => return Ok(()),
        _ => {}
    }
    fs::create_dir_all(folder).map_err(EventError::io(folder, "create the folder"))?;
    clear_partials(folder)?;
    Ok(write_atomic(&path, bytes)?)
}

/// Appends what follows `old`. Another process that writes events of this sweep may do so at the same moment: the lock
/// parts them, and the second finds a longer file and writes it whole.
fn extend(path: &Path, old: &[u8], bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.lock()?;
    if file.metadata()?.len() != old.len() as u64 {
        return Err(ErrorKind::ResourceBusy.into());
    }
    file.write_all(&bytes[old.len()..])
}

/// Removes the event files of runs that are not in the plan.
fn remove_others(sweep: &Path, plan: &Plan) -> Result<(), EventError> {
    let all = sweep.join(FOLDER);
    let known: Vec<PathBuf> = plan.runs.iter().map(|run| folder(sweep, run)).collect();
    for entry in fs::read_dir(&all).map_err(EventError::io(&all, "list"))? {
        let path = entry.map_err(EventError::io(&all, "list"))?.path();
        if path.is_dir() && !known.contains(&path) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes the event file of a folder, and the folder, unless somebody has put more into it.
fn remove(folder: &Path) -> Result<(), EventError> {
    let path = folder.join(FILE);
    match fs::remove_file(&path) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        result => result.map_err(EventError::io(&path, "remove"))?,
    }
    match fs::remove_dir(folder) {
        Err(e) if e.kind() != ErrorKind::DirectoryNotEmpty => Err(EventError::io(folder, "remove")(e)),
        _ => Ok(()),
    }
}
