use super::*;
use crate::{CHECKPOINT_BROKEN_FILE, CHECKPOINT_FILE, CHECKPOINT_PREV_FILE, Env, FailureClass, Outcome};
use std::collections::BTreeMap;

fn done(outcome: Outcome) -> Done {
    let metrics = [("test/top1", 0.1 + 0.2), ("test/loss", f64::NAN), ("train/loss", f64::INFINITY)];
    Done {
        id: "1a2b3c4d".into(),
        arm: "gated[lr=3e-4]".into(),
        seed: 1,
        outcome,
        steps: 300,
        metrics: metrics.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect::<BTreeMap<_, _>>(),
        parameters: 12,
        num_classes: 10,
        effective_drop_rate: None,
        micro_batches: None,
    }
}

fn run_dir() -> (tempfile::TempDir, RunDir) {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(&dir.path().join("runs/plain-s0-1a")).unwrap();
    (dir, run)
}

#[test]
fn small_files_come_back_as_they_were() {
    let (_dir, run) = run_dir();
    assert_eq!(run.read_done().unwrap(), None);
    let env = Env { git_commit: Some("abc".into()), git_dirty: Some(true), threads: 2, ..Env::default() };
    run.write_env(&env).unwrap();
    assert_eq!(run.read_env().unwrap(), Some(env));
    let (device, threads) = ("cpu".to_owned(), 2);
    let timing = Timing {
        seconds: 0.1,
        images_per_s: 1.0 / 3.0,
        peak_memory_bytes: 1 << 41,
        checkpoint_seconds: 0.2,
        device,
        threads,
    };
    run.write_timing(&timing).unwrap();
    assert_eq!(run.read_timing().unwrap(), Some(timing));
    let config: toml::Table = toml::from_str("[optim]\nlr = 3e-4\n[model]\ndepth = 4\n").unwrap();
    run.write_config(&config).unwrap();
    assert_eq!(run.read_config().unwrap(), config);
    let failed = Failed { class: FailureClass::OutOfMemory, message: "a\nb".into(), last_step: None };
    run.write_failed(&failed).unwrap();
    assert_eq!(run.read_failed().unwrap(), Some(failed));
    run.clear_failed().unwrap();
    run.clear_failed().expect("and once more");
    assert_eq!(run.read_failed().unwrap(), None);
    run.log("one\n").unwrap();
    run.log("two").unwrap();
    assert_eq!(fs::read_to_string(run.log_path()).unwrap(), "one\ntwo\n");
}

#[test]
fn done_says_its_outcome_in_a_word_and_keeps_a_nan() {
    for (outcome, word) in [
        (Outcome::Finished, "\"finished\""),
        (Outcome::NonFinite { step: 7 }, "\"non_finite\",\n  \"non_finite_step\": 7"),
    ] {
        let (_dir, run) = run_dir();
        run.write_done(&done(outcome)).unwrap();
        let text = fs::read_to_string(run.path().join("done.json")).unwrap();
        assert!(text.contains(&format!("\"outcome\": {word}")), "{text}");
        assert!(text.contains("\"test/loss\": \"NaN\"") && text.contains("0.30000000000000004"), "{text}");
        let back = run.read_done().unwrap().unwrap();
        assert_eq!(back.outcome, outcome);
        assert!(back.metrics["test/loss"].is_nan());
        assert_eq!(back.metrics["test/top1"], 0.1 + 0.2);
        assert_eq!(back.metrics["train/loss"], f64::INFINITY);
    }
}

#[test]
fn nothing_is_written_to_a_finished_run() {
    let (_dir, run) = run_dir();
    let mut writer = run.steps().unwrap();
    run.write_failed(&Failed { class: FailureClass::Hang, message: String::new(), last_step: Some(1) }).unwrap();
    run.write_done(&done(Outcome::Finished)).unwrap();
    assert_eq!(run.read_failed().unwrap(), None, "the failure was mended");
    writer.sync().unwrap();
    let list = || {
        let mut names: Vec<_> = fs::read_dir(run.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = list();
    assert_eq!(before, ["done.json", "steps.csv"], "and no temporary file is left");
    let refusals = [
        run.write_done(&done(Outcome::Finished)).err(),
        run.write_env(&Env::default()).err(),
        run.write_config(&toml::Table::new()).err(),
        run.clear_failed().err(),
        run.log("x").err(),
        run.steps().err(),
        run.evals().err(),
        run.layers().err(),
        run.write_checkpoint(&Checkpoint::default()).err(),
        RunDir::create(run.path()).err(),
    ];
    for (index, refusal) in refusals.into_iter().enumerate() {
        assert!(matches!(refusal, Some(RecordError::Finished { .. })), "{index}: {refusal:?}");
    }
    assert_eq!(list(), before);
}

#[test]
fn errors_name_the_path_and_what_was_tried() {
    let (_dir, run) = run_dir();
    fs::write(run.path().join("done.json"), "{\"id\": ").unwrap();
    let error = run.read_done().unwrap_err().to_string();
    assert!(error.contains("plain-s0-1a/done.json: EOF"), "{error}");
    let error = RunDir::open(&run.path().join("nowhere")).unwrap_err().to_string();
    assert!(error.contains("nowhere: cannot open the folder: No such file"), "{error}");
    let blocked = run.path().join("done.json/runs");
    let error = RunDir::create(&blocked).unwrap_err().to_string();
    assert!(error.contains("done.json/runs: cannot create the folder: Not a directory"), "{error}");
}

#[test]
fn a_folder_can_be_moved_while_nobody_is_at_work() {
    let (dir, run) = run_dir();
    run.write_checkpoint(&Checkpoint { step: 4, ..Checkpoint::default() }).unwrap();
    let moved = dir.path().join("moved");
    fs::rename(run.path(), &moved).unwrap();
    let run = RunDir::open(&moved).unwrap();
    assert_eq!(run.recover_checkpoint().unwrap().checkpoint.map(|c| c.step), Some(4));
    run.write_done(&done(Outcome::Finished)).unwrap();
    assert!(run.is_done());
}

#[test]
fn a_broken_checkpoint_is_set_aside_and_does_not_push_the_intact_one_out() {
    let (_dir, run) = run_dir();
    let checkpoint = |step| Checkpoint { step, ..Checkpoint::default() };
    let recovered = || run.recover_checkpoint().unwrap();
    run.write_checkpoint(&checkpoint(3)).unwrap();
    run.write_checkpoint(&checkpoint(6)).unwrap();
    let (newest, partial) = (run.at(CHECKPOINT_FILE), run.at("checkpoint.safetensors.tmp"));
    fs::write(&partial, "half").unwrap();
    assert_eq!((recovered().checkpoint, recovered().notes.len()), (Some(checkpoint(6)), 0));
    assert!(!partial.exists(), "what a broken-off write left stays");
    fs::write(&newest, "torn").unwrap();
    let found = recovered();
    assert_eq!((found.checkpoint, found.notes.len()), (Some(checkpoint(3)), 2), "{:?}", found.notes);
    assert_eq!(fs::read(run.at(CHECKPOINT_BROKEN_FILE)).unwrap(), b"torn");
    run.write_checkpoint(&checkpoint(6)).unwrap();
    assert_eq!(Checkpoint::read_file(&run.at(CHECKPOINT_PREV_FILE)).unwrap(), checkpoint(3));
}
