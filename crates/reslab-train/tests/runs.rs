//! Whole runs of tiny networks on the embedded digits: what they leave, that they can be stopped, and what must not
//! change a bit of them. They go over all strategies of the registry, by their own examples.

mod support;

use std::path::Path;

use reslab_record::{Outcome, RunDir, Split, Weights, rows::StepRow};
use reslab_residual::Registry;
use reslab_train::{Ended, RunConfig};
use support::run_until;

const TABLES: &str = r#"
[data]
dataset = "digits"
train_images = 256
val_images = 64
crop_pad = 1
flip = false
mixup = 0.0
cutmix = 0.0
[model]
kind = "vit"
depth = 2
width = 16
num_heads = 2
patch_size = 4
mlp_ratio = 2.0
qkv_bias = true
pool = "mean"
norm = "strategy"
norm_eps = 1e-6
[train]
steps = 12
batch = 32
accumulate = 1
clip = 1.0
label_smoothing = 0.1
precision = "fp32"
eval_every = 4
telemetry_every = 3
checkpoint_every = 5
ema_decay = 0.0
report = "last"
deterministic = false
[optim]
kind = "adamw"
lr = 1e-2
betas = [0.9, 0.999]
eps = 1e-8
weight_decay = 0.05
warmup_steps = 2
schedule = "cosine"
"#;

/// Where the strategy does not matter: with drop path, and at the learning rates of these tests.
const ANY: &str = "input_gate";

/// The tables of a run with a strategy's example, some keys set to other values.
fn table(strategy: &str, set: &[(&str, &str)]) -> toml::Table {
    let mut table: toml::Table = TABLES.parse().unwrap();
    let registry = Registry::builtin();
    let example: toml::Table = registry.get(strategy).unwrap().example.parse().unwrap();
    let residual = match example.get("residual") {
        Some(toml::Value::Table(inner)) => inner.clone(),
        _ => example,
    };
    table.insert("residual".to_owned(), toml::Value::Table(residual));
    for (key, value) in set {
        let parsed: toml::Table = format!("{key} = {value}").parse().unwrap();
        merge(&mut table, parsed);
    }
    table
}

/// The tables of a run with plain gradient descent at a constant rate.
fn with_sgd(lr: &str, set: &[(&str, &str)]) -> toml::Table {
    let mut table = table(ANY, set);
    table.remove("optim");
    let rest = "momentum = 0.0, weight_decay = 0.0, warmup_steps = 0, schedule = \"constant\"";
    merge(&mut table, format!("optim = {{ kind = \"sgd\", lr = {lr}, {rest} }}").parse().unwrap());
    table
}

/// The table of a strategy with the first of these drop path tables that is defined for it; without, if none is.
fn with_drop_path(name: &str, set: &[(&str, &str)], choices: &[&str]) -> toml::Table {
    let fits = |table: &toml::Table| RunConfig::from_table(table, &Registry::builtin()).is_ok();
    let tables = choices.iter().map(|drop| table(name, &[set, &[("drop_path", *drop)]].concat()));
    tables.chain([table(name, set)]).find(fits).unwrap()
}

fn merge(into: &mut toml::Table, from: toml::Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn run(table: &toml::Table, dir: &Path) -> Ended {
    run_until(table, dir, None).unwrap()
}

/// All columns of steps.csv but the last two, which are times.
fn steps_without_times(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("steps.csv")).unwrap();
    text.lines().map(|line| line.rsplitn(3, ',').nth(2).unwrap().to_owned()).collect()
}

fn bytes(dir: &Path, file: &str) -> Vec<u8> {
    std::fs::read(dir.join(file)).unwrap()
}

