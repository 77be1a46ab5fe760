//! The files of a table: equal bytes for equal records, and damage that is named.

mod support;

use reslab_record::{Env, RunDir};
use reslab_report::{Table, read_sweep, write_tables};
use std::fs;
use std::path::Path;
use support::{Fake, init, plan, planned};

fn small(dir: &Path, images_per_s: f64) -> Table {
    let runs: Vec<_> =
        (0..3).flat_map(|seed| [planned("plain", &[], seed), planned("a|b_%", &[init("1e-5")], seed)]).collect();
    let plan = plan(runs);
    plan.write(dir).unwrap();
    for (index, run) in plan.runs.iter().enumerate() {
        Fake { images_per_s, ..Fake::trained(0.5, 0.7 + index as f64 / 100.0) }.write(dir, run);
    }
    write_tables(dir).unwrap()
}

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap()
}

#[test]
fn equal_records_give_equal_bytes_whatever_the_time_and_the_place() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    small(a.path(), 100.0);
    small(b.path(), 50.0);
    for name in ["table.md", "table.csv", "table.tex"] {
        assert_eq!(read(a.path(), name), read(b.path(), name), "{name}");
    }
    assert_ne!(read(a.path(), "timing.md"), read(b.path(), "timing.md"), "time stands in a file of its own");
    let before = read(a.path(), "table.md");
    let moved = a.path().with_extension("moved");
    fs::rename(a.path(), &moved).unwrap();
    fs::remove_file(moved.join("table.md")).unwrap();
    write_tables(&moved).unwrap();
    assert_eq!(read(&moved, "table.md"), before, "a folder can be moved");
    fs::rename(&moved, a.path()).unwrap();
}

#[test]
fn a_table_stands_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), 100.0);
    let markdown = read(dir.path(), "table.md");
    for needed in [
        "# demo\n",
        "- Question: Does it train?\n",
        "- Data: dataset digits, train_images 1200\n",
        "- Network: depth 3, width 8\n",
        "- Training: steps 200, clip 1.0\n",
        "- Optimizer: kind adamw, weight_decay 0.05\n",
        "- Seeds: 0, 1, 2 (n = 3)\n",
        "- Metric: test/top1; baseline: plain\n",
        "- Device: cpu, 1 thread a run\n",
        "- Code: commit 0123456789ab, reslab 0.1.0, libtorch 2.11.0\n",
        "- Config: demo.toml (sha256 0123456789ab), profile cpu\n",
        "95 % t interval",
        "ln C",
    ] {
        assert!(markdown.contains(needed), "no {needed:?} in\n{markdown}");
    }
}

#[test]
fn markdown_rows_have_equal_numbers_of_cells_and_names_are_escaped() {
    let dir = tempfile::tempdir().unwrap();
    let table = small(dir.path(), 100.0);
    let markdown = read(dir.path(), "table.md");
    assert!(markdown.contains("a\\|b_%[init=1e-5]"), "{markdown}");
    for part in markdown.split("\n\n").filter(|part| part.starts_with('|')) {
        let bars: Vec<usize> = part.lines().map(|line| line.replace("\\|", "").matches('|').count()).collect();
        assert!(bars.windows(2).all(|pair| pair[0] == pair[1]), "{part}");
    }
    let tex = table.to_tex();
    assert!(tex.contains("a$|$b\\_\\%[init=1e-5]") && tex.contains("$\\pm$"), "{tex}");
}

#[test]
fn text_fits_a_terminal_of_120_columns() {
    let dir = tempfile::tempdir().unwrap();
    let mut table = small(dir.path(), 100.0);
    table.rows[1].arm = "layer_scale+drop_path[init=1e-5,depth=48,lr=3e-4]".to_owned();
    let text = table.to_text();
    assert!(text.contains("\n  [init=1e-5,depth=48,lr=3e-4]\n"), "{text}");
    for line in text.lines() {
        assert!(line.len() <= 120 && line.is_ascii(), "{} columns: {line}", line.len());
    }
    assert!(text.contains("images/s") && text.contains("peak MiB"), "{text}");
}

