//! What of a sweep may not depend on what befell it: every file, but for times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reslab_record::Checkpoint;

use crate::support::Place;

/// Files by their path in a folder.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Files that hold times, or how often a run was started.
const OF_TIME: [&str; 4] = ["log.txt", "timing.json", "timing.md", "report.html"];
/// The last columns of steps.csv: images_per_s, seconds.
const TIME_COLUMNS: usize = 2;

/// A folder with `faults.toml`, as well as `tiny.toml`.
pub fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.at("faults.toml"), include_str!("faults.toml")).expect("faults.toml can be written");
    place
}

/// Every file below `dir` that must come out the same. What is left over of a broken-off write counts as a file.
pub fn read(dir: &Path) -> Files {
    let mut files = Files::new();
    collect(dir, Path::new(""), &mut files);
    files
}

/// As [`read`], without checkpoints: a run that saves when it is asked to stop does so at a step of its own. Those that
/// are there must be whole.
pub fn read_results(dir: &Path) -> Files {
    let mut files = read(dir);
    files.retain(|name, _| {
        let is_checkpoint = name.extension().is_some_and(|extension| extension == "safetensors");
        if is_checkpoint {
            Checkpoint::read_file(&dir.join(name)).unwrap_or_else(|e| panic!("{e}"));
        }
        !is_checkpoint
    });
    files
}

fn collect(dir: &Path, inside: &Path, files: &mut Files) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let entry = entry.expect("readable");
        let (path, name) = (entry.path(), entry.file_name().into_string().expect("UTF-8"));
        let inside = inside.join(&name);
        if path.is_dir() {
            collect(&path, &inside, files);
        } else if !OF_TIME.contains(&name.as_str()) {
            let bytes = std::fs::read(&path).expect("readable");
            files.insert(inside, if name == "steps.csv" { without_times(&bytes) } else { bytes });
        }
    }
}

fn without_times(csv: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(csv).expect("UTF-8");
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        let fields: Vec<&str> = line.split(',').collect();
        kept += &fields[..fields.len().saturating_sub(TIME_COLUMNS)].join(",");
        kept.push('\n');
    }
    kept.into_bytes()
}

/// The first difference of two folders, in words.
pub fn difference(found: &Files, expected: &Files) -> Option<String> {
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    if names(found) != names(expected) {
        let lost: Vec<_> = expected.keys().filter(|name| !found.contains_key(*name)).collect();
        let more: Vec<_> = found.keys().filter(|name| !expected.contains_key(*name)).collect();
        return Some(format!("missing: {lost:?}, left over: {more:?}"));
    }
    let (name, bytes) = found.iter().find(|(name, bytes)| expected[*name] != **bytes)?;
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
    let (found, expected) = (lines(bytes), lines(&expected[name]));
    let at = found.iter().zip(&expected).take_while(|(a, b)| a == b).count();
    let line = |lines: &[String]| lines.get(at).map_or("nothing".to_owned(), |l| l.chars().take(300).collect());
    Some(format!("{}, line {}: {} instead of {}", name.display(), at + 1, line(&found), line(&expected)))
}

#[track_caller]
pub fn assert_same(found: &Files, expected: &Files, when: &str) {
    if let Some(difference) = difference(found, expected) {
        panic!("{when}: {difference}");
    }
}

/// Runs below a sweep's folder that have their result.
pub fn done(sweep: &Path) -> usize {
    runs(sweep).iter().filter(|run| run.join("done.json").is_file()).count()
}

/// The run folders of a sweep, sorted; none where it has not begun.
pub fn runs(sweep: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(sweep.join("runs")).into_iter().flatten().flatten();
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    runs.sort();
    runs
}

/// Whole lines of a CSV file, without its header.
pub fn rows(run: &Path, name: &str) -> usize {
    let bytes = std::fs::read(run.join(name)).unwrap_or_default();
    bytes.iter().filter(|b| **b == b'\n').count().saturating_sub(1)
}

/// The steps that a run's processes went on from, in order: from the lines of its log.
pub fn starts(run: &Path) -> Vec<u64> {
    let log = std::fs::read(run.join("log.txt")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log).into_owned();
    let begins = log.lines().filter(|line| line.contains(" parameters (") && line.contains(" steps"));
    begins
        .map(|line| line.split_once(", from step ").map_or(0, |(_, step)| step.parse().expect("a step at the end")))
        .collect()
}

/// The comparison feels every byte that it should, and none of the times.
#[test]
fn a_changed_byte_a_lost_file_and_a_left_over_one_are_told_and_times_are_not() {
    let place = place();
    let run = ["run", "faults.toml", "--arm", "plain", "--seed", "0", "--threads", "1", "--out", "here"];
    place.call(&run).expect(0);
    let dir = place.run_dir("here/faults", "plain-s0");
    let before = read(&dir);
    assert!(before.len() >= 8, "{:?}", before.keys());
    for (name, bytes) in before.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let stored = std::fs::read(dir.join(name)).expect("there");
        let mut changed = stored.clone();
        // The first column of steps.csv is none of time.
        let at = if name == Path::new("steps.csv") { 0 } else { bytes.len() / 2 };
        changed[at] ^= 1;
        std::fs::write(dir.join(name), &changed).expect("written");
        assert!(difference(&read(&dir), &before).is_some_and(|d| d.contains(name.to_str().expect("UTF-8"))));
        std::fs::write(dir.join(name), &stored).expect("written");
    }
    assert_eq!(difference(&read(&dir), &before), None);
    std::fs::write(dir.join(".reslab-1.tmp"), "").expect("written");
    assert!(difference(&read(&dir), &before).is_some_and(|d| d.contains("left over: [\".reslab-1.tmp\"]")));
    std::fs::remove_file(dir.join(".reslab-1.tmp")).expect("removed");
    std::fs::remove_file(dir.join("layers.csv")).expect("removed");
    assert!(difference(&read(&dir), &before).is_some_and(|d| d.contains("missing: [\"layers.csv\"]")));
    // A second computation has other times, and only those.
    place.call(&[&run[..9], &["there"]].concat()).expect(0);
    let again = place.run_dir("there/faults", "plain-s0");
    std::fs::write(dir.join("layers.csv"), &before[Path::new("layers.csv")]).expect("written");
    let whole = |dir: &Path| std::fs::read(dir.join("steps.csv")).expect("there");
    assert_ne!(whole(&dir), whole(&again), "the same times to a millisecond, 60 times over");
    assert_same(&read(&again), &before, "a second computation");
}
