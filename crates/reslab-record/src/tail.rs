//! The rows of a CSV file that grows, each read once: what a person watches is not read again from its start.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use crate::rows::Row;

/// Bytes that one look reads at most.
const MOST: u64 = 1 << 20;

/// A place in a CSV file of a run's folder, up to which its rows are read. Nothing is ever written.
#[derive(Debug)]
pub struct Tail<R> {
    path: PathBuf,
    header: csv::StringRecord,
    offset: u64,
    /// The line before `offset`. It is another one where the file was cut back and has grown again.
    last: Vec<u8>,
    /// The line that can't be read: nothing behind it is.
    damaged: bool,
    row: PhantomData<R>,
}

/// What a look at a file found.
#[derive(Debug, Clone, PartialEq)]
pub struct Grown<R> {
    /// The rows behind those of the look before.
    pub rows: Vec<R>,
    /// The file was cut back or replaced: `rows` begin with its first one, and those of earlier looks don't count.
    pub anew: bool,
    /// There are more, which the next look finds.
    pub more: bool,
    /// In words: from here on the file can't be read.
    pub problem: Option<String>,
}

impl<R: Row> Tail<R> {
    /// The start of the file in a run's folder. It need not be there yet.
    pub fn new(dir: &Path) -> Self {
        let (header, last) = (csv::StringRecord::new(), Vec::new());
        Self { path: dir.join(R::FILE), header, offset: 0, last, damaged: false, row: PhantomData }
    }

    /// Reads on. A last line without its line feed is left for the next look; a file that is not there has no rows.
    pub fn read(&mut self) -> Grown<R> {
        let mut grown = Grown { rows: Vec::new(), anew: false, more: false, problem: None };
        match self.bytes(&mut grown) {
            Ok(bytes) => self.take(&bytes, &mut grown),
            Err(e) if e.kind() == ErrorKind::NotFound => grown.anew = self.restart(),
            Err(e) => grown.problem = Some(format!("{}: cannot read: {e}", R::FILE)),
        }
        grown
    }

    /// What stands behind the offset, some of it at least.
    fn bytes(&mut self, grown: &mut Grown<R>) -> std::io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        if self.offset > 0 && !self.stands(&mut file, length)? {
            grown.anew = self.restart();
        }
        if self.damaged {
            return Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.take(MOST).read_to_end(&mut bytes)?;
        grown.more = self.offset + (bytes.len() as u64) < length;
        Ok(bytes)
    }

    /// Whether the last line that was read is still where it was.
    fn stands(&self, file: &mut File, length: u64) -> std::io::Result<bool> {
        if length < self.offset {
            return Ok(false);
        }
        let mut line = vec![0; self.last.len()];
        file.seek(SeekFrom::Start(self.offset - self.last.len() as u64))?;
        file.read_exact(&mut line)?;
        Ok(line == self.last)
    }

    /// Back to the start; whether that is a change.
    fn restart(&mut self) -> bool {
        let had_any = self.offset > 0;
        (self.offset, self.damaged) = (0, false);
        self.last.clear();
        had_any
    }

