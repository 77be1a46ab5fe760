//! Ctrl-C, once and twice, and SIGTERM.

use std::path::Path;
use std::time::{Duration, Instant};

use reslab_record::Checkpoint;

use crate::processes::{Started, send, start, wait_for_workers, wait_until, workers};
use crate::records::{Files, assert_same, done, place, read_results, rows, runs, starts};
use crate::support::Place;

/// Two runs that last a few seconds, and save nothing unless they are asked to stop.
const SWEEP: [&str; 16] = [
    "sweep",
    "faults.toml",
    "--threads",
    "1",
    "--jobs",
    "2",
    "--out",
    "here",
    "--seeds",
    "0",
    "--set",
    "train.steps=800",
    "--set",
    "train.eval_every=300",
    "--set",
    "train.checkpoint_every=0",
];
/// On a machine that is busy; two steps and the writing of a file are a few milliseconds.
const SECONDS: Duration = Duration::from_secs(10);

fn undisturbed() -> Files {
    let place = place();
    place.call(&SWEEP).expect(0);
    read_results(&place.at("here/faults"))
}

/// Starts the sweep, and waits until both of its runs are at work.
fn at_work(place: &Place) -> Started {
    let started = start(place, "sweep", &SWEEP);
    let sweep = place.at("here/faults");
    wait_until("two runs at work", || runs(&sweep).iter().filter(|run| rows(run, "steps.csv") > 20).count() == 2);
    started
}

/// Every step that was done is in a checkpoint, and no run has an end.
fn assert_saved(sweep: &Path, words: &str) {
    for run in runs(sweep) {
        let step = Checkpoint::read(&run).checkpoint.unwrap_or_else(|| panic!("{}: {words}", run.display())).step;
        assert_eq!(step, rows(&run, "steps.csv") as u64, "{words}");
        assert!(!run.join("done.json").exists() && !run.join("failed.json").exists(), "{words}");
    }
}

#[test]
fn one_signal_saves_all_runs_two_end_them_and_the_same_command_goes_on() {
    let expected = undisturbed();
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let place = place();
        let sweep = place.at("here/faults");
        let mut started = at_work(&place);
        started.signal(signal);
        let began = Instant::now();
        started.expect(code);
        assert!(began.elapsed() < SECONDS, "{:?}", began.elapsed());
        assert!(workers(&place).is_empty(), "a run goes on");
        assert_saved(&sweep, &started.words());
        place.call(&SWEEP).expect(0);
        let resumed: Vec<Vec<u64>> = runs(&sweep).iter().map(|run| starts(run)).collect();
        assert!(resumed.iter().all(|starts| starts.len() == 2 && starts[1] > 20), "{resumed:?}");
        assert_same(&read_results(&sweep), &expected, "after one signal");
    }
}

#[test]
fn a_second_ctrl_c_ends_runs_that_do_not_come_to_save() {
    let expected = undisturbed();
    let place = place();
    let sweep = place.at("here/faults");
    let mut started = at_work(&place);
    // A run that hangs, as far as its sweep can tell.
    let stopped = workers(&place);
    stopped.iter().for_each(|run| send(*run, libc::SIGSTOP));
    started.signal(libc::SIGINT);
    std::thread::sleep(Duration::from_secs(1));
    assert!(started.child.try_wait().expect("ours").is_none(), "one press does not give up: {}", started.words());
    started.signal(libc::SIGINT);
    let began = Instant::now();
    started.expect(130);
    assert!(began.elapsed() < SECONDS, "{:?}", began.elapsed());
    wait_for_workers(&place);
    assert_eq!(done(&sweep), 0);
    place.call(&SWEEP).expect(0);
    assert_same(&read_results(&sweep), &expected, "after two presses");
}
