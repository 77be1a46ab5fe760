//! `reslab export`: what timm and transformers compute from an exported file is what we compute (tests/export/: the
//! networks' checkpoints, and logits that `make_goldens.py` had the other programs compute).

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use reslab_model::{InputShape, LoadOptions, ModelConfig, Vit};
use reslab_pretrained::{Pretrained, Weight};
use reslab_residual::{Pass, Registry};
use reslab_torch::{Scope, set_threads};
use support::{Place, json};
use tch::{Device, Kind, Tensor};

/// Of the largest number.
const TOLERANCE: f64 = 1e-5;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export")
}

fn read(name: &str) -> BTreeMap<String, Tensor> {
    Tensor::read_safetensors(folder().join(name)).unwrap().into_iter().collect()
}

/// The network of a run's config, with weights of a file.
fn load(arm: &str, weights: &Path) -> Vit {
    set_threads(1);
    let config: toml::Table = std::fs::read_to_string(folder().join(arm).join("config.toml")).unwrap().parse().unwrap();
    let model = ModelConfig::parse(config["model"].as_table().unwrap()).unwrap();
    // A file of another program holds gamma per channel.
    let is_own = weights.is_dir();
    let wide: toml::Table = "kind = 'layer_scale'\ninit = 1.0".parse().unwrap();
    let own = config["residual"].as_table().unwrap();
    let residual = if is_own || own["kind"].as_str() == Some("plain") { own } else { &wide };
    let strategy = Registry::builtin().parse(residual).unwrap();
    let input = InputShape { channels: 1, height: 8, width: 8, classes: 10 };
    let vit = Vit::new(&Scope::new(0, Kind::Float, Device::Cpu), &model, &*strategy, input).unwrap();
    let pretrained = Pretrained::open(weights).unwrap_or_else(|e| panic!("{arm}: {e}"));
    vit.load(&pretrained, &LoadOptions::default()).unwrap_or_else(|e| panic!("{arm}: {e}"));
    vit
}

fn off(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.size(), expected.size());
    ((found - expected).abs().max() / expected.abs().max()).double_value(&[])
}

/// The arguments that an export's name stands for.
fn arguments(name: &str) -> Vec<&'static str> {
    let mut arguments = vec!["--layout", if name.starts_with("hf") { "hf" } else { "timm" }];
    if name.ends_with("_folded") {
        arguments.push("--fold-gamma");
    }
    if name.ends_with("_features") {
        arguments.push("--no-head");
    }
    arguments
}

/// Exports a network; gives the file and the line that was printed.
fn export(place: &Place, arm: &str, name: &str) -> (PathBuf, String) {
    let out = place.at(format!("{arm}-{name}{}", if name.starts_with("hf") { "" } else { ".safetensors" }));
    let (from, to) = (folder().join(arm), out.display().to_string());
    let called = place.call(&[&["export", from.to_str().unwrap(), "--out", &to], &arguments(name)[..]].concat());
    let called = called.expect(0);
    let file = if out.is_dir() { out.join("model.safetensors") } else { out };
    (file, called.out)
}

#[test]
fn an_exported_file_has_the_bytes_from_which_the_other_programs_computed_our_logits() {
    let place = Place::new();
    let golden = read("golden.safetensors");
    let images = &read("images.safetensors")["images"];
    let digests = json(&folder().join("sha256.json"));
    assert_eq!(golden.len(), 13);
    for (key, expected) in &golden {
        let (arm, name) = key.split_once('/').unwrap();
        let vit = load(arm, &folder().join(arm));
        let found = match name {
            "hf_features" => vit.features(images, &mut Pass::eval()),
            _ => vit.forward(images, &mut Pass::eval()),
        };
        let error = off(&found, expected);
        assert!(error < TOLERANCE, "{key}: {error}");
        let (file, printed) = export(&place, arm, name);
        assert_eq!(reslab_record::sha256_hex(&std::fs::read(&file).unwrap()), digests[key].as_str().unwrap(), "{key}");
        assert_eq!(printed.lines().count(), 1, "{printed}");
        assert!(printed.contains("; open it: import "), "{printed}");
    }
}

#[test]
fn an_exported_file_comes_back_with_equal_bits_and_the_same_logits() {
    let place = Place::new();
    let images = &read("images.safetensors")["images"];
    let golden = read("golden.safetensors");
    let own = |pretrained: &Pretrained| -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
        let weights = pretrained.mapped().iter().map(|mapped| Weight::of_mapped(mapped).unwrap());
        weights.map(|w| (w.name, (w.shape, w.bytes.into_owned()))).collect()
    };
    for (arm, name) in
        [("plain_mean", "timm"), ("layer_scale", "timm"), ("class_mean", "hf"), ("rope", "timm"), ("cait", "timm")]
    {
        let (file, _) = export(&place, arm, name);
        let [before, after] = [&folder().join(arm), &file].map(|path| own(&Pretrained::open(path).unwrap()));
        assert!(before == after, "{arm}/{name}");
        let error = off(&load(arm, &file).forward(images, &mut Pass::eval()), &golden[&format!("{arm}/{name}")]);
        assert!(error < TOLERANCE, "{arm}/{name}: {error}");
    }
}

/// Negative control: the golden feels gamma, and folding is what keeps the function.
#[test]
fn without_its_gamma_a_network_is_another_and_with_it_folded_the_same() {
    let place = Place::new();
    let images = &read("images.safetensors")["images"];
    let golden = read("golden.safetensors");
    for arm in ["layer_scale", "rope"] {
        let expected = &golden[&format!("{arm}/timm")];
        let vit = load(arm, &folder().join(arm));
        let gammas = vit.parameters().iter().filter(|p| p.name.ends_with("join.gamma"));
        tch::no_grad(|| gammas.for_each(|p| drop(p.tensor.shallow_clone().fill_(1.0))));
        assert!(off(&vit.forward(images, &mut Pass::eval()), expected) > 0.1, "{arm}");
        assert!(off(&golden[&format!("{arm}/timm_folded")], expected) < TOLERANCE, "{arm}");
        let (file, _) = export(&place, arm, "timm_folded");
        assert!(!Pretrained::open(&file).unwrap().architecture().gamma, "{arm}");
    }
}