    fn take(&mut self, bytes: &[u8], grown: &mut Grown<R>) {
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if end == 0 && bytes.len() as u64 == MOST {
            return self.end_at_damage("a line without end", grown);
        }
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&bytes[..end]);
        let mut record = csv::StringRecord::new();
        let (start, mut from) = (self.offset, 0);
        loop {
            match reader.read_record(&mut record) {
                Ok(true) => {}
                Ok(false) => return,
                Err(e) => return self.end_at_damage(&e.to_string(), grown),
            }
            if self.offset == 0 {
                if record.get(0) != R::HEADER.first().copied() {
                    return self.end_at_damage("no header of such a file", grown);
                }
                self.header = record.clone();
            } else {
                match record.deserialize(Some(&self.header)) {
                    Ok(row) => grown.rows.push(row),
                    Err(e) => return self.end_at_damage(&e.to_string(), grown),
                }
            }
            let to = reader.position().byte() as usize;
            self.last.clear();
            self.last.extend(&bytes[from..to]);
            (self.offset, from) = (start + to as u64, to);
        }
    }

    fn end_at_damage(&mut self, what: &str, grown: &mut Grown<R>) {
        self.damaged = true;
        grown.problem = Some(format!("{}: damaged behind byte {}: {what}", R::FILE, self.offset));
        grown.more = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EvalRow, EvalWriter, Split, Weights, read_rows};
    use std::fs;

    fn eval(step: u64, loss: f64) -> EvalRow {
        EvalRow { step, split: Split::Val, weights: Weights::Raw, loss, top1: 0.5, top5: 1.0, images: 9 }
    }

    fn steps(grown: &Grown<EvalRow>) -> Vec<u64> {
        grown.rows.iter().map(|row| row.step).collect()
    }

    #[test]
    fn rows_are_read_once_each_whatever_is_torn() {
        let dir = tempfile::tempdir().unwrap();
        let mut tail = Tail::<EvalRow>::new(dir.path());
        assert_eq!(tail.read(), Grown { rows: vec![], anew: false, more: false, problem: None }, "no file yet");
        let whole = {
            let mut writer = EvalWriter::open(dir.path()).unwrap();
            (0..5).for_each(|step| writer.append(&eval(step, f64::INFINITY)).unwrap());
            fs::read(dir.path().join("evals.csv")).unwrap()
        };
        let mut seen = Vec::new();
        for length in 0..=whole.len() {
            fs::write(dir.path().join("evals.csv"), &whole[..length]).unwrap();
            let grown = tail.read();
            assert_eq!((grown.anew, grown.problem), (false, None), "length {length}");
            seen.extend(grown.rows);
        }
        assert_eq!(seen, read_rows::<EvalRow>(dir.path()).rows);
        assert_eq!(seen.len(), 5);
    }

    #[test]
    fn a_file_that_was_cut_back_is_read_anew_even_if_it_is_longer_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = EvalWriter::open(dir.path()).unwrap();
        (0..4).for_each(|step| writer.append(&eval(step, 1.0)).unwrap());
        let mut tail = Tail::new(dir.path());
        assert_eq!(steps(&tail.read()), [0, 1, 2, 3]);
        assert_eq!(tail.read().rows, []);
        writer.cut_back(2).unwrap();
        let grown = tail.read();
        assert_eq!((steps(&grown), grown.anew), (vec![0, 1], true), "shorter");
        (2..4).for_each(|step| writer.append(&eval(step, 1.0)).unwrap());
        assert_eq!(steps(&tail.read()), [2, 3]);
        writer.cut_back(3).unwrap();
        // As long as before or longer, but with another loss where the last row stood.
        (3..9).for_each(|step| writer.append(&eval(step, 2.0)).unwrap());
        let grown = tail.read();
        assert_eq!((grown.rows.len(), grown.anew), (9, true));
        fs::remove_file(dir.path().join("evals.csv")).unwrap();
        assert!(tail.read().anew && !tail.read().anew, "a file that is gone has no rows, which is told once");
    }

    #[test]
    fn damage_is_told_once_and_ends_the_rows_until_the_file_is_mended() {
        let dir = tempfile::tempdir().unwrap();
        EvalWriter::open(dir.path()).unwrap().append(&eval(0, 1.0)).unwrap();
        let path = dir.path().join("evals.csv");
        let whole = fs::read_to_string(&path).unwrap();
        for wrong in ["1,rubbish\n", "\u{0}\n", "1,val,raw,1.0,0.5\n", "\"1,val\n"] {
            fs::write(&path, format!("{whole}{wrong}2,val,raw,1.0,0.5,1.0,9\n")).unwrap();
            let mut tail = Tail::<EvalRow>::new(dir.path());
            let grown = tail.read();
            assert_eq!(steps(&grown), [0], "{wrong:?}");
            assert!(grown.problem.as_ref().is_some_and(|p| p.starts_with("evals.csv: damaged")), "{grown:?}");
            assert_eq!(tail.read(), Grown { rows: vec![], anew: false, more: false, problem: None });
            fs::write(&path, "step,split,weights,loss,top1,top5,images\n").unwrap();
            assert!(tail.read().anew);
        }
    }

    #[test]
    fn a_line_without_end_or_a_wrong_header_is_damage_and_is_not_read_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let found = |bytes: &[u8]| {
            fs::write(dir.path().join("evals.csv"), bytes).unwrap();
            let grown = Tail::<EvalRow>::new(dir.path()).read();
            assert!(grown.rows.is_empty() && !grown.more);
            grown.problem.unwrap()
        };
        assert!(found(&vec![0; 3 * MOST as usize]).contains("a line without end"));
        assert!(found(b"loss,step\n1,2\n").contains("no header"));
        assert!(found(b"\xff\xfe\0rubbish\n").contains("damaged"), "no text");
    }

    #[test]
    fn a_long_file_is_read_in_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let rows: Vec<EvalRow> = (0..60_000).map(|step| eval(step, 1.0)).collect();
        EvalWriter::open(dir.path()).unwrap().append_all(&rows).unwrap();
        let mut tail = Tail::<EvalRow>::new(dir.path());
        let (mut seen, mut looks) = (Vec::new(), 0);
        loop {
            let grown = tail.read();
            seen.extend(grown.rows);
            looks += 1;
            if !grown.more {
                break;
            }
        }
        assert!(seen == rows && looks > 1, "{looks} looks");
    }
}
