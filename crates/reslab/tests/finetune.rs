//! Fine-tuning from the outside: a run's own checkpoint is taken over, and what its gammas' rule does is measured and recorded.

mod support;

use support::Place;

/// The table [finetune] of the tests, with a rule for gamma.
fn finetune(gamma: &str) -> String {
    format!(
        "\n[finetune]\nweights = \"file\"\ngamma = {gamma}\nnew_joins = false\nhead = \"new\"\nbackbone = \"train\"\nlayer_decay = 1.0\n\
         positions = \"file\"\nknn = {{ images = 200, k = 20, temperature = 0.07 }}\n"
    )
}

/// A place where a LayerScale network has been trained on digits 0 to 4, and `tune.toml` takes it over for 5 to 9.
fn pretrained(gamma: &str) -> Place {
    let place = Place::new();
    let text = std::fs::read_to_string(place.at("tiny.toml")).expect("readable");
    let text = text.replace("init = 0.0", "init = 0.01");
    let first = text
        .replace("\"tiny\"", "\"first\"")
        .replace("train_images = 256", "train_images = 256\nclasses = [0, 1, 2, 3, 4]");
    std::fs::write(place.at("first.toml"), first).expect("writable");
    place.call(&["run", "first.toml", "--arm", "layer_scale", "--seed", "0"]).expect(0);
    let run = place.run_dir("results/first", "layer_scale-s0");
    std::fs::copy(run.join("checkpoint.safetensors"), place.at("first.safetensors")).expect("a checkpoint");
    std::fs::copy(run.join("config.toml"), place.at("config.toml")).expect("its config");
    let model = text.find("[model]").expect("a table");
    let train = text.find("[train]").expect("a table");
    let tune = text.replace(
        &text[model..train],
        "[model]\npretrained = \"first.safetensors\"\npool = \"mean\"\nnorm = \"strategy\"\n\n",
    );
    let tune = tune
        .replace("[[arm]]\nname     = \"plain\"\nresidual = { kind = \"plain\" }\n", "")
        .replace("\"plain\"", "\"layer_scale\"");
    let tune = tune
        .replace("\"tiny\"", "\"tune\"")
        .replace("train_images = 256", "train_images = 256\nclasses = [5, 6, 7, 8, 9]");
    std::fs::write(place.at("tune.toml"), tune + &finetune(gamma)).expect("writable");
    place
}

/// Runs the arm and gives its metrics.
fn start(place: &Place, arguments: &[&str]) -> serde_json::Value {
    let run = [&["run", "tune.toml", "--arm", "layer_scale", "--seed", "0"], arguments].concat();
    place.call(&run).expect(0);
    let sweep = if arguments.contains(&"--set") { "set/tune" } else { "results/tune" };
    let done = std::fs::read_to_string(place.run_dir(sweep, "layer_scale-s0").join("done.json")).expect("written");
    serde_json::from_str::<serde_json::Value>(&done).expect("JSON")["metrics"].clone()
}

fn set(place: &Place, key: &str) -> serde_json::Value {
    let _ = std::fs::remove_dir_all(place.at("set"));
    start(place, &["--set", key, "--out", "set"])
}

fn figure(metrics: &serde_json::Value, name: &str) -> f64 {
    metrics[name].as_f64().unwrap_or_else(|| panic!("{name} in {metrics}"))
}

#[test]
fn what_keeps_the_function_is_told_from_what_tears_it_down() {
    let place = pretrained("\"keep\"");
    let kept = start(&place, &[]);
    assert_eq!(figure(&kept, "start/feature_change"), 0.0);
    assert_eq!(figure(&kept, "start/knn_before"), figure(&kept, "start/knn_after"));
    for (gamma, folder) in [("\"fold\"", "fold"), ("{ fold_reset = 1e-5 }", "fold_reset")] {
        let folded = set(&place, &format!("finetune.gamma={gamma}"));
        assert!(figure(&folded, "start/feature_change") < 1e-5, "{folder} keeps the function: {folded}");
    }
    let reset = set(&place, "finetune.gamma={ reset = 1e-5 }");
    assert!(figure(&reset, "start/feature_change") > 0.1, "a reset changes the features: {reset}");
    assert!(figure(&reset, "start/knn_before") == figure(&kept, "start/knn_after"), "before is the file's network");
}

#[test]
fn a_reset_warns_in_one_line_before_anything_is_computed() {
    let place = pretrained("{ reset = 1e-5 }");
    let plan = place.call(&["plan", "tune.toml"]).expect(0);
    let lines: Vec<&str> = plan.err.lines().filter(|line| line.contains("tears")).collect();
    assert_eq!(lines.len(), 1, "{}", plan.err);
    assert!(lines[0].contains("warning") && lines[0].contains("fold_reset"), "{}", lines[0]);
}