#[test]
fn a_file_of_one_program_is_written_for_another() {
    let place = Place::new();
    let (file, _) = export(&place, "registers_swiglu", "timm");
    let call = |arguments: &[&str]| place.call(&[&["export", file.to_str().unwrap()], arguments].concat());
    let called = call(&["--layout", "hf", "--out", "again"]).expect(0);
    assert!(called.out.contains("as hf dinov2-with-registers; the mask token is zeros"), "{}", called.out);
    let config = json(&place.at("again/config.json"));
    assert_eq!((config["num_register_tokens"].as_u64(), config["mlp_ratio"].as_u64()), (Some(2), Some(3)));
}

#[test]
fn what_can_not_be_exported_is_refused_with_the_reason_and_nothing_is_written() {
    let place = Place::new();
    let refusal = |arguments: &[&str]| place.call(&[&["export"], arguments].concat()).expect(2).err;
    let at = |arm: &str| folder().join(arm).display().to_string();
    let files = place.files().len();
    for (arguments, says) in [
        (vec![&at("rope")[..], "--layout", "hf", "--out", "x"], "transformers has no classifier for DINOv3"),
        (vec![&at("plain_mean"), "--layout", "hf", "--out", "x"], "there is no class token"),
        (vec![&at("cait"), "--layout", "hf", "--out", "x"], "transformers has no CaiT"),
        (
            vec![&at("class_mean"), "--layout", "timm", "--out", "x.safetensors"],
            "no pool there puts class token and mean",
        ),
        (
            vec![&at("plain_mean"), "--layout", "timm", "--out", "x.safetensors", "--fold-gamma"],
            "the network has no gamma",
        ),
        (vec![&at("cait"), "--layout", "timm", "--out", "x"], "must end with .safetensors"),
        (vec![&at("cait"), "--layout", "timm", "--out", "tiny.toml"], "must end with .safetensors"),
        (
            vec![&at("layer_scale"), "--layout", "hf", "--out", "x.safetensors"],
            "transformers opens a folder, not a file",
        ),
        (vec![&at("layer_scale"), "--layout", "hf", "--out", "."], "is there already"),
        (vec![&at("layer_scale"), "--layout", "hf", "--out", "x", "--weights", "ema"], "has no `ema/` weights"),
        (vec!["gone", "--layout", "hf", "--out", "x"], "gone: can't open it"),
        (vec!["tiny.toml", "--layout", "hf", "--out", "x"], "torn or corrupt"),
    ] {
        let text = refusal(&arguments);
        assert!(text.contains(says), "no {says:?} in {text}");
        assert_eq!(place.files().len(), files, "{says}");
        assert!(!place.at("x").exists(), "{says}");
    }
}

/// A gate has parameters of its own; a fixed scale has none, so that its config alone tells that it is another function.
#[test]
fn strategies_without_a_counterpart_are_refused_by_name() {
    let place = Place::new();
    let tiny = std::fs::read_to_string(place.at("tiny.toml")).unwrap();
    for name in ["input_gate", "fixed_scale"] {
        let example = Registry::builtin().get(name).unwrap().example.trim().replace('\n', ", ");
        let text = tiny.replacen("residual = { kind = \"plain\" }", &format!("residual = {{ {example} }}"), 1);
        std::fs::write(place.at("tiny.toml"), text).unwrap();
        let sweep = ["sweep", "tiny.toml"];
        place.call(&[&sweep[..], &["--arm", "plain", "--seeds", "0", "--out", name]].concat()).expect(0);
        let run = place.run_dir(&format!("{name}/tiny"), "plain");
        let out = place.at("x.safetensors");
        let arguments = ["export", run.to_str().unwrap(), "--layout", "timm", "--out", out.to_str().unwrap()];
        let called = place.call(&arguments).expect(2);
        assert!(called.err.contains(&format!("strategy `{name}` (y = x + ")), "{}", called.err);
        assert!(called.err.contains("has no counterpart in timm and transformers"), "{}", called.err);
        assert!(!out.exists());
    }
}

#[test]
fn a_damaged_checkpoint_of_a_run_is_not_exported() {
    let place = Place::new();
    let from = folder().join("layer_scale");
    std::fs::copy(from.join("config.toml"), place.at("config.toml")).unwrap();
    let mut bytes = std::fs::read(from.join("checkpoint.safetensors")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(place.at("checkpoint.safetensors"), bytes).unwrap();
    let called = place.call(&["export", ".", "--layout", "timm", "--out", "x.safetensors"]).expect(2);
    assert!(called.err.contains("corrupt: its checksum is"), "{}", called.err);
}

/// The printed line is run by the other programs, where `RESLAB_EXPORT_PYTHON` is a Python that has them (several GB).
#[test]
fn timm_and_transformers_open_what_is_exported() {
    let Some(python) = std::env::var_os("RESLAB_EXPORT_PYTHON") else {
        println!("skipped: no RESLAB_EXPORT_PYTHON with timm and transformers");
        return;
    };
    let script = folder().join("make_goldens.py");
    let output = Command::new(python).arg(script).args([env!("CARGO_BIN_EXE_reslab"), "--check"]).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && text.contains("13 exports agree to"), "{text}");
}
