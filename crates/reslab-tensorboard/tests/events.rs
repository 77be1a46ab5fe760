//! From a folder of records to event files: that they repeat, that they grow with a run, and what becomes of them where
//! records are missing. What TensorBoard reads in them is tested in `crates/reslab/tests/formats.rs`.

use reslab_record::*;
use reslab_tensorboard::{FILE, FOLDER, write_events, write_run};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

fn planned(arm: &str, seed: u64) -> PlannedRun {
    let axis = Axis { key: "optim.lr".into(), label: "lr".into(), value: "1e-3".into(), grid: true };
    PlannedRun {
        id: format!("{arm}{seed}"),
        arm: format!("{arm}[lr=1e-3]"),
        family: arm.into(),
        seed,
        folder: format!("runs/{arm}-s{seed}"),
        device_kind: "cpu".into(),
        threads: 1,
        parameters: 1,
        flops_per_image: 1.0,
        axes: vec![axis],
        config: toml::Table::new(),
    }
}

fn plan(arms: &[&str]) -> Plan {
    Plan {
        format: PLAN_FORMAT,
        name: "demo".into(),
        question: "Does it train?".into(),
        baseline: "plain".into(),
        metric: "test/top1".into(),
        seeds: vec![0, 1],
        select: vec![],
        profile: None,
        set: vec![],
        study: None,
        source: Source { path: "demo.toml".into(), sha256: "00".into() },
        versions: BTreeMap::new(),
        runs: arms.iter().flat_map(|arm| [planned(arm, 0), planned(arm, 1)]).collect(),
    }
}

/// Appends the rows of these steps: an evaluation at every tenth, telemetry at every fifth.
fn go_on(sweep: &Path, run: &PlannedRun, steps: std::ops::Range<u64>) -> RunDir {
    let dir = RunDir::create(&run.dir(sweep)).unwrap();
    let (mut rows, mut layers, mut evals) = (dir.steps().unwrap(), dir.layers().unwrap(), dir.evals().unwrap());
    for step in steps {
        let row = format!("{step},{0},{0},0.001,NaN,,0.5,,,,,1.0,{1}", 1.0 / (1.0 + step as f64), 0.5 * step as f64);
        rows.append(&parse(StepRow::HEADER, &row)).unwrap();
        if step % 5 == 0 {
            let row = format!("{step},0,mlp,1,1,1,0.25,0.1,0.4,0,0.1,0.2,0.1,-0.1,0.3,0,,,");
            layers.append(&parse(LayerRow::HEADER, &row)).unwrap();
        }
        if step % 10 == 9 {
            evals.append(&parse(EvalRow::HEADER, &format!("{step},val,raw,1.5,0.5,0.9,100"))).unwrap();
        }
    }
    dir
}

fn parse<R: Row>(header: &[&str], row: &str) -> R {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(R::FILE), format!("{}\n{row}\n", header.join(","))).unwrap();
    let Rows { mut rows, problem } = read_rows(dir.path());
    assert_eq!(problem, None);
    rows.remove(0)
}

fn finish(dir: &RunDir, run: &PlannedRun, steps: u64) {
    let metrics = BTreeMap::from([("test/top1".to_owned(), 0.7)]);
    let (id, arm, seed) = (run.id.clone(), run.arm.clone(), run.seed);
    let (outcome, parameters, num_classes) = (Outcome::Finished, 1, 10);
    let (effective_drop_rate, micro_batches) = (None, None);
    dir.write_done(&Done {
        id,
        arm,
        seed,
        outcome,
        steps,
        metrics,
        parameters,
        num_classes,
        effective_drop_rate,
        micro_batches,
    })
    .unwrap();
}

fn file(sweep: &Path, run: &str) -> PathBuf {
    sweep.join(FOLDER).join(run).join(FILE)
}

