//! The files of a sweep, read by other programs: pandas, SciPy, DuckDB and TensorBoard (tests/python/).

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::Place;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is here")
}

/// A Python that has tests/python/requirements.txt: `RESLAB_PYTHON`, or that of `.venv` in the checkout, or `python3`.
/// `None` where it lacks them, unless tools are required.
fn python() -> Option<PathBuf> {
    let venv = root().join(".venv/bin/python");
    let default = if venv.is_file() { venv } else { "python3".into() };
    let python = std::env::var_os("RESLAB_PYTHON").map_or(default, PathBuf::from);
    let found = Command::new(&python).args(["-c", "import duckdb, pandas, scipy, tensorboard"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let name = python.display();
    assert!(std::env::var_os("RESLAB_REQUIRE_TOOLS").is_none(), "no duckdb, pandas, scipy and tensorboard in {name}");
    println!("skipped: no duckdb, pandas, scipy and tensorboard in {name} (tests/python/requirements.txt)");
    None
}

/// What a script of tests/python printed, and whether it was content.
fn script(python: &Path, name: &str, arguments: &[&str], dir: &Path) -> (bool, String) {
    let script = root().join("crates/reslab/tests/python").join(name);
    let mut command = Command::new(python);
    command.arg(script).args(arguments).current_dir(dir).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().expect("python starts");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success(), text)
}

#[test]
fn pandas_and_scipy_recompute_the_published_tables() {
    let Some(python) = python() else { return };
    for (sweep, arms) in [("lr_grid-cpu", 15), ("depth48-cpu", 8)] {
        let (is_content, text) = script(&python, "recompute_tables.py", &[&format!("results/{sweep}")], &root());
        assert!(is_content && text.contains(&format!("figures of {arms} arms agree")), "{sweep}:\n{text}");
    }
}

#[test]
fn the_documented_lines_load_a_sweep() {
    let Some(python) = python() else { return };
    let (is_content, text) = script(&python, "run_documented.py", &["docs/records.md", "results/lr_grid-cpu"], &root());
    assert!(is_content && text.contains("13500 steps of 45 runs"), "{text}");
}

#[test]
fn tensorboard_reads_every_point_of_a_sweep_and_the_records_are_as_without_it() {
    let Some(python) = python() else { return };
    let place = Place::new();
    // A grid gives the runs an axis of their own; an average of the weights gives evaluations a second kind.
    let set = ["--set", "train.ema_decay=0.8", "--set", "grid={\"optim.lr\"=[1e-3,5e-3]}", "--set", "seeds=[0]"];
    let sweep = |more: &[&str]| place.call(&[&["sweep", "tiny.toml"], &set[..], more].concat()).expect(0);
    let called = sweep(&["--out", "with", "--tensorboard"]);
    assert!(called.err.contains("wrote event files of 4 runs in with/tiny/tensorboard"), "{}", called.err);
    sweep(&["--out", "without"]);
    let records = |out: &str| {
        let dir = place.at(out);
        let is_record =
            |path: &PathBuf| ["done.json", "layers.csv", "evals.csv"].iter().any(|name| path.ends_with(name));
        let files = place.files().into_iter().filter(|(path, _)| path.starts_with(&dir) && is_record(path));
        files.map(|(path, bytes)| (path.strip_prefix(&dir).expect("below").to_owned(), bytes)).collect::<Vec<_>>()
    };
    assert_eq!(records("with").len(), 12);
    assert!(records("with") == records("without"), "event files touch no record");

    let read = || script(&python, "read_events.py", &["with/tiny"], &place.at("."));
    let (is_content, text) = read();
    assert!(is_content && text.contains("points of 4 runs agree"), "{text}");

    // Once more from the records: the same bytes, and no double point.
    let before = place.files();
    place.call(&["report", "with/tiny", "--tensorboard"]).expect(0);
    assert!(place.files() == before, "writing again wrote something else");

    // Negative control: one changed bit in one file is seen.
    let (path, mut bytes) = before
        .into_iter()
        .find(|(path, _)| path.to_string_lossy().contains("tensorboard/plain"))
        .expect("a run's file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).expect("written");
    let (is_content, text) = read();
    assert!(!is_content, "{text}");
    place.call(&["report", "with/tiny", "--tensorboard"]).expect(0);
    assert!(read().0, "and mended from the records");
}
