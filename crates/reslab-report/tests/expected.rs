//! Rows that a run must have by its configuration: files that are missing or short are named, whole ones are not.

mod support;

use reslab_record::{EvalRow, Outcome, PlannedRun, ProbeRow, RowWriter, Split, Weights};
use reslab_report::read_sweep;
use std::fs;
use std::path::{Path, PathBuf};
use support::{Fake, plan, planned};

/// 200 steps, three blocks, a look every 60: behind steps 60, 120, 180 and at the end.
fn config(average: f64, val_images: u64) -> toml::Table {
    toml::from_str(&format!(
        "data = {{ val_images = {val_images} }}\nmodel = {{ depth = 3 }}\n\
         train = {{ steps = 200, eval_every = 60, telemetry_every = 100, ema_decay = {average:?} }}"
    ))
    .unwrap()
}

const LOOKS: [u64; 4] = [59, 119, 179, 199];

/// A run of this configuration that looked at these steps; the sweep's folder and the run's.
fn run(dir: &Path, config: toml::Table, fake: &Fake, looks: &[u64], weights: &[Weights]) -> PathBuf {
    let plan = plan(vec![PlannedRun { config, ..planned("plain", &[], 0) }]);
    plan.write(dir).unwrap();
    fake.write(dir, &plan.runs[0]);
    let run = plan.runs[0].dir(dir);
    fs::remove_file(run.join("evals.csv")).unwrap();
    let done = fs::read_to_string(run.join("done.json")).unwrap();
    fs::remove_file(run.join("done.json")).unwrap();
    let row = |step, split, weights, top1| EvalRow { step, split, weights, loss: 0.7, top1, top5: 1.0, images: 10 };
    let mut rows = Vec::new();
    for step in looks {
        rows.extend(weights.iter().map(|weights| row(*step, Split::Val, *weights, 0.5)));
    }
    if fake.outcome == Outcome::Finished {
        rows.extend(weights.iter().map(|weights| row(199, Split::Test, *weights, 0.7)));
    }
    RowWriter::open(&run).unwrap().append_all(&rows).unwrap();
    let probe = |step: u64, block: u64| ProbeRow {
        step,
        block,
        attention_logit_max: Some(1.0),
        attention_entropy: None,
        token_similarity: None,
        residual_rms_attention: None,
        residual_rms_mlp: None,
    };
    let probes: Vec<ProbeRow> = looks.iter().flat_map(|step| (0..3).map(move |block| probe(*step, block))).collect();
    RowWriter::open(&run).unwrap().append_all(&probes).unwrap();
    let probed = done.replacen("\"metrics\": {", "\"metrics\": { \"probe/attention_logit_max\": 1.0,", 1);
    fs::write(run.join("done.json"), if looks.is_empty() { done } else { probed }).unwrap();
    run
}

fn problems(dir: &Path) -> Vec<String> {
    read_sweep(dir).unwrap().runs.swap_remove(0).problems
}

/// Takes metrics out of done.json.
fn without(run: &Path, metrics: &[&str]) {
    let path = run.join("done.json");
    let mut done: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for metric in metrics {
        done["metrics"].as_object_mut().unwrap().remove(*metric).unwrap();
    }
    fs::write(path, done.to_string()).unwrap();
}

fn cut(path: &Path, lines: usize) {
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, text.split_inclusive('\n').take(lines).collect::<String>()).unwrap();
}

#[test]
fn whole_records_have_nothing_to_be_named() {
    let trained = Fake::trained(0.5, 0.7);
    let (raw, both) = (&[Weights::Raw][..], &[Weights::Raw, Weights::Ema][..]);
    for (average, val, looks, weights) in [(0.0, 9, &LOOKS[..], raw), (0.9, 9, &LOOKS, both), (0.0, 0, &[], raw)] {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake { top1: (0.5, 0.7), ..Fake::trained(0.5, 0.7) };
        let run = run(dir.path(), config(average, val), &fake, looks, weights);
        if val == 0 {
            without(&run, &["val/top1"]);
        }
        assert_eq!(problems(dir.path()), [""; 0], "{average} {val}");
    }
    // A run that ends at step 130 has looked twice, and not at the test split.
    let dir = tempfile::tempdir().unwrap();
    let losses = trained.losses[..130].iter().copied().chain([f64::NAN]).collect();
    let ends = Fake { losses, outcome: Outcome::NonFinite { step: 130 }, ..trained };
    let run = run(dir.path(), config(0.0, 9), &ends, &LOOKS[..2], raw);
    without(&run, &["test/top1", "test/loss"]);
    assert_eq!(problems(dir.path()), [""; 0]);
}

#[test]
fn missing_and_short_files_are_named_with_what_they_should_hold() {
    let cases = [
        ("evals.csv", 4, "evals.csv: 3 rows, but by its config the run has 5"),
        ("evals.csv", 1, "evals.csv: 0 rows, but by its config the run has 5"),
        ("probes.csv", 9, "probes.csv: 8 rows, but by its config the run has 12"),
        ("probes.csv", 0, "probes.csv: missing"),
        ("evals.csv", 0, "evals.csv: missing"),
        ("layers.csv", 2, "layers.csv: 1 row, but by its config the run has 12"),
    ];
    for (file, lines, want) in cases {
        let dir = tempfile::tempdir().unwrap();
        let run = run(dir.path(), config(0.0, 9), &Fake::trained(0.5, 0.7), &LOOKS, &[Weights::Raw]);
        if lines == 0 {
            fs::remove_file(run.join(file)).unwrap();
        } else {
            cut(&run.join(file), lines);
        }
        assert_eq!(problems(dir.path()).first().map(String::as_str), Some(want));
        let notes = reslab_report::write_tables(dir.path()).unwrap().notes;
        assert!(notes.contains(&format!("Records: {want} (plain s0).")), "{notes:?}");
    }
}

/// Records of before there were probes have none, nor a metric of theirs.
#[test]
fn a_run_of_an_earlier_version_needs_no_probes() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path(), config(0.0, 9), &Fake::trained(0.5, 0.7), &LOOKS, &[Weights::Raw]);
    fs::remove_file(run.join("probes.csv")).unwrap();
    assert_eq!(problems(dir.path()), ["probes.csv: missing"], "negative control");
    without(&run, &["probe/attention_logit_max"]);
    assert_eq!(problems(dir.path()), [""; 0]);
}

#[test]
fn published_tables_are_rebuilt_byte_by_byte() {
    for sweep in ["depth48-cpu", "lr_grid-cpu"] {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results").join(sweep);
        let table = reslab_report::table(&read_sweep(&dir).unwrap(), &reslab_report::Options::default()).unwrap();
        for (name, text) in
            [("table.md", table.to_markdown()), ("table.csv", table.to_csv()), ("table.tex", table.to_tex())]
        {
            let is_same = fs::read_to_string(dir.join(name)).unwrap() == text;
            assert!(is_same, "results/{sweep}/{name}: `reslab report results/{sweep}` writes another");
        }
    }
}

#[test]
fn the_published_records_are_whole() {
    for sweep in ["depth48-cpu", "lr_grid-cpu"] {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results").join(sweep);
        for run in read_sweep(&dir).unwrap().runs {
            assert_eq!(run.problems, [""; 0], "{}", run.label());
        }
    }
}
