//! The CSV files of a run: they only grow, and are cut back to a checkpoint's step before a run goes on.

use flate2::read::GzDecoder;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::file::write_atomic;
use crate::rows::{EvalRow, LayerRow, ProbeRow, Row, StepRow};
use crate::{RecordError, Result};

/// Appends rows to one CSV file.
#[derive(Debug)]
pub struct RowWriter<R> {
    path: PathBuf,
    file: File,
    /// Bytes that the file holds, unless somebody else writes to it.
    length: u64,
    row: PhantomData<R>,
}

/// Writes `steps.csv`.
pub type StepWriter = RowWriter<StepRow>;
/// Writes `evals.csv`.
pub type EvalWriter = RowWriter<EvalRow>;
/// Writes `probes.csv`.
pub type ProbeWriter = RowWriter<ProbeRow>;
/// Writes `layers.csv`.
pub type LayerWriter = RowWriter<LayerRow>;

/// What [`RowWriter::cut_back`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutBack {
    /// Rows that stay.
    pub kept: u64,
    /// Bytes that were removed.
    pub removed_bytes: u64,
    /// The first line that was no whole row, if one was met before the step: a write was torn.
    pub torn: Option<String>,
}

impl<R: Row> RowWriter<R> {
    /// Opens the file in a run's folder, with its header where it is new. What follows the last whole line is cut
    /// off: the next row must not be glued to a torn one.
    ///
    /// # Errors
    /// Names the file: not writable, or with another header.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(R::FILE);
        let header = header::<R>();
        let is_new = match std::fs::metadata(&path) {
            // A header that power loss has torn holds no rows.
            Ok(meta) => meta.len() < header.len() as u64 && header.as_bytes().starts_with(&read_bytes(&path)?),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => true,
            Err(e) => return Err(RecordError::io(&path, "open")(e)),
        };
        if is_new {
            write_atomic(&path, header.as_bytes())?;
        }
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(&path)
            .map_err(RecordError::io(&path, "open for writing"))?;
        let mut writer = Self { path, file, length: 0, row: PhantomData };
        writer.length = writer.cut_torn_line()?;
        Ok(writer)
    }

    /// Appends one row.
    ///
    /// # Errors
    /// Names the file.
    pub fn append(&mut self, row: &R) -> Result<()> {
        self.append_all(std::slice::from_ref(row))
    }

    /// Appends rows with one write.
    ///
    /// # Errors
    /// Names the file.
    pub fn append_all(&mut self, rows: &[R]) -> Result<()> {
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
        for row in rows {
            writer.serialize(row).map_err(|e| RecordError::parse(&self.path, e))?;
        }
        let bytes = writer.into_inner().map_err(|e| RecordError::parse(&self.path, e))?;
        self.file.write_all(&bytes).map_err(RecordError::io(&self.path, "append to"))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Waits until all rows are on the disk. Call it before a checkpoint that covers them is written.
    ///
    /// # Errors
    /// Names the file; also where it was removed, replaced, cut or added to by somebody else since it was opened, so
    /// that rows would be missing though every write succeeded.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(RecordError::io(&self.path, "sync"))?;
        let changed = |problem: String| Err(RecordError::Changed { path: self.path.clone(), problem });
        let there = match std::fs::metadata(&self.path) {
            Ok(there) => there,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return changed("is gone".to_owned()),
            Err(e) => return Err(RecordError::io(&self.path, "read")(e)),
        };
        let mine = self.file.metadata().map_err(RecordError::io(&self.path, "read"))?;
        if (there.dev(), there.ino()) != (mine.dev(), mine.ino()) {
            return changed("is another file than the one that was opened".to_owned());
        }
        if there.len() != self.length {
            return changed(format!("holds {} bytes where {} were written", there.len(), self.length));
        }
        Ok(())
    }

    /// Removes the rows of `step` and later, and a torn last line: a run that goes on from a checkpoint of `step`
    /// writes them again.
    ///
    /// # Errors
    /// Names the file.
    pub fn cut_back(&mut self, step: u64) -> Result<CutBack> {
        let io = |action| RecordError::io(&self.path, action);
        let length = self.file.metadata().map_err(io("read"))?.len();
        self.file.seek(SeekFrom::Start(0)).map_err(io("read"))?;
        let mut reader = BufReader::new(&self.file);
        let mut keep = CutBack { kept: 0, removed_bytes: 0, torn: None };
        let mut end = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line).map_err(io("read"))?;
            if read == 0 {
                break;
            }
            if end > 0 {
                match step_of::<R>(&line) {
                    Some(found) if found < step => keep.kept += 1,
                    Some(_) => break,
                    None => {
                        keep.torn = Some(String::from_utf8_lossy(&line).trim_end().to_owned());
                        break;
                    }
                }
            }
            end += read as u64;
        }
        keep.removed_bytes = length - end;
        self.length = end;
        self.file.set_len(end).and_then(|()| self.file.sync_data()).map_err(io("cut back"))?;
        Ok(keep)
    }

    /// The bytes that stay.
    fn cut_torn_line(&mut self) -> Result<u64> {
        let io = |action| RecordError::io(&self.path, action);
        let bytes = read_bytes(&self.path)?;
        if !bytes.starts_with(header::<R>().as_bytes()) {
            let found = String::from_utf8_lossy(bytes.split(|b| *b == b'\n').next().unwrap_or_default()).into_owned();
            let problem =
                format!("its header is not that of this version: expected {}, found {found}", R::HEADER.join(","));
            return Err(RecordError::parse(&self.path, problem));
        }
        let end = whole_lines(&bytes);
        if end < bytes.len() {
            self.file.set_len(end as u64).map_err(io("cut back"))?;
        }
        Ok(end as u64)
    }
}