#[test]
fn csv_and_json_hold_the_numbers_of_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let table = small(dir.path(), 100.0);
    let text = read(dir.path(), "table.csv");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let field = |row: &csv::StringRecord, name: &str| -> String {
        row[headers.iter().position(|header| header == name).unwrap()].to_owned()
    };
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!((field(&rows[1], "arm"), field(&rows[1], "done")), ("a|b_%[init=1e-5]".into(), "3".into()));
    // .71, .73, .75 against .70, .72, .74.
    let number = |row, name| field(row, name).parse::<f64>().unwrap();
    assert!((number(&rows[1], "test/top1_mean") - 0.73).abs() < 1e-12);
    assert!((number(&rows[1], "difference_mean") - 0.01).abs() < 1e-12);
    assert_eq!(field(&rows[0], "difference_mean"), "", "the baseline has no difference");
    assert_eq!(number(&rows[0], "test/top1_low"), table.rows[0].metrics[0].1.unwrap().low.unwrap(), "to the last bit");
    assert!(!text.contains("images_per_s"), "figures that depend on time stand elsewhere");

    let json: serde_json::Value = serde_json::from_str(&table.to_json()).unwrap();
    assert_eq!(json["rows"][1]["metrics"]["test/top1"]["n"], 3);
    assert_eq!(json["rows"][1]["metrics"]["test/top1"]["interval"], "t95");
    assert_eq!(json["rows"][0]["timing"]["images_per_s"], 100.0);
    assert_eq!(json["selection"], serde_json::Value::Null);
}

#[test]
fn damaged_records_never_break_a_report_and_are_named() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), 100.0);
    let run = |index: usize| read_sweep(dir.path()).unwrap().runs[index].planned.dir(dir.path());
    let steps = run(0).join("steps.csv");
    let text = fs::read_to_string(&steps).unwrap();
    fs::write(&steps, &text[..text.len() - 5]).unwrap();
    fs::write(run(1).join("steps.csv"), "").unwrap();
    fs::remove_file(run(2).join("layers.csv")).unwrap();
    fs::write(run(3).join("done.json"), "{").unwrap();
    fs::remove_file(run(4).join("timing.json")).unwrap();
    fs::write(run(5).join("layers.csv"), "step,block,branch,ratio\n0,x,mlp,1\n").unwrap();
    let table = write_tables(dir.path()).unwrap();
    let notes = table.notes.join("\n");
    for needed in [
        "a|b_%[init=1e-5]: 2 of 3 seeds done.",
        "Records: steps.csv: the last line is torn and was left out (plain s0).",
        "Records: steps.csv: without step 0 divergence cannot be told (a|b_%[init=1e-5] s0).",
        "Records: layers.csv: missing (plain s1).",
        "Records: done.json: damaged: EOF",
        "Records: timing.json: missing (plain s2).",
        "Records: layers.csv: damaged from line 2 on",
    ] {
        assert!(notes.contains(needed), "no {needed:?} in\n{notes}");
    }
    assert_eq!(table.rows[0].done, 3, "what is there still counts");
}

/// Cut at the end of a line no row is torn, yet the last 20 losses are not those of the end.
#[test]
fn rows_that_end_early_give_no_final_loss_and_are_named() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), 100.0);
    let run = read_sweep(dir.path()).unwrap().runs.swap_remove(0);
    let steps = run.planned.dir(dir.path()).join("steps.csv");
    let text = fs::read_to_string(&steps).unwrap();
    let head: String = text.split_inclusive('\n').take(1 + 90).collect();
    assert_eq!(run.finished().unwrap().final_loss, Some(0.5));
    fs::write(&steps, head).unwrap();
    let run = read_sweep(dir.path()).unwrap().runs.swap_remove(0);
    let finished = run.finished().unwrap();
    assert_eq!((finished.final_loss, finished.not_trained), (None, false), "at step 89 the loss was still 2.3");
    assert_eq!(run.problems, ["steps.csv: ends at step 89, but the run had 200 steps"]);
}

