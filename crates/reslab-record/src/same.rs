//! Whether two runs left the same records, times aside.

use std::path::Path;

use crate::rows::{EvalRow, LayerRow, ProbeRow, Row, StepRow};
use crate::table::read_plain_or_gz;

/// Columns of `steps.csv` that hold times; they are the last.
const TIMES: usize = 2;

/// Whether the run folders `a` and `b` hold the same bytes in `done.json`, `evals.csv`, `probes.csv`, `layers.csv` and, but for its
/// last columns (times), in `steps.csv`; packed files count by what is in them. A file that is missing or damaged is
/// equal to none.
pub fn same_records(a: &Path, b: &Path) -> bool {
    let same = |read: &dyn Fn(&Path) -> Option<Vec<u8>>| read(a).is_some_and(|bytes| Some(bytes) == read(b));
    same(&|dir| std::fs::read(dir.join("done.json")).ok())
        && same(&|dir| csv(dir, EvalRow::FILE))
        && same(&|dir| csv(dir, LayerRow::FILE))
        // Runs of before there were probes have none.
        && csv(a, ProbeRow::FILE) == csv(b, ProbeRow::FILE)
        && same(&|dir| csv(dir, StepRow::FILE).map(|bytes| without_times(&bytes)))
}

fn csv(dir: &Path, file: &str) -> Option<Vec<u8>> {
    let (bytes, problem) = read_plain_or_gz(&dir.join(file)).ok()??;
    problem.is_none().then_some(bytes)
}

/// The lines without their last columns. No field of these files holds a comma of its own.
fn without_times(bytes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        kept.extend(line.rsplitn(TIMES + 1, |byte| *byte == b',').nth(TIMES).unwrap_or(line));
        kept.push(b'\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn run(step: &str, layers: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let steps = format!("step,loss,images_per_s,seconds\n{step}\n");
        for (name, text) in
            [("done.json", "{}"), ("evals.csv", "e\n1\n"), ("layers.csv", layers), ("steps.csv", &steps)]
        {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    #[test]
    fn records_are_the_same_whatever_the_times() {
        let (a, b) = (run("0,2.3,100.0,0.1", "l\n1\n"), run("0,2.3,50.0,0.2", "l\n1\n"));
        assert!(same_records(a.path(), b.path()));
        assert!(StepRow::HEADER.ends_with(&["images_per_s", "seconds"]), "the last columns are times");
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(b"l\n1\n").unwrap();
        fs::write(b.path().join("layers.csv.gz"), packer.finish().unwrap()).unwrap();
        fs::remove_file(b.path().join("layers.csv")).unwrap();
        assert!(same_records(a.path(), b.path()), "packed");
    }

    #[test]
    fn a_digit_a_row_or_a_file_makes_them_differ() {
        let a = run("0,2.3,100.0,0.1", "l\n1\n");
        assert!(!same_records(a.path(), run("0,2.4,100.0,0.1", "l\n1\n").path()));
        assert!(!same_records(a.path(), run("0,2.3,100.0,0.1\n1,2.2,100.0,0.2", "l\n1\n").path()));
        assert!(!same_records(a.path(), run("0,2.3,100.0,0.1", "l\n2\n").path()));
        for name in ["done.json", "evals.csv", "layers.csv", "steps.csv"] {
            let (b, c) = (run("0,2.3,100.0,0.1", "l\n1\n"), run("0,2.3,100.0,0.1", "l\n1\n"));
            fs::remove_file(b.path().join(name)).unwrap();
            fs::remove_file(c.path().join(name)).unwrap();
            assert!(!same_records(a.path(), b.path()) && !same_records(b.path(), c.path()), "{name}");
        }
    }
}
