//! Records that parse and cannot be true: numbers beyond the run's config, figures that are none. They are named as damage,
//! and no number of theirs becomes an index, an amount or a panic.

mod support;

use reslab_report::{Options, Run, Table, compare, read_sweep, table};
use std::fs;
use std::path::{Path, PathBuf};
use support::{Fake, plan, planned};

const RUNS: usize = 4;

/// Two arms of two seeds, and the folder of the first run.
fn sweep(dir: &Path) -> PathBuf {
    let plan = plan(["plain", "gated"].iter().flat_map(|arm| [0, 1].map(|seed| planned(arm, &[], seed))).collect());
    plan.write(dir).unwrap();
    for (index, run) in plan.runs.iter().enumerate() {
        Fake::trained(0.5, 0.7 + index as f64 / 100.0).write(dir, run);
    }
    plan.runs[0].dir(dir)
}

fn first(dir: &Path) -> Run {
    read_sweep(dir).unwrap().runs.swap_remove(0)
}

/// Everything that is made of a sweep's records.
fn all(dir: &Path) -> Table {
    let table = table(&read_sweep(dir).unwrap(), &Options::default()).unwrap();
    let texts = [table.to_text(), table.to_markdown(), table.to_csv(), table.to_tex(), table.to_json()];
    assert!(texts.iter().all(|text| !text.is_empty()));
    let ids: Vec<String> = read_sweep(dir).unwrap().plan.runs.iter().map(|run| run.id.clone()).collect();
    let other = tempfile::tempdir().unwrap();
    sweep(other.path());
    for (a, b) in [(dir, other.path()), (other.path(), dir)] {
        let reproduction = compare(a, b, &ids).unwrap();
        assert!(reproduction.cells.len() <= RUNS && !reproduction.to_text().is_empty());
    }
    table
}

/// Replaces a field of the line `line` (1 is the first behind the header).
fn put(path: &Path, line: usize, column: &str, value: &str) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<Vec<String>> = text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
    let at = lines[0].iter().position(|name| name == column).unwrap();
    lines[line][at] = value.to_owned();
    fs::write(path, lines.iter().map(|fields| fields.join(",") + "\n").collect::<String>()).unwrap();
}

#[test]
fn a_step_or_block_beyond_the_config_is_damage_from_its_line_on() {
    let cases = [
        ("layers.csv", 2, "block", "3", "layers.csv: damaged from line 3 on: block 3, but the config has depth 3"),
        ("layers.csv", 2, "block", "4000000000", "layers.csv: damaged from line 3 on: block 4000000000, but"),
        (
            "layers.csv",
            1,
            "block",
            "18446744073709551615",
            "layers.csv: damaged from line 2 on: block 18446744073709551615",
        ),
        ("layers.csv", 7, "step", "200", "layers.csv: damaged from line 8 on: step 200, but the config has 200 steps"),
        (
            "steps.csv",
            101,
            "step",
            "18446744073709551615",
            "steps.csv: damaged from line 102 on: step 18446744073709551615",
        ),
        ("steps.csv", 101, "step", "7", "steps.csv: damaged from line 102 on: step 7 behind step 99"),
        ("evals.csv", 1, "step", "9007199254740992", "evals.csv: damaged from line 2 on: step 9007199254740992"),
    ];
    for (file, line, column, value, want) in cases {
        let dir = tempfile::tempdir().unwrap();
        let run = sweep(dir.path());
        assert_eq!(first(dir.path()).problems, [""; 0], "negative control: nothing is wrong");
        put(&run.join(file), line, column, value);
        let problems = first(dir.path()).problems;
        assert!(problems.iter().any(|problem| problem.starts_with(want)), "{want}: {problems:?}");
        let table = all(dir.path());
        assert!(table.notes.iter().any(|note| note.contains(want)), "{:?}", table.notes);
    }
    // The last step and block of the config are none.
    let dir = tempfile::tempdir().unwrap();
    let run = sweep(dir.path());
    put(&run.join("layers.csv"), 12, "step", "199");
    put(&run.join("layers.csv"), 12, "block", "2");
    assert_eq!(first(dir.path()).problems, [""; 0]);
}