#[test]
fn every_strategy_trains_and_leaves_a_whole_record() {
    for name in Registry::builtin().names() {
        let dir = tempfile::tempdir().unwrap();
        let table = table(name, &[("train.steps", "80"), ("train.label_smoothing", "0.0")]);
        assert_eq!(run(&table, dir.path()), Ended::Done(Outcome::Finished), "{name}");
        let record = RunDir::open(dir.path()).unwrap();
        let done = record.read_done().unwrap().unwrap();
        assert_eq!((done.steps, done.id.as_str(), done.seed), (80, "0123", 5), "{name}");
        let rows = reslab_record::read_rows::<StepRow>(dir.path()).rows;
        assert_eq!(rows.len(), 80, "{name}");
        let mean = |rows: &[StepRow]| rows.iter().map(|row| row.loss).sum::<f64>() / rows.len() as f64;
        let (first, last) = (mean(&rows[..5]), mean(&rows[75..]));
        assert!(last < first - 0.1, "{name}: the loss went from {first} to {last}");
        assert!(done.metrics["test/top1"] > 0.15, "{name}: {:?}", done.metrics);
        let evals = reslab_record::read_rows::<reslab_record::EvalRow>(dir.path()).rows;
        assert_eq!(evals.iter().filter(|row| row.split == Split::Test).count(), 1, "{name}: test is looked at once");
        let layers = reslab_record::read_rows::<reslab_record::LayerRow>(dir.path()).rows;
        assert_eq!(layers.len(), 27 * 4, "{name}: steps 0, 3, .. 78, four joins each");
        assert!(layers.iter().all(|row| row.ratio.is_some_and(|ratio| ratio.is_finite())), "{name}");
        let probes = reslab_record::read_rows::<reslab_record::ProbeRow>(dir.path()).rows;
        let looks: std::collections::BTreeSet<u64> =
            evals.iter().filter(|row| row.split == Split::Val).map(|row| row.step).collect();
        assert_eq!(probes.len(), 2 * looks.len(), "{name}: two blocks at every validation");
        for row in &probes {
            let in_unit = |figure: Option<f64>| figure.is_some_and(|figure| (0.0..=1.0 + 1e-6).contains(&figure));
            assert!(in_unit(row.attention_entropy) && row.residual_rms_mlp > Some(0.0), "{name}: {row:?}");
            assert!(row.token_similarity.is_some_and(|cosine| cosine.abs() <= 1.0 + 1e-6), "{name}: {row:?}");
        }
        assert!(done.metrics["probe/stream_growth"].is_finite(), "{name}: {:?}", done.metrics);
        // A row is of one moment: the gammas of step 0 are those of its forward pass, all as they started.
        let starts =
            |row: &&reslab_record::LayerRow| row.gamma_min == row.gamma_max && row.gamma_flipped.unwrap_or(0.0) == 0.0;
        assert_eq!(layers.iter().take(4).filter(starts).count(), 4, "{name}: {:?}", layers[0]);
    }
}

#[test]
fn telemetry_changes_no_bit_of_the_run() {
    for name in Registry::builtin().names() {
        for rate in ["0.0", "0.4"] {
            let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            for (dir, every) in dirs.iter().zip(["0", "1"]) {
                let drop = format!("{{ rate = {rate}, schedule = \"uniform\", mode = \"sample\" }}");
                run(&with_drop_path(name, &[("train.telemetry_every", every)], &[&drop]), dir.path());
            }
            let losses = |dir: &Path| -> Vec<u64> {
                reslab_record::read_rows::<StepRow>(dir).rows.iter().map(|row| row.loss.to_bits()).collect()
            };
            assert_eq!(losses(dirs[0].path()), losses(dirs[1].path()), "{name}");
            let [off, on] = [0, 1].map(|i| bytes(dirs[i].path(), "evals.csv"));
            assert_eq!(off, on, "{name} at rate {rate}");
        }
    }
}

#[test]
fn a_run_that_was_stopped_goes_on_to_the_same_bytes() {
    for name in Registry::builtin().names() {
        let drops =
            ["subset", "sample"].map(|mode| format!("{{ rate = 0.3, schedule = \"linear\", mode = \"{mode}\" }}"));
        let set = [("train.ema_decay", "0.5"), ("train.report", "\"best_val\"")];
        let table = with_drop_path(name, &set, &drops.each_ref().map(String::as_str));
        stops_and_goes_on(name, &table);
    }
}

