//! Runs as processes: order, progress, what is skipped, how failures are told.

use std::collections::BTreeSet;
use std::fs;

use reslab_record::{Failed, FailureClass, RunDir};
use reslab_sweep::{OnFailure, Retry, pending};

use crate::common::*;

const STEP: &str =
    r#"echo '{"event":"step","step":3,"steps":10,"loss":0.5,"lr":0.1,"images_per_s":9.0,"seconds_left":1.0}';"#;

#[test]
fn runs_are_started_watched_and_counted() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(2, "[0, 1]");
    let script = format!("{STEP} echo a word; echo an error >&2; done_now");
    let (summary, told) = go(out.path(), &plan, &script, &How { jobs: 1, ..How::default() });
    assert_eq!((summary.finished, summary.exit_code(), summary.not_started), (4, 0, 0));
    let started: Vec<&String> = told.lines.iter().filter(|line| line.starts_with("started")).collect();
    assert_eq!(started, ["started a 0 on cpu", "started b 0 on cpu", "started a 1 on cpu", "started b 1 on cpu"]);
    assert_eq!(told.count("progress a 0 {\"event\":\"step\",\"step\":3,"), 1);
    assert_eq!(told.count("finished b 1 Finished"), 1);
    let log = fs::read_to_string(plan.runs[0].dir(out.path()).join("log.txt")).unwrap();
    assert!(log.contains("an error\n"), "{log}");
    assert!(summary.to_string().starts_with("4 finished; "), "{summary}");
}

#[test]
fn words_that_are_no_events_go_to_the_log() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    let (_, told) = go(out.path(), &plan, "echo a word; printf 'no line feed \\377'; exit 3", &How::default());
    let log = fs::read_to_string(plan.runs[0].dir(out.path()).join("log.txt")).unwrap();
    assert_eq!(log, "a word\nno line feed \u{fffd}\n");
    assert_eq!(told.count("progress"), 0);
}

#[test]
fn a_second_call_skips_what_is_done_and_starts_nothing() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(2, "[0]");
    go(out.path(), &plan, "done_now", &How::default());
    let (summary, told) = go(out.path(), &plan, "exit 9", &How::default());
    assert_eq!((summary.done_before, summary.exit_code()), (2, 0));
    assert!(summary.all_done_before());
    assert_eq!(told.lines, ["skipped a 0 Done(Some(Finished))", "skipped b 0 Done(Some(Finished))"]);
    assert!(pending(out.path(), &plan.runs, Retry::Pending).is_empty());
}

#[test]
fn a_result_that_cannot_be_read_or_is_another_runs_is_a_failure_and_is_not_written_over() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(3, "[0]");
    go(out.path(), &plan, "done_now", &How::default());
    let done = |index: usize| plan.runs[index].dir(out.path()).join("done.json");
    fs::write(done(0), "{\"id\": ").unwrap();
    fs::copy(done(2), done(1)).unwrap();
    for retry in [Retry::Pending, Retry::FailedOnly] {
        let (summary, told) = go(out.path(), &plan, "done_now", &How { retry, ..How::default() });
        assert_eq!((summary.done_before, summary.failed.len(), summary.exit_code()), (1, 2, 1), "{:?}", told.lines);
        assert_eq!(told.count("started"), 0);
        let messages: Vec<&str> = summary.failed.iter().map(|run| run.failed.message.as_str()).collect();
        assert!(messages[0].contains("done.json: EOF"), "{messages:?}");
        assert!(messages[1].contains(&format!("is that of run {}", plan.runs[2].id)), "{messages:?}");
        assert!(messages.iter().all(|message| message.contains("move the run's folder away")), "{messages:?}");
    }
    assert_eq!(fs::read_to_string(done(0)).unwrap(), "{\"id\": ");
}

#[test]
fn a_non_finite_run_is_a_result() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    let script =
        r#"DONE=$(echo "$DONE" | sed 's/"outcome":"finished"/"outcome":"non_finite","non_finite_step":4/'); done_now"#;
    let (summary, told) = go(out.path(), &plan, script, &How::default());
    assert_eq!((summary.non_finite, summary.finished, summary.exit_code()), (1, 0, 0));
    assert_eq!(told.count("finished a 0 NonFinite { step: 4 }"), 1);
}