#[test]
fn sizes_come_from_the_file_and_what_contradicts_it_is_refused() {
    let place = pretrained("\"keep\"");
    let plan = place.call(&["plan", "tune.toml", "--set", "model.depth=3"]).expect(2);
    assert!(plan.err.contains("model.depth") && plan.err.contains("has 2"), "{}", plan.err);
    place.call(&["plan", "tune.toml", "--set", "model.depth=2"]).expect(0);
    let missing = place.call(&["plan", "tune.toml", "--set", "model.pretrained=nowhere.safetensors"]).expect(2);
    assert!(missing.err.contains("model.pretrained") && missing.err.contains("nowhere.safetensors"), "{}", missing.err);
    let text = std::fs::read_to_string(place.at("tune.toml")).expect("readable");
    std::fs::write(place.at("plain.toml"), text + "\n[[arm]]\nname = \"plain\"\nresidual = { kind = \"plain\" }\n")
        .expect("writable");
    let plain = place.call(&["plan", "plain.toml"]).expect(2);
    for part in ["arm \"plain\"", "blocks.00.mlp.join.gamma", "finetune.gamma = \"fold\""] {
        assert!(plain.err.contains(part), "plain has no place for gamma: {}", plain.err);
    }
    place.call(&["run", "plain.toml", "--arm", "plain", "--seed", "0", "--set", "finetune.gamma=\"fold\""]).expect(0);
}

#[test]
fn a_frozen_backbone_trains_the_head_alone_and_a_frozen_gamma_all_but_gamma() {
    let place = pretrained("\"keep\"");
    let weights = |sweep: &str| {
        let run = place.run_dir(sweep, "layer_scale-s0");
        let read = reslab_record::Checkpoint::read_file(&run.join("checkpoint.safetensors")).expect("readable");
        read.tensors.into_iter().filter(|t| t.name.starts_with("model/")).map(|t| (t.name, t.bytes)).collect::<Vec<_>>()
    };
    let file = reslab_record::Checkpoint::read_file(&place.at("first.safetensors")).expect("readable");
    let before = |name: &str| file.tensor(name).expect("in the file").bytes.clone();
    set(&place, "finetune.backbone=\"frozen\"");
    for (name, bytes) in weights("set/tune").iter().filter(|(name, _)| !name.starts_with("model/head.")) {
        assert!(*bytes == before(name), "{name} has moved");
    }
    set(&place, "finetune.gamma=\"freeze\"");
    for (name, bytes) in weights("set/tune").iter().filter(|(name, _)| !name.starts_with("model/head.")) {
        assert_eq!(*bytes == before(name), name.ends_with(".gamma"), "{name}");
    }
}

#[test]
fn layer_decay_slows_the_lower_blocks() {
    let place = pretrained("\"keep\"");
    let file = reslab_record::Checkpoint::read_file(&place.at("first.safetensors")).expect("readable");
    let moved = |key: &str, name: &str| {
        set(&place, key);
        let run = place.run_dir("set/tune", "layer_scale-s0");
        let after = reslab_record::Checkpoint::read_file(&run.join("checkpoint.safetensors")).expect("readable");
        let values = |from: &reslab_record::Checkpoint| -> Vec<f32> {
            let bytes = &from.tensor(name).expect("saved").bytes;
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
        };
        values(&after).iter().zip(values(&file)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    let weight = "model/blocks.00.mlp.fc1.weight";
    let (slow, fast) = (moved("finetune.layer_decay=0.01", weight), moved("finetune.layer_decay=1.0", weight));
    assert!(slow < 1e-3 * fast, "two blocks below the head: a rate of 1e-4; moved {slow}, without decay {fast}");
}

#[test]
fn a_run_is_the_files_content_and_not_its_path() {
    let place = pretrained("\"keep\"");
    start(&place, &[]);
    std::fs::copy(place.at("first.safetensors"), place.at("other.safetensors")).expect("copied");
    let text = std::fs::read_to_string(place.at("tune.toml"))
        .expect("readable")
        .replace("first.safetensors", "other.safetensors");
    std::fs::write(place.at("tune.toml"), text).expect("writable");
    let again = place.call(&["run", "tune.toml", "--arm", "layer_scale", "--seed", "0"]).expect(0);
    assert!(again.err.contains("is done; nothing was started"), "{}", again.err);
}
