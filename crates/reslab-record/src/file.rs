//! Whole files: read with their path in the error, written by rename.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use tempfile::NamedTempFile;

use crate::{RecordError, Result};

/// Names of files that are being written.
const PARTIAL: (&str, &str) = (".reslab-", ".tmp");

pub(crate) fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(RecordError::io(path, "read"))
}

/// Writes a whole file so that a reader sees the old bytes or the new ones, never a part: a temporary file in the
/// same folder, fsync, rename, fsync of the folder.
///
/// # Errors
/// Names the path and the step that failed. The old file is then still there.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomic_with(path, |file| file.write_all(bytes))
}

/// [`write_atomic`] for what does not lie in memory as a whole: `body` writes it piece by piece.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_atomic_with(path: &Path, body: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let folder = parent(path);
    let io = |action| RecordError::io(path, action);
    let file = partial(folder).map_err(io("create a temporary file for"))?;
    let mut writer = BufWriter::new(file.as_file());
    body(&mut writer).and_then(|()| writer.flush()).map_err(io("write"))?;
    drop(writer);
    file.as_file().sync_all().map_err(io("write"))?;
    file.persist(path).map_err(|e| io("rename a temporary file to")(e.error))?;
    sync_folder(folder)
}

/// [`write_atomic`], unless the file has these bytes: a published folder may be one that can't be written to.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_if_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) { Ok(()) } else { write_atomic(path, bytes) }
}

/// A new temporary file, locked: so that it can be told from what a process that was killed left.
fn partial(folder: &Path) -> std::io::Result<NamedTempFile> {
    loop {
        let file = tempfile::Builder::new()
            .prefix(PARTIAL.0)
            .suffix(PARTIAL.1)
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(folder)?;
        // A file system without locks refuses; then nothing is cleared away either.
        let _ = file.as_file().lock();
        // Before it was locked it could be taken for a left-over one.
        if file.path().exists() {
            return Ok(file);
        }
    }
}

/// Removes temporary files in `folder` that no process writes any more: theirs was killed.
///
/// # Errors
/// Names the folder, or the file that can't be removed.
pub fn clear_partials(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(RecordError::io(folder, "list"))? {
        let entry = entry.map_err(RecordError::io(folder, "list"))?;
        let name = entry.file_name();
        let is_partial = name.to_str().is_some_and(|name| name.starts_with(PARTIAL.0) && name.ends_with(PARTIAL.1));
        // One that is gone was written and renamed meanwhile.
        let Some(file) = is_partial.then(|| File::open(entry.path()).ok()).flatten() else { continue };
        if file.try_lock().is_ok() {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file that need not be there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(RecordError::io(path, "remove")(e)),
        _ => Ok(()),
    }
}

/// The folder of a file; the current one for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a rename last through a loss of power.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(RecordError::io(folder, "sync"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_killed_process_left_is_cleared_and_what_is_being_written_is_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".reslab-dead.tmp"), "half").unwrap();
        fs::write(dir.path().join("mine.tmp"), "whole").unwrap();
        let alive = partial(dir.path()).unwrap();
        let name = alive.path().file_name().unwrap().to_str().unwrap().to_owned();
        clear_partials(dir.path()).unwrap();
        assert_eq!(names(dir.path()), [name, "mine.tmp".to_owned()]);
        drop(alive);
        write_atomic(&dir.path().join("mine.tmp"), b"new").unwrap();
        assert_eq!(names(dir.path()), ["mine.tmp"]);
        assert_eq!(fs::read(dir.path().join("mine.tmp")).unwrap(), b"new");
    }

    /// Writers beside a cleaner that never pauses: none of them may lose its file.
    #[test]
    fn clearing_never_takes_a_file_from_a_writer() {
        let dir = tempfile::tempdir().unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    clear_partials(dir.path()).unwrap();
                }
            });
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    let path = dir.path().join(format!("{writer}.json"));
                    scope.spawn(move || (0..200).try_for_each(|i: u32| write_atomic(&path, &i.to_le_bytes())))
                })
                .collect();
            let written: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            written.into_iter().for_each(|result| result.unwrap());
        });
        assert_eq!(names(dir.path()), ["0.json", "1.json"]);
    }
}