#[test]
fn a_child_that_dies_without_a_word_is_classified_and_recorded() {
    for (script, class, message) in [
        ("kill -9 $$", FailureClass::Killed, "ended by signal 9 (SIGKILL"),
        ("echo 'CUDA out of memory. Tried' >&2; kill -ABRT $$", FailureClass::OutOfMemory, "CUDA out of memory"),
        ("echo 'error: x must be y' >&2; exit 1", FailureClass::Bug, "ended with exit code 1\nerror: x must be y"),
        ("exit 0", FailureClass::Bug, "ended without a result, though with exit code 0"),
        ("echo 'No space left on device' >&2; exit 1", FailureClass::Io, "No space left"),
    ] {
        let out = tempfile::tempdir().unwrap();
        let plan = tiny_plan(1, "[0]");
        let (summary, told) = go(out.path(), &plan, &format!("{STEP} {script}"), &How::default());
        assert_eq!(summary.exit_code(), 1, "{script}");
        let failed = &told.failed[0];
        assert_eq!((failed.class, failed.last_step), (class, Some(3)), "{script}");
        assert!(failed.message.contains(message), "{script}: {}", failed.message);
        let record = RunDir::open(&plan.runs[0].dir(out.path())).unwrap();
        assert_eq!(record.read_failed().unwrap().as_ref(), Some(failed));
        assert_eq!(&summary.failed[0].failed, failed);
    }
}

#[test]
fn what_the_child_says_of_its_failure_stands() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    let script = r#"echo '{"class":"hang","message":"own words","last_step":7}' > $DIR/failed.json; exit 1"#;
    let (_, told) = go(out.path(), &plan, script, &How::default());
    let own = Failed { class: FailureClass::Hang, message: "own words".into(), last_step: Some(7) };
    assert_eq!(told.failed, [own]);
}

#[test]
fn only_words_of_this_start_are_read_for_the_class() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    let (_, first) = go(out.path(), &plan, "echo 'out of memory' >&2; kill -9 $$", &How::default());
    assert_eq!(first.failed[0].class, FailureClass::OutOfMemory);
    let retry = How { retry: Retry::FailedOnly, ..How::default() };
    let (_, second) = go(out.path(), &plan, "kill -9 $$", &retry);
    assert_eq!(second.failed[0].class, FailureClass::Killed);
}

#[test]
fn a_plain_call_goes_on_with_killed_runs_and_leaves_bugs_for_retry_failed() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(3, "[0]");
    let script = "case $ARM in a) kill -9 $$;; b) exit 1;; c) done_now;; esac";
    let (summary, _) = go(out.path(), &plan, script, &How::default());
    assert_eq!((summary.failed.len(), summary.finished), (2, 1));
    let (summary, told) = go(out.path(), &plan, "done_now", &How::default());
    assert_eq!((summary.finished, summary.failed.len(), summary.exit_code()), (1, 1, 1), "{:?}", told.lines);
    assert_eq!(told.count("skipped b 0 Failed(Failed { class: Bug"), 1);
    let more = tiny_plan(4, "[0]");
    let retry = How { retry: Retry::FailedOnly, ..How::default() };
    let (summary, told) = go(out.path(), &more, "done_now", &retry);
    assert_eq!((summary.finished, summary.not_asked, summary.exit_code()), (1, 1, 0));
    assert_eq!(told.count("started b 0"), 1);
    assert_eq!(told.count("skipped d 0 NotFailed"), 1);
    assert_eq!(RunDir::open(&plan.runs[1].dir(out.path())).unwrap().read_failed().unwrap(), None);
}

