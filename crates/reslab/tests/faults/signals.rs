//! Ctrl-C, once and twice, and SIGTERM.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use reslab_record::Checkpoint;

use crate::processes::{Started, send, start_command, wait_for_workers, wait_until, workers};
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
    command_at_work(place, place.command(&SWEEP))
}

fn command_at_work(place: &Place, command: Command) -> Started {
    let started = start_command(place, "sweep", command);
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
    // Writing to a pipe that nobody reads waits for ever, as a file system that hangs does.
    runs(&sweep).iter().for_each(|run| pipe_at(&run.join("checkpoint.safetensors.tmp")));
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

fn pipe_at(path: &Path) {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("no zero byte");
    // SAFETY: the name ends in zero and lives as long as the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0, "{}", path.display());
}

/// A run that somebody stopped cannot save; asked to end, it goes on for that.
#[test]
fn runs_that_are_stopped_save_too_when_the_sweep_is_asked_to_end() {
    let place = place();
    let mut sweep = at_work(&place);
    let stopped = workers(&place);
    stopped.iter().for_each(|run| send(*run, libc::SIGSTOP));
    sweep.signal(libc::SIGTERM);
    sweep.expect(143);
    assert_saved(&place.at("here/faults"), &sweep.words());
}

/// Under nohup the end of the terminal is ignored; otherwise it asks the sweep to save and stop.
#[test]
fn a_hang_up_stops_a_sweep_unless_it_was_to_be_ignored() {
    let heeded = place();
    let mut command = heeded.command(&SWEEP);
    let heed = || {
        // These tests themselves may run under nohup.
        // SAFETY: async-signal-safe.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: `heed` only makes that system call.
    unsafe { command.pre_exec(heed) };
    let mut sweep = command_at_work(&heeded, command);
    sweep.signal(libc::SIGHUP);
    sweep.expect(129);
    assert_saved(&heeded.at("here/faults"), &sweep.words());

    let ignored = place();
    let mut command = ignored.command(&SWEEP);
    let ignore = || {
        // As nohup does it: what is ignored stays so over exec.
        // SAFETY: async-signal-safe.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        Ok(())
    };
    // SAFETY: `ignore` only makes that system call.
    unsafe { command.pre_exec(ignore) };
    let mut sweep = command_at_work(&ignored, command);
    sweep.signal(libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    assert!(sweep.child.try_wait().expect("it is ours").is_none(), "{}", sweep.words());
    sweep.signal(libc::SIGTERM);
    sweep.expect(143);
}