/// A module from PyTorch with matrices, equal at every site at step 0; the registry's example has one number.
#[test]
fn a_gate_from_pytorch_trains_and_goes_on_to_the_same_bytes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../reslab-residual/tests/torchscript");
    let mut table = table("torchscript", &[("residual.path", &format!("\"{folder}/gate_16.pt\""))]);
    RunConfig::from_table(&table, &Registry::builtin()).unwrap().pin(&mut table);
    let dir = stops_and_goes_on("gate", &table);
    let saved = RunDir::open(dir.path()).unwrap().recover_checkpoint().unwrap().checkpoint.unwrap();
    let w2 = |site: &str| saved.tensors.iter().find(|t| t.name == format!("model/blocks.{site}.join.w2")).unwrap();
    assert_ne!(w2("00.attention").bytes, w2("01.mlp").bytes, "both began as 0");
}

/// A run stopped twice leaves the bytes of one that was not. Gives its folder.
fn stops_and_goes_on(name: &str, table: &toml::Table) -> tempfile::TempDir {
    let [whole, parts] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    run(table, whole.path());
    // Between two checkpoints, and again on the way from the one that the stop has written.
    assert_eq!(run_until(table, parts.path(), Some(6)).unwrap(), Ended::Interrupted { step: 7 }, "{name}");
    assert!(RunDir::open(parts.path()).unwrap().read_done().unwrap().is_none());
    assert_eq!(run_until(table, parts.path(), Some(8)).unwrap(), Ended::Interrupted { step: 9 }, "{name}");
    assert_eq!(run(table, parts.path()), Ended::Done(Outcome::Finished), "{name}");
    assert_eq!(steps_without_times(whole.path()), steps_without_times(parts.path()), "{name}");
    for file in ["evals.csv", "probes.csv", "layers.csv", "done.json", "checkpoint.safetensors"] {
        assert_eq!(bytes(whole.path(), file), bytes(parts.path(), file), "{name}: {file}");
    }
    parts
}

/// The last checkpoint holds the network after the last step, from which a run that is killed at its end goes on.
#[test]
fn a_run_that_was_killed_at_its_end_computes_the_end_again_and_no_step() {
    for report in ["\"last\"", "\"best_val\""] {
        let table = table(ANY, &[("train.ema_decay", "0.5"), ("train.report", report)]);
        let whole = tempfile::tempdir().unwrap();
        run(&table, whole.path());
        assert!(!whole.path().join("checkpoint.prev.safetensors").exists(), "nothing is left to fall back to");
        let evals = String::from_utf8(bytes(whole.path(), "evals.csv")).unwrap();
        // Before the first row of the end's evaluations, between them, in the middle of the last row, and after all.
        let of_the_end = evals.lines().rev().take(4).map(|line| line.len() + 1).sum::<usize>();
        for kept in [evals.len() - of_the_end, evals.len() - 30, evals.len() - 3, evals.len()] {
            let killed = tempfile::tempdir().unwrap();
            for file in ["steps.csv", "probes.csv", "layers.csv", "checkpoint.safetensors", "timing.json"] {
                std::fs::copy(whole.path().join(file), killed.path().join(file)).unwrap();
            }
            std::fs::write(killed.path().join("evals.csv"), &evals[..kept]).unwrap();
            assert_eq!(run_until(&table, killed.path(), Some(0)).unwrap(), Ended::Done(Outcome::Finished));
            let log = String::from_utf8(bytes(killed.path(), "log.txt")).unwrap();
            assert!(log.contains(", from step 12"), "{log}");
            for file in ["steps.csv", "evals.csv", "probes.csv", "layers.csv", "done.json", "checkpoint.safetensors"] {
                assert_eq!(bytes(whole.path(), file), bytes(killed.path(), file), "{report}, {kept}: {file}");
            }
        }
    }
}

