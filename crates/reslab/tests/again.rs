//! A sweep whose runs are killed, hang, or lack memory; and what is left of runs that the plan has no more.

mod support;

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::{Place, json};

/// A sweep of one run that takes a few seconds.
const LONGER: [&str; 10] =
    ["sweep", "tiny.toml", "--arm", "plain", "--seeds", "0", "--set", "train.steps=600", "--set", "train.eval_every=0"];

/// The process of the run that a sweep's process has started, as soon as it has done `steps`.
fn run_of(sweep: &mut Child, place: &Place, out: &str, steps: usize) -> i32 {
    let began = Instant::now();
    let rows = || {
        let runs = std::fs::read_dir(place.at(out).join("tiny/runs")).ok()?;
        let csv = runs.flatten().map(|run| run.path().join("steps.csv")).next()?;
        std::fs::read_to_string(csv).ok().map(|text| text.lines().count())
    };
    while rows().unwrap_or(0) <= steps {
        assert!(began.elapsed() < Duration::from_secs(300), "the run does not get on");
        assert!(sweep.try_wait().expect("a child").is_none(), "the sweep ended too early");
        std::thread::sleep(Duration::from_millis(5));
    }
    children(sweep.id()).into_iter().next().expect("the sweep has a run's process")
}

fn children(parent: u32) -> Vec<i32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: a plain system call.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Files of a run that must not depend on what happened to it.
fn result_of(dir: &Path) -> Vec<Vec<u8>> {
    let steps = std::fs::read_to_string(dir.join("steps.csv")).expect("steps");
    let without_times: Vec<&str> =
        steps.lines().map(|line| line.rsplitn(3, ',').last().expect("a row has columns")).collect();
    let read = |name: &str| std::fs::read(dir.join(name)).expect(name);
    vec![without_times.join("\n").into_bytes(), read("layers.csv"), read("evals.csv"), read("done.json")]
}

#[test]
fn a_run_that_is_killed_or_hangs_is_started_again_and_ends_as_if_nothing_had_been() {
    let place = Place::new();
    place.call(&[&LONGER[..], &["--out", "calm"]].concat()).expect(0);
    let calm = place.run_dir("calm/tiny", "plain-s0");
    for (name, sent, said) in [("killed", libc::SIGKILL, "retry 1 of 2"), ("hung", libc::SIGSTOP, "nothing was heard")]
    {
        let arguments = [&LONGER[..], &["--out", name, "--hang-after", "3"]].concat();
        let mut command = place.command(&arguments);
        let mut sweep = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let run = run_of(&mut sweep, &place, name, 50);
        signal(run, sent);
        let output = sweep.wait_with_output().expect("it ends");
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words}");
        assert!(words.contains(said) && words.contains("goes on from its checkpoint"), "{words}");
        let dir = place.run_dir(&format!("{name}/tiny"), "plain-s0");
        let log = std::fs::read_to_string(dir.join("log.txt")).expect("a log");
        assert!(log.contains(", from step "), "{log}");
        assert_eq!(result_of(&dir), result_of(&calm), "{name}");
        assert!(!dir.join("failed.json").exists());
    }
}

#[test]
fn without_retries_a_killed_run_has_failed_and_the_next_call_goes_on_with_it() {
    let place = Place::new();
    let arguments = [&LONGER[..], &["--out", "out", "--retries", "0"]].concat();
    let mut command = place.command(&arguments);
    let mut sweep = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let run = run_of(&mut sweep, &place, "out", 50);
    signal(run, libc::SIGKILL);
    assert_eq!(sweep.wait().expect("it ends").code(), Some(1));
    let dir = place.run_dir("out/tiny", "plain-s0");
    assert_eq!(json(&dir.join("failed.json"))["class"], "killed");
    place.call(&arguments).expect(0);
    assert!(dir.join("done.json").is_file() && !dir.join("failed.json").exists());
}