/// The config itself may be absurd, or say nothing: then what no machine can hold is still damage.
#[test]
fn without_a_believable_config_there_are_limits_too() {
    let dir = tempfile::tempdir().unwrap();
    let run = sweep(dir.path());
    for config in ["model = { depth = 9000000000000000000 }\ntrain = { steps = 9000000000000000000 }", ""] {
        let mut plan = read_sweep(dir.path()).unwrap().plan;
        plan.runs.iter_mut().for_each(|run| run.config = toml::from_str(config).unwrap());
        plan.write(dir.path()).unwrap();
        for block in ["8999999999999999999", "4000000000"] {
            put(&run.join("layers.csv"), 1, "block", block);
            assert!(first(dir.path()).problems.iter().any(|p| p.starts_with("layers.csv: damaged from line 2 on")));
            all(dir.path());
        }
        put(&run.join("layers.csv"), 1, "block", "0");
        put(&run.join("steps.csv"), 200, "step", "8999999999999999999");
        assert!(first(dir.path()).problems.iter().any(|p| p.starts_with("steps.csv: damaged from line 201 on")));
        all(dir.path());
        put(&run.join("steps.csv"), 200, "step", "199");
    }
}

/// Every number of every file, one after the other, becomes one that cannot be.
#[test]
fn no_number_of_any_csv_file_ends_a_report_with_a_panic() {
    let values =
        ["18446744073709551615", "4000000000", "9007199254740991", "1e308", "-1e308", "NaN", "-inf", "-1", "", "x"];
    let dir = tempfile::tempdir().unwrap();
    let run = sweep(dir.path());
    for file in ["steps.csv", "layers.csv", "evals.csv"] {
        let path = run.join(file);
        let whole = fs::read_to_string(&path).unwrap();
        let (header, lines) = (whole.lines().next().unwrap(), whole.lines().count());
        for column in header.split(',') {
            for value in values {
                for line in [1, lines - 1] {
                    put(&path, line, column, value);
                    let table = table(&read_sweep(dir.path()).unwrap(), &Options::default()).unwrap();
                    assert!(!table.to_text().contains("NaN +-"), "{file} {column} {value}: {}", table.to_text());
                    assert!(!table.to_json().is_empty() && !table.to_tex().is_empty() && !table.to_csv().is_empty());
                    fs::write(&path, &whole).unwrap();
                }
            }
        }
    }
}

fn edit_done(run: &Path, edit: impl Fn(&mut serde_json::Value)) {
    let path = run.join("done.json");
    let mut done: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut done);
    fs::write(path, done.to_string()).unwrap();
}

#[test]
fn a_finished_run_with_a_metric_that_is_no_number_is_named_and_not_judged() {
    for (value, shown) in [("NaN", "NaN"), ("inf", "inf"), ("-inf", "-inf")] {
        let dir = tempfile::tempdir().unwrap();
        let run = sweep(dir.path());
        edit_done(&run, |done| done["metrics"]["test/top1"] = value.into());
        let want = format!("done.json: test/top1 is {shown} in a run that says finished: left out");
        assert_eq!(first(dir.path()).problems, [want.as_str()]);
        let table = all(dir.path());
        assert!(table.notes.contains(&"Without test/top1: plain s0.".to_owned()), "{:?}", table.notes);
        assert_eq!(table.rows[0].metrics[0].1.unwrap().n, 1);
    }
    // A share above 1 is none either; a loss that is not finite has diverged, as ever.
    let dir = tempfile::tempdir().unwrap();
    let run = sweep(dir.path());
    edit_done(&run, |done| done["metrics"]["test/top1"] = 70.0.into());
    assert_eq!(first(dir.path()).problems, ["done.json: test/top1 is 70, and not from 0 to 1: left out"]);
    all(dir.path());
    edit_done(&run, |done| {
        done["metrics"]["test/top1"] = 0.7.into();
        done["metrics"]["test/loss"] = "NaN".into();
    });
    assert!(first(dir.path()).finished().unwrap().diverged);
    all(dir.path());
}

#[test]
fn a_done_json_that_cannot_be_of_this_run_is_damaged() {
    let cases = [
        (
            "steps",
            18_446_744_073_709_551_615_u64,
            "done.json: damaged: 18446744073709551615 steps, but the config has 200",
        ),
        ("steps", 199, "done.json: damaged: finished after 199 steps, but the config has 200"),
        ("num_classes", 0, "done.json: damaged: 0 classes"),
    ];
    for (key, value, want) in cases {
        let dir = tempfile::tempdir().unwrap();
        let run = sweep(dir.path());
        edit_done(&run, |done| done[key] = value.into());
        let run = first(dir.path());
        assert_eq!((run.problems.clone(), run.finished().is_some()), (vec![want.to_owned()], false));
        assert_eq!(all(dir.path()).rows[0].done, 1);
    }
    let dir = tempfile::tempdir().unwrap();
    let run = sweep(dir.path());
    for key in ["parameters", "num_classes", "seed", "micro_batches"] {
        edit_done(&run, |done| done[key] = u64::MAX.into());
        all(dir.path());
    }
}
