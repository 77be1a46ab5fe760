//! plan.toml: written once, changed under the lock, the old one kept, runs left where they are.

use std::fs;

use reslab_record::{Plan, RecordError, RunLock, Study};
use reslab_sweep::freeze;

use crate::common::*;

#[test]
fn a_plan_is_written_once_and_read_back_equal() {
    let out = tempfile::tempdir().unwrap();
    let sweep = out.path().join("deep/tiny");
    let plan = tiny_plan(2, "[0, 1]");
    let first = freeze(&plan, &sweep).unwrap();
    assert!(first.is_new && first.removed.is_empty());
    assert_eq!((first.added.len(), first.kept), (4, 0));
    assert_eq!(Plan::read(&sweep).unwrap(), plan);
    let again = freeze(&plan, &sweep).unwrap();
    assert_eq!((again.is_new, again.added.len(), again.kept), (false, 0, 4));
    assert!(!sweep.join("plan.prev.toml").exists(), "an equal plan is not written again");
}

#[test]
fn a_changed_plan_keeps_what_it_can_adds_and_reports_what_is_gone() {
    let out = tempfile::tempdir().unwrap();
    let old = tiny_plan(2, "[0, 1]");
    freeze(&old, out.path()).unwrap();
    let new = tiny_plan(3, "[1, 2]");
    let frozen = freeze(&new, out.path()).unwrap();
    let told = |runs: &[reslab_record::PlannedRun]| -> Vec<String> {
        runs.iter().map(|r| format!("{}{}", r.arm, r.seed)).collect()
    };
    assert_eq!(told(&frozen.added), ["a2", "b2", "c1", "c2"]);
    assert_eq!(told(&frozen.removed), ["a0", "b0"]);
    assert_eq!(frozen.kept, 2);
    assert_eq!(Plan::read(out.path()).unwrap(), new);
    let kept: Plan = toml::from_str(&fs::read_to_string(out.path().join("plan.prev.toml")).unwrap()).unwrap();
    assert_eq!(kept, old);
}

#[test]
fn a_run_under_a_new_name_goes_on_in_the_folder_that_it_has() {
    let out = tempfile::tempdir().unwrap();
    let old = tiny_plan(1, "[0]");
    freeze(&old, out.path()).unwrap();
    let mut renamed = old.clone();
    renamed.runs[0].arm = "renamed".into();
    renamed.runs[0].folder = format!("runs/renamed-s0-{}", &old.runs[0].id[..8]);
    let frozen = freeze(&renamed, out.path()).unwrap();
    assert_eq!((frozen.kept, frozen.added.len()), (1, 0));
    assert_eq!(frozen.plan.runs[0].folder, old.runs[0].folder);
    assert_eq!(frozen.plan.runs[0].arm, "renamed");
}

#[test]
fn a_run_taken_up_again_under_a_new_name_finds_its_folder() {
    let out = tempfile::tempdir().unwrap();
    let two = tiny_plan(2, "[0]");
    let folder = two.runs[1].dir(out.path());
    freeze(&two, out.path()).unwrap();
    fs::create_dir_all(&folder).unwrap();
    freeze(&tiny_plan(1, "[0]"), out.path()).unwrap();
    let mut renamed = two.clone();
    renamed.runs[1].folder = format!("runs/renamed-s0-{}", &two.runs[1].id[..8]);
    let frozen = freeze(&renamed, out.path()).unwrap();
    assert_eq!(frozen.plan.runs[1].folder, two.runs[1].folder);
    assert_eq!(frozen.added.len(), 1);
}

/// Named with the first plan it stays dated before the runs, whatever is done later; named or changed behind results it
/// carries their number.
#[test]
fn a_primary_contrast_is_dated_by_the_results_that_were_there_when_it_was_named() {
    let named = |mut plan: Plan, arm: &str| {
        plan.study = Some(Study { primary: [arm.into(), "a".into()], done_before: 0 });
        plan
    };
    let dated = |plan: &Plan, sweep: &std::path::Path| freeze(plan, sweep).unwrap().plan.study.unwrap().done_before;
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(3, "[0, 1]");
    let before = named(plan.clone(), "b");
    assert_eq!(dated(&before, out.path()), 0);
    go(out.path(), &before, "done_now", &How::default());
    assert_eq!(dated(&before, out.path()), 0, "the same command again");
    assert_eq!(dated(&named(tiny_plan(4, "[0, 1, 2]"), "b"), out.path()), 0, "more arms and seeds");
    assert_eq!(dated(&named(plan.clone(), "c"), out.path()), 6, "another contrast");
    let mut by_loss = named(plan.clone(), "c");
    by_loss.metric = "test/loss".into();
    assert_eq!(dated(&by_loss, out.path()), 6, "another metric");
    let late = tempfile::tempdir().unwrap();
    freeze(&plan, late.path()).unwrap();
    go(late.path(), &plan, "done_now", &How::default());
    assert_eq!(dated(&before, late.path()), 6);
    let copied = Plan::read(late.path()).unwrap();
    assert_eq!(copied.study.as_ref().unwrap().done_before, 6);
    let elsewhere = tempfile::tempdir().unwrap();
    assert_eq!(dated(&copied, elsewhere.path()), 6, "runs computed anew from a recorded plan");
    let ids = |plan: &Plan| plan.runs.iter().map(|run| run.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&plan), ids(&before));
}

#[test]
fn a_locked_or_broken_plan_is_left_alone() {
    let out = tempfile::tempdir().unwrap();
    let plan = tiny_plan(1, "[0]");
    let lock = RunLock::acquire(out.path()).unwrap();
    let error = freeze(&plan, out.path()).unwrap_err();
    assert!(matches!(error, RecordError::Locked { .. }), "{error}");
    assert!(!Plan::path(out.path()).exists());
    drop(lock);
    fs::write(Plan::path(out.path()), "name = ").unwrap();
    let error = freeze(&plan, out.path()).unwrap_err().to_string();
    assert!(error.contains("plan.toml"), "{error}");
    assert_eq!(fs::read_to_string(Plan::path(out.path())).unwrap(), "name = ");
}