#[test]
fn a_run_that_lacked_memory_is_computed_in_smaller_micro_batches_and_the_table_says_so() {
    let place = Place::new();
    let arguments = ["sweep", "tiny.toml", "--arm", "plain", "--seeds", "0", "--set", "train.steps=10", "--out"];
    let whole = place.call(&[&arguments[..], &["whole"]].concat()).expect(0);
    assert!(!whole.out.contains("micro-batches"), "{}", whole.out);
    let whole = place.run_dir("whole/tiny", "plain-s0");
    // As the sweep leaves it after the first attempt.
    let split = place.at("split/tiny/runs").join(whole.file_name().expect("a name"));
    std::fs::create_dir_all(&split).expect("a folder");
    std::fs::write(split.join("micro_batches.json"), "{\"accumulate\": 4}\n").expect("written");
    let called = place.call(&[&arguments[..], &["split"]].concat()).expect(0);
    assert!(called.out.contains("Memory ran out") && called.out.contains("plain s0 (4 per batch)"), "{}", called.out);
    assert_eq!(json(&split.join("done.json"))["micro_batches"], 4);
    assert!(json(&whole.join("done.json")).get("micro_batches").is_none());
    // The same draws: the losses agree but for rounding.
    let loss = |dir: &Path| json(&dir.join("done.json"))["metrics"]["train/loss"].as_f64().expect("a number");
    assert!((loss(&split) - loss(&whole)).abs() < 1e-4, "{} {}", loss(&split), loss(&whole));
}

#[test]
fn checkpoints_by_time_are_written_and_a_wrong_time_is_refused() {
    let place = Place::new();
    let by_time = ["--set", "train.checkpoint_every=\"0.0005 min\"", "--out", "out"];
    place.call(&[&LONGER[..], &by_time].concat()).expect(0);
    let run = place.run_dir("out/tiny", "plain-s0");
    assert!(run.join("checkpoint.safetensors").is_file(), "600 steps take longer than 30 ms");
    let wrong = place.call(&["plan", "tiny.toml", "--set", "train.checkpoint_every=\"5 h\""]).expect(2);
    assert!(wrong.err.contains("checkpoint_every") && wrong.err.contains("such as \"10 min\""), "{}", wrong.err);
}

#[test]
fn what_a_plan_lacks_is_listed_and_only_deleted_when_that_is_asked_for() {
    let place = Place::new();
    place.call(&["sweep", "tiny.toml", "--set", "train.steps=10", "--seeds", "0", "--out", "out"]).expect(0);
    let gone = place.run_dir("out/tiny", "layer_scale");
    let fewer = std::fs::read_to_string(place.at("tiny.toml")).expect("tiny.toml");
    let fewer = fewer.split("[[arm]]").take(2).collect::<Vec<_>>().join("[[arm]]");
    std::fs::write(place.at("tiny.toml"), fewer).expect("written");
    let arguments = ["sweep", "tiny.toml", "--set", "train.steps=10", "--out", "out", "--prune"];
    let listed = place.call(&arguments).expect(0);
    let name = gone.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(listed.out.contains(&name) && listed.out.contains("done"), "{}{}", listed.out, listed.err);
    let head: Vec<&str> = listed.out.lines().next().expect("a line").split_whitespace().collect();
    assert_eq!(head, ["folder", "size", "run"], "{}", listed.out);
    assert!(listed.err.contains("--prune --yes") && gone.exists(), "{}", listed.err);
    place.call(&["sweep", "tiny.toml", "--out", "out", "--yes"]).expect(2);
    let deleted = place.call(&[&arguments[..], &["--yes"]].concat()).expect(0);
    assert!(deleted.out.contains(&name) && deleted.err.contains("1 folders deleted"), "{}", deleted.err);
    assert!(!gone.exists() && place.run_dir("out/tiny", "plain-s0").exists());
}

/// Another sweep on the edited file changes plan.toml while runs of the first one wait their turn.
#[test]
fn a_plan_that_another_sweep_changes_meanwhile_fails_no_run_of_the_first() {
    let place = Place::new();
    let arguments = ["sweep", "tiny.toml", "--arm", "plain", "--jobs", "1", "--out", "out", "--set", "train.steps=600"];
    let mut command = place.command(&arguments);
    let mut sweep = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    run_of(&mut sweep, &place, "out", 20);
    // The plan of other runs: none of the first sweep's is in it.
    place
        .call(&["sweep", "tiny.toml", "--arm", "plain", "--seeds", "0", "--out", "out", "--set", "train.steps=10"])
        .expect(0);
    let output = sweep.wait_with_output().expect("it ends");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    let runs = std::fs::read_dir(place.at("out/tiny/runs")).expect("runs").flatten();
    let done = runs.filter(|run| run.path().join("done.json").is_file()).count();
    assert_eq!(done, 3, "two of the first sweep, one of the second: {words}");
    // The table is of the runs that this sweep computed, and it says that the files are of others.
    let table = String::from_utf8_lossy(&output.stdout);
    let plain = table.lines().find(|line| line.starts_with("plain ")).expect("a row");
    assert!(plain.contains("(n=2") && !table.contains("plain: 0 of 2"), "{table}");
    assert!(words.contains("another sweep changed plan.toml meanwhile"), "{words}");
}