/// The rows of one CSV file, and what was wrong with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows<R> {
    /// All rows before the first damage.
    pub rows: Vec<R>,
    /// In words: the file is missing, or from which line on it can't be read.
    pub problem: Option<String>,
}

/// Reads a CSV file of the run's folder `dir`, plain or (published results) as `.csv.gz`.
///
/// Damage ends the reading, not the program: what was read before it is returned, and the damage is named. A last
/// line without its line feed is torn: even where it parses, its last number may be cut.
pub fn read_rows<R: Row>(dir: &Path) -> Rows<R> {
    match read_plain_or_gz(&dir.join(R::FILE)) {
        Ok(Some((bytes, problem))) => parse_rows(&bytes, problem),
        Ok(None) => Rows { rows: Vec::new(), problem: Some(format!("{}: missing", R::FILE)) },
        Err(e) => Rows { rows: Vec::new(), problem: Some(format!("{}: cannot read: {e}", R::FILE)) },
    }
}

fn parse_rows<R: Row>(bytes: &[u8], mut problem: Option<String>) -> Rows<R> {
    let end = whole_lines(bytes);
    let mut rows = Vec::new();
    for (index, row) in csv::Reader::from_reader(&bytes[..end]).into_deserialize().enumerate() {
        match row {
            Ok(row) => rows.push(row),
            Err(e) => {
                problem.get_or_insert(format!("{}: damaged from line {} on: {e}", R::FILE, index + 2));
                return Rows { rows, problem };
            }
        }
    }
    if end < bytes.len() {
        problem.get_or_insert(format!("{}: the last line is torn and was left out", R::FILE));
    }
    Rows { rows, problem }
}

/// The bytes of `path`, or of `path.gz` unpacked; for a damaged archive what can be unpacked, and the damage.
pub(crate) fn read_plain_or_gz(path: &Path) -> std::io::Result<Option<(Vec<u8>, Option<String>)>> {
    match std::fs::read(path) {
        Ok(bytes) => return Ok(Some((bytes, None))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let packed = match File::open(path.with_extension("csv.gz")) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut bytes = Vec::new();
    let problem = GzDecoder::new(packed).read_to_end(&mut bytes).err();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(Some((bytes, problem.map(|e| format!("{name}.gz: damaged: {e}")))))
}

fn header<R: Row>() -> String {
    R::HEADER.join(",") + "\n"
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(RecordError::io(path, "read"))
}

/// The length of the whole lines: up to and with the last line feed.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)
}

/// The step of a whole line; `None` where it is torn.
fn step_of<R: Row>(line: &[u8]) -> Option<u64> {
    if line.last() != Some(&b'\n') {
        return None;
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line);
    let mut rows = reader.deserialize::<R>();
    rows.next()?.ok().map(|row| row.step())
}

#[cfg(test)]
mod tests;
