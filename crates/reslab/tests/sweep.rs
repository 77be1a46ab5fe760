//! `reslab sweep` from the outside: a table from real runs, skipped the second time, resumed after Ctrl-C.

mod support;

use std::time::{Duration, Instant};
use support::{Place, json};

#[test]
fn a_sweep_ends_in_a_table_and_the_same_command_again_starts_nothing() {
    let place = Place::new();
    let first = place.call(&["sweep", "tiny.toml"]).expect(0);
    for part in ["plain", "layer_scale", "test/top1", "images/s"] {
        assert!(first.out.contains(part), "no {part:?} in the table:\n{}", first.out);
    }
    assert!(first.err.contains("estimate: 4 runs") && first.err.contains("estimated"), "{}", first.err);
    assert!(!first.out.contains('\x1b') && !first.err.contains('\x1b'), "colour without a terminal");
    let dir = place.at("results/tiny");
    for file in ["plan.toml", "table.md", "table.csv", "plots/loss.svg", "plots/loss.png", "report.html"] {
        assert!(dir.join(file).is_file(), "{file} is missing");
    }
    let page = std::fs::read_to_string(dir.join("report.html")).expect("a page");
    assert!(page.contains("4 runs, and all have their result."), "the page is that of the end");
    // Real training: with this rate the smallest network gets far beyond chance in 40 steps.
    let done = json(&place.run_dir("results/tiny", "plain-s0").join("done.json"));
    assert!(done["metrics"]["test/top1"].as_f64().expect("a number") > 0.4, "{done}");

    let before = place.files();
    let began = Instant::now();
    let again = place.call(&["sweep", "tiny.toml"]).expect(0);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(again.out, first.out, "the same table");
    for part in ["all 4 runs are done", "--out", "`reslab reproduce results/tiny`"] {
        assert!(again.err.contains(part), "no {part:?} in:\n{}", again.err);
    }
    assert!(place.files() == before, "the second call wrote something");

    // A new seed reruns nothing: only what is missing starts.
    let more = place.call(&["sweep", "tiny.toml", "--dry-run", "--set", "seeds=[0,1,2]", "--out", "results"]).expect(0);
    assert!(more.out.contains("6 runs of 2 arms") && more.out.contains("2 of them would start now"), "{}", more.out);
    assert!(place.files() == before, "a dry run wrote something");
    let report = place.call(&["report", "results/tiny", "--format", "csv"]).expect(0);
    assert!(report.out.starts_with("arm,"), "{}", report.out);
    assert!(place.files() == before, "the tables come out the same when they are rebuilt");

    // A damaged result is none, and is not written over.
    let torn = place.run_dir("results/tiny", "plain-s0").join("done.json");
    std::fs::write(&torn, "{").expect("written");
    let damaged = place.call(&["sweep", "tiny.toml"]).expect(1);
    assert!(damaged.err.contains("done.json") && !damaged.err.contains("all 4 runs are done"), "{}", damaged.err);
    assert_eq!(std::fs::read(&torn).expect("read"), b"{");
}

#[test]
fn a_learning_rate_of_ten_diverges_and_is_recorded_as_a_result() {
    let place = Place::new();
    let set = ["--set", "optim.lr=10", "--set", "train.steps=100", "--seeds", "0"];
    let called = place.call(&[&["sweep", "tiny.toml", "--out", "here"], &set[..]].concat()).expect(0);
    assert!(called.out.contains("1 diverged"), "{}", called.out);
    let table = place.call(&["report", "here/tiny", "--format", "json"]).expect(0);
    let table: serde_json::Value = serde_json::from_str(&table.out).expect("JSON");
    for row in table["rows"].as_array().expect("rows") {
        assert_eq!((&row["diverged"], &row["failed"]), (&1.into(), &0.into()), "{row}");
    }
    // Gradient descent with this rate leaves the numbers that a float holds: the run stops there.
    let sgd = "optim={kind=\"sgd\", lr=1e30, momentum=0.0, weight_decay=0.0, warmup_steps=0, schedule=\"constant\"}";
    place.call(&["sweep", "tiny.toml", "--out", "there", "--set", sgd, "--arm", "plain", "--seeds", "0"]).expect(0);
    let done = json(&place.run_dir("there/tiny", "plain-s0").join("done.json"));
    assert_eq!(done["outcome"], "non_finite", "{done}");
}

#[test]
fn ctrl_c_saves_and_the_same_command_goes_on_from_there() {
    let place = Place::new();
    let arguments =
        ["sweep", "tiny.toml", "--set", "train.steps=1200", "--set", "train.eval_every=0", "--arm", "plain"];
    let arguments = [&arguments[..], &["--seeds", "0", "--out", "here"]].concat();
    let output = place.at("err.txt");
    let mut command = place.command(&arguments);
    let file = std::fs::File::create(&output).expect("a file");
    let mut child = command.stdout(file.try_clone().expect("a file")).stderr(file).spawn().expect("it starts");
    let steps = || {
        let dir = place.at("here/tiny/runs");
        let csv = std::fs::read_dir(dir).ok()?.flatten().map(|run| run.path().join("steps.csv")).next()?;
        std::fs::read_to_string(csv).ok().map(|text| text.lines().count())
    };
    let began = Instant::now();
    while steps().unwrap_or(0) < 30 {
        assert!(began.elapsed() < Duration::from_secs(600), "{}", std::fs::read_to_string(&output).unwrap_or_default());
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: a plain system call on a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let status = child.wait().expect("it ends");
    let words = std::fs::read_to_string(&output).expect("readable");
    assert_eq!(status.code(), Some(130), "{words}");
    let run = place.run_dir("here/tiny", "plain-s0");
    assert!(!run.join("done.json").exists() && !run.join("failed.json").exists(), "{words}");
    assert!(run.join("checkpoint.safetensors").is_file(), "{words}");

    let again = place.call(&arguments).expect(0);
    let log = std::fs::read_to_string(run.join("log.txt")).expect("a log");
    assert!(log.contains(", from step "), "it did not go on from the checkpoint:\n{log}\n{}", again.err);
    let rows = std::fs::read_to_string(run.join("steps.csv")).expect("steps");
    assert_eq!(rows.lines().count(), 1201, "a header and every step once");
}

#[test]
fn a_page_that_can_not_be_written_is_told_and_ends_no_sweep() {
    let place = Place::new();
    std::fs::create_dir_all(place.at("results/tiny/report.html/in the way")).expect("a folder");
    let one = place.call(&["sweep", "tiny.toml", "--arm", "plain", "--seeds", "0"]).expect(0);
    assert!(one.err.contains("page could not be written") && one.err.contains("report.html"), "{}", one.err);
    assert!(place.at("results/tiny/table.md").is_file() && one.out.contains("test/top1"), "{}", one.out);
}