#[test]
fn a_folder_that_cannot_be_opened_is_named_and_one_that_is_not_there_is_not() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), 100.0);
    let runs = read_sweep(dir.path()).unwrap().runs;
    let [absent, blocked] = [0, 1].map(|index: usize| runs[index].planned.dir(dir.path()));
    fs::remove_dir_all(absent).unwrap();
    fs::remove_dir_all(&blocked).unwrap();
    fs::write(&blocked, "").unwrap();
    let runs = read_sweep(dir.path()).unwrap().runs;
    assert!(runs[0].problems.is_empty(), "it was never begun");
    assert!(runs[1].problems[0].ends_with(": cannot open the folder"), "{:?}", runs[1].problems);
}

/// Runs 0 and 2 are plain s0 and s1, run 1 is a|b_% s0.
#[test]
fn runs_of_different_code_libtorch_or_devices_are_warned_of_by_arm() {
    let dir = tempfile::tempdir().unwrap();
    small(dir.path(), 100.0);
    assert!(write_tables(dir.path()).unwrap().notes.is_empty(), "negative control");
    let edit = |index: usize, change: &dyn Fn(&mut Env)| {
        let run = RunDir::open(&read_sweep(dir.path()).unwrap().plan.runs[index].dir(dir.path())).unwrap();
        let mut env = run.read_env().unwrap().unwrap();
        change(&mut env);
        fs::write(run.path().join("env.json"), serde_json::to_string(&env).unwrap()).unwrap();
    };
    edit(0, &|env| (env.git_dirty, env.git_diff_sha256) = (Some(true), Some("aabbccddeeff".into())));
    edit(2, &|env| (env.git_dirty, env.git_diff_sha256) = (Some(true), Some("ffeebbccddee".into())));
    for index in [1, 3, 5] {
        edit(index, &|env| env.libtorch = "2.12.0".into());
    }
    // Another device of the same kind and name is none.
    edit(4, &|env| (env.device, env.threads) = ("cpu".into(), 4));
    let table = write_tables(dir.path()).unwrap();
    let want = [
        "Warning: the runs come from 3 versions of the code: 0123456 with changes (diff aabbccdd) (plain s0); \
         0123456 (a|b_%[init=1e-5], plain s2); 0123456 with changes (diff ffeebbcc) (plain s1).",
        "Warning: the runs come from 2 versions of libtorch: 2.11.0 (plain); 2.12.0 (a|b_%[init=1e-5]).",
        "Warning: the runs come from 2 devices: cpu, 1 thread a run (plain s0 s1, a|b_%[init=1e-5]); \
         cpu, 4 threads a run (plain s2).",
    ];
    assert_eq!(table.notes, want);
    let code = &table.heading.lines.iter().find(|(word, _)| *word == "Code").unwrap().1;
    assert!(code.contains("with changes (diff aabbccdd), reslab") && code.contains("; commit"), "{code}");
    assert!(read(dir.path(), "table.md").contains("3 versions of the code") && table.to_text().contains("2 devices"));
}

#[test]
fn runs_that_other_code_went_on_with_are_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(vec![planned("plain", &[], 0), planned("gated", &[], 0)]);
    plan.write(dir.path()).unwrap();
    for (run, commit) in plan.runs.iter().zip(["fedcba9876543210", "0123456789abcdef0123"]) {
        let begun = RunDir::create(&run.dir(dir.path())).unwrap();
        let (reslab, libtorch, device) = ("0.1.0".to_owned(), "2.11.0".to_owned(), "cpu".to_owned());
        let (git_commit, git_dirty) = (Some(commit.to_owned()), Some(false));
        let env = Env { reslab, libtorch, git_commit, git_dirty, device, threads: 1, ..Env::default() };
        begun.write_env(&env).unwrap();
        Fake::trained(0.5, 0.5).write(dir.path(), run);
    }
    let table = write_tables(dir.path()).unwrap();
    assert_eq!(table.notes, ["Warning: continued by other code than began it: plain s0 (fedcba9, then 0123456)."]);
}

#[test]
fn a_folder_without_a_plan_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let error = write_tables(dir.path()).unwrap_err().to_string();
    assert!(error.contains("plan.toml: cannot read"), "{error}");
}
