//! Failures that need not come again, runs that hang, and runs that another process is at.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use reslab_record::{FailureClass, MicroBatches, RunDir, RunLock, RunState, run_state};
use reslab_sweep::Retry;

use crate::common::*;

/// Counts its starts in `$DIR/starts`.
const COUNT: &str = "echo start >> $DIR/starts; N=$(wc -l < $DIR/starts); ";

fn starts(sweep: &std::path::Path, run: &reslab_record::PlannedRun) -> usize {
    fs::read_to_string(run.dir(sweep).join("starts")).unwrap_or_default().lines().count()
}

#[test]
fn a_killed_run_is_started_again_as_often_as_is_allowed() {
    for (retries, deaths, finished) in [(2, 1, 1), (2, 2, 1), (2, 3, 0), (0, 1, 0)] {
        let out = tempfile::tempdir().unwrap();
        let plan = tiny_plan(1, "[0]");
        let script = format!("{COUNT} if [ $N -le {deaths} ]; then kill -9 $$; fi; done_now");
        let (summary, told) = go(out.path(), &plan, &script, &How { retries, ..How::default() });
        assert_eq!((summary.finished, summary.failed.len()), (finished, 1 - finished), "{:?}", told.lines);
        assert_eq!(starts(out.path(), &plan.runs[0]), (deaths.min(retries + 1) + finished as u32) as usize);
        assert_eq!(told.count("again a 0 killed Retry { number: 1, of: 2 }"), usize::from(retries > 0));
        let left = RunDir::open(&plan.runs[0].dir(out.path())).unwrap().read_failed().unwrap();
        assert_eq!(left.map(|failed| failed.class), (finished == 0).then_some(FailureClass::Killed));
    }
}

#[test]
fn an_io_error_is_tried_again_and_a_bug_is_not() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(2, "[0]");
    let script = format!(
        "{COUNT} if [ $N = 1 ]; then if [ $ARM = a ]; then echo 'Input/output error' >&2; fi; exit 1; fi; done_now"
    );
    let (summary, told) = go(out.path(), &plan, &script, &How { retries: 2, ..How::default() });
    assert_eq!((summary.finished, summary.failed.len()), (1, 1), "{:?}", told.lines);
    assert_eq!((starts(out.path(), &plan.runs[0]), starts(out.path(), &plan.runs[1])), (2, 1));
    assert_eq!(told.failed[0].class, FailureClass::Bug);
}

#[test]
fn a_retry_also_works_where_only_failed_runs_were_asked_for() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    go(out.path(), &plan, "exit 1", &How::default());
    let script = format!("{COUNT} if [ $N = 1 ]; then kill -9 $$; fi; done_now");
    let how = How { retry: Retry::FailedOnly, retries: 1, ..How::default() };
    let (summary, told) = go(out.path(), &plan, &script, &how);
    assert_eq!((summary.finished, starts(out.path(), &plan.runs[0])), (1, 2), "{:?}", told.lines);
}

#[test]
fn a_run_without_memory_gets_smaller_micro_batches_until_they_cannot_be_split() {
    // train.batch = 12, accumulate = 1: 2 and 4 micro-batches are possible, 8 are not.
    let script = "echo 'CUDA out of memory. Tried' >&2; exit 1";
    let out = tempfile::tempdir().unwrap();
    let mut plan = tiny_plan(1, "[0]");
    let train = plan.runs[0].config["train"].as_table_mut().unwrap();
    train.insert("batch".into(), 12.into());
    train.insert("accumulate".into(), 1.into());
    let (summary, told) = go(out.path(), &plan, script, &How::default());
    assert_eq!(told.count("started"), 3, "{:?}", told.lines);
    assert_eq!(told.count("again a 0 out of memory Accumulate { micro_batches: 2 }"), 1);
    assert_eq!(told.count("again a 0 out of memory Accumulate { micro_batches: 4 }"), 1);
    assert_eq!(summary.failed[0].failed.class, FailureClass::OutOfMemory);
    let dir = RunDir::open(&plan.runs[0].dir(out.path())).unwrap();
    assert_eq!(dir.read_micro_batches().unwrap(), Some(MicroBatches { accumulate: 4 }));
}

