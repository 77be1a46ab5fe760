//! Ctrl-C and SIGTERM: passed on once, runs save and end; a second one ends them at once; nothing is left running.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use reslab_sweep::Stop;

use crate::common::*;

/// A run that saves on either signal, and tells which it was.
const SAVES: &str = "trap 'echo INT >> $DIR/saved; exit 130' INT; trap 'echo TERM >> $DIR/saved; exit 143' TERM; \
    echo '{\"event\":\"note\",\"text\":\"ready\"}'; sleep 30 & wait; wait";

/// A run that heeds nothing.
const DEAF: &str = "trap '' INT TERM; echo '{\"event\":\"note\",\"text\":\"ready\"}'; while :; do sleep 0.1; done";

fn stop_when_ready(script: &str, signal: i32, presses: u32) -> (tempfile::TempDir, reslab_sweep::Summary, Told) {
    let out = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    let press = |told: &Told| {
        if told.count("progress") == 2 && stop.presses() == 0 {
            (0..presses).for_each(|_| stop.request(signal));
        }
    };
    let how = How { stop: &stop, then: &press, ..How::default() };
    let (summary, told) = go(out.path(), &tiny_plan(4, "[0]"), script, &how);
    (out, summary, told)
}

#[test]
fn the_first_signal_is_passed_on_and_runs_save_and_end() {
    for (signal, word, code) in [(libc::SIGINT, "INT\n", 130), (libc::SIGTERM, "TERM\n", 143)] {
        let began = Instant::now();
        let (out, summary, told) = stop_when_ready(SAVES, signal, 1);
        assert!(began.elapsed() < Duration::from_secs(10));
        assert_eq!((summary.interrupted, summary.not_started, summary.exit_code()), (2, 2, code), "{:?}", told.lines);
        assert!(summary.failed.is_empty());
        for run in &tiny_plan(2, "[0]").runs {
            let dir = run.dir(out.path());
            assert_eq!(fs::read_to_string(dir.join("saved")).unwrap(), word, "once, and this one");
            assert!(!dir.join("failed.json").exists(), "an interrupted run did not fail");
        }
        let (summary, _) = go(out.path(), &tiny_plan(4, "[0]"), "done_now", &How::default());
        assert_eq!((summary.finished, summary.exit_code()), (4, 0), "the next call goes on");
    }
}

/// As a shell starts the background jobs of a script.
#[test]
fn a_sweep_that_was_started_deaf_to_sigint_still_passes_it_on() {
    let ignore = |handler| {
        // SAFETY: a plain disposition; no handler of ours runs.
        unsafe { libc::signal(libc::SIGINT, handler) }
    };
    let before = ignore(libc::SIG_IGN);
    let began = Instant::now();
    let (_out, summary, _) = stop_when_ready(SAVES, libc::SIGINT, 1);
    ignore(before);
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!((summary.interrupted, summary.exit_code()), (2, 130));
}

#[test]
fn a_run_that_finishes_while_it_stops_is_finished() {
    let script = SAVES.replace("exit 130", "done_now; exit 0");
    let (_out, summary, _) = stop_when_ready(&script, libc::SIGINT, 1);
    assert_eq!((summary.finished, summary.interrupted, summary.exit_code()), (2, 0, 130));
}

#[test]
fn the_second_signal_ends_runs_at_once() {
    let began = Instant::now();
    let (_out, summary, told) = stop_when_ready(DEAF, libc::SIGINT, 2);
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!((summary.interrupted, summary.exit_code()), (2, 130), "{:?}", told.lines);
}

#[test]
fn a_stop_before_the_start_starts_nothing() {
    let out = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    stop.request(libc::SIGTERM);
    stop.request(libc::SIGINT);
    let (summary, told) = go(out.path(), &tiny_plan(2, "[0]"), "done_now", &How { stop: &stop, ..How::default() });
    assert_eq!(
        (told.count("started"), summary.not_started, summary.exit_code()),
        (0, 2, 143),
        "the first signal counts"
    );
}

#[test]
fn children_have_a_process_group_of_their_own() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    go(
        out.path(),
        &plan,
        "ps -o pgid= -p $$ > $DIR/group || cut -d' ' -f5 /proc/$$/stat > $DIR/group; echo $$ > $DIR/pid; done_now",
        &How::default(),
    );
    let read = |name: &str| fs::read_to_string(plan.runs[0].dir(out.path()).join(name)).unwrap().trim().to_owned();
    assert_eq!(read("group"), read("pid"));
}

const ORPHAN: &str = "RESLAB_TEST_ORPHAN_DIR";

/// Not a test of its own: the sweep's process of the next test, which is killed while its child runs.
#[test]
fn runs_a_child_where_it_is_told_to() {
    let Ok(dir) = std::env::var(ORPHAN) else { return };
    let script = "trap 'echo saved > $DIR/saved; exit 143' TERM; echo > $DIR/ready; sleep 30 & wait";
    go(Path::new(&dir), &tiny_plan(1, "[0]"), script, &How::default());
}

#[test]
fn a_child_is_told_to_end_when_the_sweeps_process_is_killed() {
    let out = tempfile::tempdir().unwrap();
    let mut sweep = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stop::runs_a_child_where_it_is_told_to", "--nocapture"])
        .env(ORPHAN, out.path())
        .spawn()
        .unwrap();
    let dir = tiny_plan(1, "[0]").runs[0].dir(out.path());
    wait_for(&dir.join("ready"));
    sweep.kill().unwrap();
    sweep.wait().unwrap();
    wait_for(&dir.join("saved"));
}

fn wait_for(path: &Path) {
    let end = Instant::now() + Duration::from_secs(20);
    while !path.exists() {
        assert!(Instant::now() < end, "{} did not appear", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}
