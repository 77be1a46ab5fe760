//! Whole files: read with their path in the error, written by rename.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::{RecordError, Result};

pub(crate) fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(RecordError::io(path, "read"))
}

/// Writes a whole file so that a reader sees the old bytes or the new ones, never a part: a temporary file in the
/// same folder, fsync, rename, fsync of the folder.
///
/// # Errors
/// Names the path and the step that failed. The old file is then still there.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = parent(path);
    let io = |action| RecordError::io(path, action);
    let mut file = tempfile::Builder::new()
        .prefix(".reslab-")
        .suffix(".tmp")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(io("create a temporary file for"))?;
    file.write_all(bytes).map_err(io("write"))?;
    file.as_file().sync_all().map_err(io("write"))?;
    file.persist(path).map_err(|e| io("rename a temporary file to")(e.error))?;
    sync_folder(folder)
}

/// The folder of a file; the current one for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a rename last through a loss of power.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(RecordError::io(folder, "sync"))
}