#[test]
fn one_failure_stops_nothing_but_with_fail_fast_everything() {
    let script = "if [ $ARM = a ]; then exit 1; fi; trap 'exit 130' INT; sleep 0.3; done_now";
    let out = tempfile::tempdir().unwrap();
    let (summary, _) = go(out.path(), &tiny_plan(4, "[0]"), script, &How::default());
    assert_eq!((summary.failed.len(), summary.finished), (1, 3));
    let out = tempfile::tempdir().unwrap();
    let slow = script.replace("sleep 0.3", "sleep 30 & wait");
    let fast = How { on_failure: OnFailure::StopAll, ..How::default() };
    let (summary, told) = go(out.path(), &tiny_plan(4, "[0]"), &slow, &fast);
    let counts = (summary.failed.len(), summary.finished, summary.interrupted, summary.not_started);
    assert_eq!(counts, (1, 0, 1, 2), "{:?}", told.lines);
    assert_eq!(summary.exit_code(), 1);
    assert_eq!(told.count("stopping"), 1);
}

#[test]
fn all_jobs_are_used_and_no_more() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(6, "[0]");
    // Every run notes how many are running with it.
    let script = "touch $DIR/../$ARM.now; sleep 0.2; ls $DIR/../*.now | wc -l > $DIR/at_once; sleep 0.1; rm $DIR/../$ARM.now; done_now";
    let (summary, _) = go(out.path(), &plan, script, &How { jobs: 3, ..How::default() });
    assert_eq!(summary.finished, 6);
    let most = |run: &reslab_record::PlannedRun| {
        fs::read_to_string(run.dir(out.path()).join("at_once")).unwrap().trim().to_owned()
    };
    let seen: BTreeSet<String> = plan.runs.iter().map(most).collect();
    assert!(seen.contains("3"), "{seen:?}");
    assert!(seen.iter().all(|count| count.parse::<u32>().unwrap() <= 3), "{seen:?}");
}

#[test]
fn the_number_of_jobs_changes_nothing_but_the_order() {
    let script = "sleep 0.0$((${#ARM} * 3)); echo \"$ARM $SEED\" > $DIR/result; done_now";
    let results = |jobs: usize| {
        let out = tempfile::tempdir().unwrap();
        let plan = tiny_plan(3, "[0, 1]");
        let (summary, told) = go(out.path(), &plan, script, &How { jobs, ..How::default() });
        assert_eq!(summary.finished, 6);
        let read = |run: &reslab_record::PlannedRun| {
            let dir = run.dir(out.path());
            (run.folder.clone(), fs::read(dir.join("result")).unwrap(), fs::read(dir.join("done.json")).unwrap())
        };
        let told: BTreeSet<String> = told.lines.into_iter().collect();
        (plan.runs.iter().map(read).collect::<Vec<_>>(), told)
    };
    assert_eq!(results(1), results(2));
}

#[test]
fn a_program_that_cannot_be_started_is_a_failure_that_says_why() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    let slots = [reslab_sweep::Slot { device: "cpu".into(), jobs: 1 }];
    let job = reslab_sweep::Job {
        sweep: out.path(),
        runs: &plan.runs,
        slots: &slots,
        on_failure: OnFailure::GoOn,
        retry: Retry::Pending,
        retries: 2,
        hang_after: None,
    };
    let start = |_: &reslab_record::PlannedRun, _: &reslab_sweep::Slot| std::process::Command::new("/nowhere/reslab");
    let summary = reslab_sweep::execute(&job, &start, &mut |_| {}, &NEVER);
    assert_eq!(summary.exit_code(), 1);
    assert!(summary.failed[0].failed.message.starts_with("could not be started: No such file"), "{summary:?}");
}

#[test]
fn a_folder_that_cannot_be_made_is_a_failure_of_its_run_alone() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(2, "[0]");
    fs::create_dir_all(out.path().join("runs")).unwrap();
    fs::write(plan.runs[0].dir(out.path()), "a file in the way").unwrap();
    let (summary, told) = go(out.path(), &plan, "done_now", &How::default());
    assert_eq!((summary.finished, summary.failed.len()), (1, 1), "{:?}", told.lines);
    assert_eq!(told.failed[0].class, FailureClass::Io);
}

#[test]
fn without_a_place_nothing_is_started_and_the_call_comes_back() {
    let out = tempfile::tempdir().unwrap();
    let (summary, _) = go(out.path(), &tiny_plan(1, "[0]"), "done_now", &How { jobs: 0, ..How::default() });
    assert_eq!(summary.not_started, 1);
}