#[test]
fn a_killed_run_cuts_its_rows_back_to_the_checkpoint() {
    let name = ANY;
    let table = table(name, &[]);
    let whole = tempfile::tempdir().unwrap();
    run(&table, whole.path());
    let torn = tempfile::tempdir().unwrap();
    run_until(&table, torn.path(), Some(6)).unwrap();
    // As if the process had been killed two steps after the checkpoint, in the middle of a row.
    let mut text = std::fs::read_to_string(torn.path().join("steps.csv")).unwrap();
    text.push_str("7,1.0,2.0,1.0,1.0,,,,,,,10.0,1.0\n8,1.0,2.");
    std::fs::write(torn.path().join("steps.csv"), text).unwrap();
    run(&table, torn.path());
    assert_eq!(steps_without_times(whole.path()), steps_without_times(torn.path()));
}

/// A checkpoint stands for the rows before it: where those are damaged, only computing them again makes the record whole.
#[test]
fn a_run_whose_rows_are_lost_starts_anew_instead_of_going_on_with_a_gap() {
    let table = table(ANY, &[]);
    let whole = tempfile::tempdir().unwrap();
    run(&table, whole.path());
    for file in ["layers.csv", "steps.csv"] {
        let torn = tempfile::tempdir().unwrap();
        run_until(&table, torn.path(), Some(8)).unwrap();
        let path = torn.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        run(&table, torn.path());
        assert_eq!(steps_without_times(whole.path()), steps_without_times(torn.path()), "{file}");
        assert_eq!(bytes(whole.path(), "layers.csv"), bytes(torn.path(), "layers.csv"), "{file}");
        let log = String::from_utf8(bytes(torn.path(), "log.txt")).unwrap();
        assert!(log.contains("starts anew"), "{file}: {log}");
    }
}

#[test]
fn a_loss_that_is_not_finite_ends_the_run_as_a_result() {
    let table = with_sgd("1e30", &[("train.clip", "0.0")]);
    let dir = tempfile::tempdir().unwrap();
    let Ended::Done(Outcome::NonFinite { step }) = run(&table, dir.path()) else { panic!("it went on") };
    let done = RunDir::open(dir.path()).unwrap().read_done().unwrap().unwrap();
    assert_eq!(done.outcome, Outcome::NonFinite { step });
    assert!(step < 11 && !done.metrics.contains_key("test/top1"), "{done:?}");
    assert_eq!(reslab_record::read_rows::<StepRow>(dir.path()).rows.len() as u64, step + 1);
}

#[test]
fn micro_batches_change_the_gradient_by_rounding_alone() {
    let name = ANY;
    let losses = |accumulate: &str, mode: &str, rate: &str| -> Vec<f64> {
        let drop = format!("{{ rate = {rate}, schedule = \"uniform\", mode = \"{mode}\" }}");
        let dir = tempfile::tempdir().unwrap();
        run(&table(name, &[("train.accumulate", accumulate), ("drop_path", &drop)]), dir.path());
        reslab_record::read_rows::<StepRow>(dir.path()).rows.iter().map(|row| row.loss).collect()
    };
    let far = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    // At .9 a subset of 32 is 3 samples: of four micro-batches at least one has none at every join.
    for (mode, rate, other) in [("sample", "0.3", "0.5"), ("subset", "0.9", "0.8")] {
        let whole = losses("1", mode, rate);
        let (rounding, masks) = (far(&whole, &losses("4", mode, rate)), far(&whole, &losses("4", mode, other)));
        // The control: other masks move the losses by far more than rounding does.
        assert!(rounding < 1e-4 && masks > 1e-3, "{mode}: rounding {rounding}, masks {masks}");
    }
}