#[test]
fn a_run_of_which_nothing_is_heard_is_ended_and_started_again() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(2, "[0]");
    // Arm a hangs at its first start; arm b is slow, but says so.
    let word = r#"echo '{"event":"note","text":"here"}'"#;
    let script = format!(
        "{COUNT} if [ $ARM = b ]; then for i in 1 2 3 4 5 6 7 8; do {word}; sleep 0.2; done; fi; \
         if [ $ARM$N = a1 ]; then trap '' INT TERM; sleep 60 & wait; fi; done_now"
    );
    let began = Instant::now();
    let how = How { retries: 1, hang_after: Some(Duration::from_millis(600)), ..How::default() };
    let (summary, told) = go(out.path(), &plan, &script, &how);
    assert_eq!(summary.finished, 2, "{:?}", told.lines);
    assert_eq!((starts(out.path(), &plan.runs[0]), starts(out.path(), &plan.runs[1])), (2, 1));
    assert_eq!(told.count("again a 0 hang Retry { number: 1, of: 1 }"), 1);
    assert!(began.elapsed() < Duration::from_secs(20));
    let out = tempfile::tempdir().unwrap();
    let how = How { hang_after: Some(Duration::from_millis(300)), ..How::default() };
    let (summary, _) = go(out.path(), &tiny_plan(1, "[0]"), "sleep 60 & wait", &how);
    assert_eq!(summary.failed[0].failed.message, "nothing was heard of it for 0.3 s, so it was ended");
}

/// A process that holds the lock of a run's folder for a while, then does `last`.
fn holder(dir: &std::path::Path, seconds: f64, last: &str) -> std::process::Child {
    fs::create_dir_all(dir).unwrap();
    let script = format!("exec 9>>{0}/lock; flock 9; echo > {0}/held; sleep {seconds}; {last}", dir.display());
    let child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    while !dir.join("held").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_run_that_another_process_is_at_is_waited_for() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(2, "[0]");
    let other = tempfile::tempdir().unwrap();
    go(other.path(), &plan, "done_now", &How::default());
    let [mine, theirs] = [out.path(), other.path()].map(|sweep| plan.runs[0].dir(sweep));
    let finish = format!("cp {}/done.json {}/done.json", theirs.display(), mine.display());
    let mut held = holder(&mine, 1.0, &finish);
    assert_eq!(run_state(&mine).unwrap(), RunState::Running);
    let (summary, told) = go(out.path(), &plan, "done_now", &How::default());
    assert_eq!((summary.done_elsewhere, summary.finished, summary.exit_code()), (1, 1, 0), "{:?}", told.lines);
    assert_eq!((told.count("skipped a 0 Elsewhere"), told.count("started a")), (1, 0));
    held.wait().unwrap();
}

#[test]
fn a_run_that_another_process_gave_up_is_taken_over() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    let mut held = holder(&plan.runs[0].dir(out.path()), 1.0, "true");
    let (summary, told) = go(out.path(), &plan, "done_now", &How::default());
    assert_eq!((summary.elsewhere, summary.finished), (0, 1), "{:?}", told.lines);
    held.wait().unwrap();
}

#[test]
fn a_wish_to_stop_ends_the_waiting() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    let dir = plan.runs[0].dir(out.path());
    fs::create_dir_all(&dir).unwrap();
    let _lock = RunLock::acquire(&dir).unwrap();
    let stop = reslab_sweep::Stop::new();
    stop.request(libc::SIGINT);
    let (summary, _) = go(out.path(), &plan, "done_now", &How { stop: &stop, ..How::default() });
    assert_eq!((summary.elsewhere, summary.exit_code()), (1, 130));
}

#[test]
fn a_child_that_lost_the_race_for_the_lock_has_not_failed() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    let script = format!("{COUNT} if [ $N = 1 ]; then exit 75; fi; done_now");
    let (summary, told) = go(out.path(), &plan, &script, &How::default());
    assert_eq!((summary.finished, summary.failed.len()), (1, 0), "{:?}", told.lines);
    assert_eq!(told.count("skipped a 0 Elsewhere"), 1);
}
