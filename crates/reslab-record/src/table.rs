//! The CSV files of a run: they only grow, and are cut back to a checkpoint's step before a run goes on.

use flate2::read::GzDecoder;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use crate::file::write_atomic;
use crate::rows::{EvalRow, LayerRow, ProbeRow, Row, StepRow};
use crate::{RecordError, Result};

/// Appends rows to one CSV file.
#[derive(Debug)]
pub struct RowWriter<R> {
    path: PathBuf,
    file: File,
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
        let mut writer = Self { path, file, row: PhantomData };
        writer.cut_torn_line()?;
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
        self.file.write_all(&bytes).map_err(RecordError::io(&self.path, "append to"))
    }

    /// Waits until all rows are on the disk. Call it before a checkpoint that covers them is written.
    ///
    /// # Errors
    /// Names the file.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(RecordError::io(&self.path, "sync"))
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
        self.file.set_len(end).and_then(|()| self.file.sync_data()).map_err(io("cut back"))?;
        Ok(keep)
    }

    fn cut_torn_line(&mut self) -> Result<()> {
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
        Ok(())
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
mod tests {
    use super::*;
    use crate::{Branch, Split, Weights};
    use std::fs;

    fn eval(step: u64) -> EvalRow {
        let (split, weights) = (Split::Val, Weights::Raw);
        EvalRow { step, split, weights, loss: f64::NAN, top1: 0.1 + 0.2, top5: 1.0, images: 9 }
    }

    fn text(dir: &Path) -> String {
        fs::read_to_string(dir.join("evals.csv")).unwrap()
    }

    fn write(dir: &Path, steps: impl IntoIterator<Item = u64>) {
        let mut writer = EvalWriter::open(dir).unwrap();
        for step in steps {
            writer.append(&eval(step)).unwrap();
        }
    }

    #[test]
    fn a_file_has_one_header_and_the_words_of_the_interface() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), [0]);
        write(dir.path(), [1]);
        let row = "val,raw,NaN,0.30000000000000004,1.0,9\n";
        assert_eq!(text(dir.path()), format!("step,split,weights,loss,top1,top5,images\n0,{row}1,{row}"));
        assert_eq!(StepRow::HEADER[..5], ["step", "epoch", "loss", "lr", "grad_norm"]);
        assert_eq!(StepRow::HEADER[StepRow::HEADER.len() - 2..], ["images_per_s", "seconds"], "times come last");
    }

    #[test]
    fn an_undefined_figure_is_an_empty_field_and_nan_is_a_word() {
        let dir = tempfile::tempdir().unwrap();
        let mut row = StepRow {
            step: 3,
            epoch: 1.5,
            loss: f64::INFINITY,
            lr: 1e-5,
            grad_norm: f64::NAN,
            grad_norm_attention: None,
            grad_norm_mlp: Some(2.0),
            grad_norm_gamma: Some(f64::NAN),
            grad_norm_embedding: None,
            grad_norm_head: Some(f64::NEG_INFINITY),
            weight_update_norm: None,
            images_per_s: 1e21,
            seconds: 0.1,
        };
        let mut writer = StepWriter::open(dir.path()).unwrap();
        writer.append(&row).unwrap();
        writer.sync().unwrap();
        let text = fs::read_to_string(dir.path().join("steps.csv")).unwrap();
        assert_eq!(text.lines().nth(1).unwrap(), "3,1.5,inf,0.00001,NaN,,2.0,NaN,,-inf,,1e21,0.1");

        let read = read_rows::<StepRow>(dir.path());
        assert_eq!(read.problem, None);
        let mut back = read.rows[0].clone();
        assert!(back.grad_norm.is_nan() && back.grad_norm_gamma.is_some_and(f64::is_nan));
        (back.grad_norm, row.grad_norm) = (0.0, 0.0);
        (back.grad_norm_gamma, row.grad_norm_gamma) = (None, None);
        assert_eq!(back, row);
    }

    #[test]
    fn every_float_is_read_back_to_the_last_bit() {
        let dir = tempfile::tempdir().unwrap();
        // A walk over bit patterns of all sizes.
        let values: Vec<f64> = (1..2000_u64)
            .map(|i| f64::from_bits(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
            .filter(|x| x.is_finite())
            .collect();
        let rows: Vec<EvalRow> = values.iter().map(|x| EvalRow { loss: *x, top1: -*x, ..eval(0) }).collect();
        EvalWriter::open(dir.path()).unwrap().append_all(&rows).unwrap();
        let read = read_rows::<EvalRow>(dir.path());
        assert_eq!(read.rows.len(), values.len());
        for (row, x) in read.rows.iter().zip(&values) {
            assert_eq!((row.loss.to_bits(), row.top1.to_bits()), (x.to_bits(), (-x).to_bits()));
        }
    }

    #[test]
    fn cut_back_removes_the_step_and_later_ones_whatever_is_torn() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), [0, 10, 10, 20, 30]);
        let whole = text(dir.path());
        let want: String = whole.lines().take(4).map(|l| format!("{l}\n")).collect();
        for length in want.len()..=whole.len() {
            fs::write(dir.path().join("evals.csv"), &whole[..length]).unwrap();
            let mut writer = EvalWriter::open(dir.path()).unwrap();
            let cut = writer.cut_back(20).unwrap();
            assert_eq!((cut.kept, cut.torn), (3, None), "length {length}");
            assert_eq!(text(dir.path()), want, "length {length}");
            writer.append(&eval(20)).unwrap();
            writer.append(&eval(30)).unwrap();
            assert_eq!(text(dir.path()), whole, "length {length}: the run went on");
        }
        EvalWriter::open(dir.path()).unwrap().cut_back(0).unwrap();
        assert_eq!(text(dir.path()).lines().count(), 1, "the header stays");
        let cut = EvalWriter::open(dir.path()).unwrap().cut_back(99).unwrap();
        assert_eq!(cut, CutBack { kept: 0, removed_bytes: 0, torn: None });
    }

    #[test]
    fn damage_before_the_step_is_cut_off_and_told() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), [0, 10]);
        let damaged = text(dir.path()) + "2\0\0,val\n" + "30,val,raw,1.0,1.0,1.0,9\n";
        fs::write(dir.path().join("evals.csv"), damaged).unwrap();
        let read = read_rows::<EvalRow>(dir.path());
        assert_eq!(read.rows.len(), 2);
        assert!(read.problem.as_ref().is_some_and(|p| p.contains("line 4")), "{:?}", read.problem);
        let cut = EvalWriter::open(dir.path()).unwrap().cut_back(40).unwrap();
        assert_eq!(cut.kept, 2);
        assert!(cut.torn.is_some_and(|line| line.contains("val")));
    }

    #[test]
    fn a_torn_last_line_is_left_out_even_where_it_parses() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), [0, 10]);
        // Without the last digit and the line feed, "9" images could have been "96".
        fs::write(dir.path().join("evals.csv"), text(dir.path()).trim_end()).unwrap();
        let read = read_rows::<EvalRow>(dir.path());
        assert_eq!(read.rows.len(), 1);
        assert!(read.problem.is_some_and(|p| p.contains("torn")));
        write(dir.path(), [10]);
        assert_eq!(read_rows::<EvalRow>(dir.path()).problem, None, "opening cut the torn line off");
    }

    #[test]
    fn a_torn_header_is_written_again_and_a_foreign_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("evals.csv");
        for torn in ["", "step,spl", "step,split,weights,loss,top1,top5,images"] {
            fs::write(&path, torn).unwrap();
            write(dir.path(), [5]);
            assert_eq!(read_rows::<EvalRow>(dir.path()).rows.len(), 1, "{torn:?}");
        }
        fs::write(&path, "step,accuracy\n1,0.5\n").unwrap();
        let error = EvalWriter::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("evals.csv") && error.contains("found step,accuracy"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "step,accuracy\n1,0.5\n", "and nothing is overwritten");
    }

    #[test]
    fn layers_are_read_packed_too_and_a_missing_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = read_rows::<LayerRow>(dir.path());
        assert_eq!(missing.problem.as_deref(), Some("layers.csv: missing"));
        let csv = "step,block,branch,ratio,unknown\n0,3,mlp,0.5,7\n0,3,attention,,8\n";
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(csv.as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        fs::write(dir.path().join("layers.csv.gz"), &packed).unwrap();
        let read = read_rows::<LayerRow>(dir.path());
        assert_eq!(read.problem, None, "columns of other versions are no damage");
        assert_eq!((read.rows[0].branch, read.rows[0].ratio, read.rows[1].ratio), (Branch::Mlp, Some(0.5), None));
        fs::write(dir.path().join("layers.csv.gz"), &packed[..packed.len() - 9]).unwrap();
        assert!(read_rows::<LayerRow>(dir.path()).problem.is_some_and(|p| p.contains("damaged")));
    }
}