#[test]
fn the_average_of_the_weights_is_evaluated_beside_them() {
    let name = ANY;
    let dir = tempfile::tempdir().unwrap();
    run(&table(name, &[("train.ema_decay", "0.6")]), dir.path());
    let evals = reslab_record::read_rows::<reslab_record::EvalRow>(dir.path()).rows;
    let loss = |weights| evals.iter().rfind(|row| row.weights == weights && row.split == Split::Val).unwrap().loss;
    assert!((loss(Weights::Raw) - loss(Weights::Ema)).abs() > 1e-6);
    let done = RunDir::open(dir.path()).unwrap().read_done().unwrap().unwrap();
    assert!(done.metrics.contains_key("test/top1") && done.metrics.contains_key("test/top1_ema"));
}

#[test]
fn without_validation_images_nothing_is_said_about_them() {
    let dir = tempfile::tempdir().unwrap();
    run(&table(ANY, &[("data.val_images", "0")]), dir.path());
    let evals = reslab_record::read_rows::<reslab_record::EvalRow>(dir.path()).rows;
    assert_eq!(evals.iter().map(|row| row.split).collect::<Vec<_>>(), [Split::Test]);
    let done = RunDir::open(dir.path()).unwrap().read_done().unwrap().unwrap();
    assert!(done.metrics.keys().all(|name| !name.starts_with("val/")), "{:?}", done.metrics);
}

#[test]
fn the_seconds_of_a_run_go_on_where_it_was_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let table = table(ANY, &[]);
    run_until(&table, dir.path(), Some(6)).unwrap();
    let record = RunDir::open(dir.path()).unwrap();
    let timing = reslab_record::Timing { seconds: 1000.0, ..record.read_timing().unwrap().unwrap() };
    record.write_timing(&timing).unwrap();
    run(&table, dir.path());
    let seconds = |step: usize| reslab_record::read_rows::<StepRow>(dir.path()).rows[step].seconds;
    assert!(seconds(6) < 1000.0 && seconds(7) > 1000.0, "{} then {}", seconds(6), seconds(7));
}

/// Of plain gradient descent the first update is lr * gradient, so clipping shortens it by clip / norm. float32 weights
/// of about .02 round updates of about 1e-3 by some 1e-6 of them.
#[test]
fn clipping_shortens_the_step_to_the_norm_asked_for() {
    let first = |clip: &str| {
        let dir = tempfile::tempdir().unwrap();
        run(&with_sgd("1.0", &[("train.clip", clip), ("train.telemetry_every", "1")]), dir.path());
        let row = reslab_record::read_rows::<StepRow>(dir.path()).rows.swap_remove(0);
        (row.grad_norm, row.weight_update_norm.unwrap())
    };
    let ((norm, whole), (same_norm, clipped), (_, loose)) = (first("0.0"), first("0.1"), first("1e3"));
    assert!(norm == same_norm && norm > 0.2, "the norm is that before clipping: {norm} and {same_norm}");
    assert!((clipped / whole - 0.1 / norm).abs() < 1e-4, "{whole} to {clipped} at a norm of {norm}");
    assert_eq!(whole, loose, "a shorter gradient is left alone");
}

/// At a constant rate a run is the beginning of a longer one, so the weights of its best step are a shorter run's last.
#[test]
fn the_best_weights_on_validation_are_those_that_are_tested() {
    let run = |steps: &str, report: &str| {
        let dir = tempfile::tempdir().unwrap();
        let set = [("train.steps", steps), ("train.eval_every", "1"), ("train.report", report)];
        let table = table(ANY, &[&set[..], &[("optim.schedule", "\"constant\""), ("optim.lr", "1e-1")]].concat());
        self::run(&table, dir.path());
        RunDir::open(dir.path()).unwrap().read_done().unwrap().unwrap().metrics
    };
    let (best, last) = (run("16", "\"best_val\""), run("16", "\"last\""));
    let step = best["val/best_step"] as u64;
    assert!(step < 15 && best["val/top1"] > last["val/top1"], "another rate is needed: {best:?}");
    let shorter = run(&(step + 1).to_string(), "\"last\"");
    for name in ["val/top1", "val/loss", "test/top1", "test/loss"] {
        assert_eq!(best[name], shorter[name], "{name}");
    }
    assert_ne!(best["test/loss"], last["test/loss"], "control");
}