#[test]
fn equal_records_give_equal_bytes_and_a_second_writing_touches_nothing() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let plan = plan(&["plain"]);
    let written = dirs.each_ref().map(|dir| {
        for run in &plan.runs {
            finish(&go_on(dir.path(), run, 0..30), run, 30);
        }
        assert_eq!(write_events(dir.path(), &plan).unwrap(), 2);
        ["", "plain-s0", "plain-s1"].map(|run| fs::read(file(dir.path(), run)).unwrap())
    });
    assert_eq!(written[0], written[1]);
    assert_ne!(written[0][1], written[0][2], "control: the seed is in it");
    let state = || {
        let meta = fs::metadata(file(dirs[0].path(), "plain-s0")).unwrap();
        (meta.ino(), meta.mtime_nsec(), meta.len())
    };
    let before = state();
    write_events(dirs[0].path(), &plan).unwrap();
    assert_eq!(state(), before);
    // Whatever else stands there is replaced whole.
    for wrong in [&b"rubbish"[..], b"", &[&written[0][1][..], b"more"].concat()] {
        fs::write(file(dirs[0].path(), "plain-s0"), wrong).unwrap();
        write_events(dirs[0].path(), &plan).unwrap();
        assert_eq!(fs::read(file(dirs[0].path(), "plain-s0")).unwrap(), written[0][1]);
    }
}

/// The file stays the same one, so that a TensorBoard which has it open reads on; and at its end it has the bytes of one that
/// was written at once.
#[test]
fn the_file_of_a_run_that_goes_on_grows_to_what_it_is_at_the_end() {
    let (dir, at_once) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = planned("plain", 0);
    let path = file(dir.path(), "plain-s0");
    assert!(!write_run(dir.path(), &run).unwrap() && !path.exists(), "nothing is recorded yet");
    let mut last = (None, Vec::new());
    for step in 0..40 {
        go_on(dir.path(), &run, step..step + 1);
        if !write_run(dir.path(), &run).unwrap() {
            assert_eq!(step, 0, "the only step may not have all its rows");
            continue;
        }
        let (inode, bytes) = (fs::metadata(&path).unwrap().ino(), fs::read(&path).unwrap());
        assert!(last.0.is_none_or(|old| old == inode), "step {step}: another file");
        assert!(bytes.starts_with(&last.1) && bytes.len() > last.1.len(), "step {step}");
        last = (Some(inode), bytes);
    }
    // A process that was killed while it appended leaves a part of a record.
    fs::write(&path, &last.1[..last.1.len() - 7]).unwrap();
    finish(&RunDir::open(&run.dir(dir.path())).unwrap(), &run, 40);
    write_run(dir.path(), &run).unwrap();
    finish(&go_on(at_once.path(), &run, 0..40), &run, 40);
    write_run(at_once.path(), &run).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(file(at_once.path(), "plain-s0")).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().ino(), last.0.unwrap());
}

#[test]
fn damaged_and_missing_records_give_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(&["plain", "gated"]);
    let [torn, bare, broken] = [&plan.runs[0], &plan.runs[1], &plan.runs[2]];
    finish(&go_on(dir.path(), torn, 0..20), torn, 20);
    let steps = torn.dir(dir.path()).join("steps.csv");
    let whole = fs::read_to_string(&steps).unwrap();
    fs::write(&steps, &whole[..whole.len() - 5]).unwrap();
    fs::remove_file(torn.dir(dir.path()).join("layers.csv")).unwrap();
    go_on(dir.path(), bare, 0..0);
    go_on(dir.path(), broken, 0..9);
    fs::write(broken.dir(dir.path()).join("done.json"), "{").unwrap();
    assert_eq!(write_events(dir.path(), &plan).unwrap(), 2);
    assert!(file(dir.path(), "plain-s0").is_file() && file(dir.path(), "gated-s0").is_file());
    assert!(!file(dir.path(), "plain-s1").exists() && !file(dir.path(), "gated-s1").exists());
}

#[test]
fn files_of_runs_that_left_the_plan_go_and_those_of_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let both = plan(&["plain", "gated"]);
    for run in &both.runs {
        go_on(dir.path(), run, 0..5);
    }
    write_events(dir.path(), &both).unwrap();
    fs::create_dir_all(dir.path().join(FOLDER).join("mine")).unwrap();
    fs::write(dir.path().join(FOLDER).join("gated-s1/mine.txt"), "kept").unwrap();
    write_events(dir.path(), &plan(&["plain"])).unwrap();
    assert!(file(dir.path(), "plain-s0").exists() && !file(dir.path(), "gated-s1").exists());
    let left = ["gated-s0", "gated-s1/mine.txt", "mine"].map(|name| dir.path().join(FOLDER).join(name).exists());
    assert_eq!(left, [false, true, true]);
}
