//! Files that the originals' own code saved, with what it computes from them (tests/golden/backbones): every layout, at
//! the resolution of its positions and at another, in single precision, with random gammas of both signs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reslab_model::{InputShape, LoadOptions, Loaded, ModelConfig, Vit};
use reslab_pretrained::Pretrained;
use reslab_residual::{Pass, Registry};
use reslab_torch::{Scope, set_threads};
use tch::{Device, Kind, Tensor};

/// Of the largest number of a tensor.
const TOLERANCE: f64 = 1e-4;
const RESOLUTIONS: [(&str, i64, i64); 2] = [("native", 16, 16), ("other", 20, 12)];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/backbones")
}

fn read(path: &Path) -> BTreeMap<String, Tensor> {
    Tensor::read_safetensors(path).unwrap().into_iter().collect()
}

fn cases() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let folders = entries.filter(|path| path.join("golden.safetensors").is_file());
    let mut names: Vec<String> = folders.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A case loaded for one resolution.
struct Case {
    vit: Vit,
    loaded: Loaded,
    gamma: bool,
}

impl Case {
    fn load(case: &str, height: i64, width: i64, options: LoadOptions) -> Case {
        set_threads(1);
        let pretrained = Pretrained::open(&folder().join(case)).unwrap_or_else(|e| panic!("{case}: {e}"));
        let file = pretrained.architecture();
        let mut table = file.model_table();
        // timm's files don't tell, where a head has not 64 channels.
        let heads = if case.contains("dinov3") { 2 } else { 3 };
        table.entry("num_heads").or_insert(toml::Value::Integer(heads));
        if case == "timm_clip" {
            table.insert("norm_eps".to_owned(), 1e-5.into());
        }
        let config = ModelConfig::parse(&table).unwrap_or_else(|e| panic!("{case}: {e}"));
        let residual = if file.gamma { "kind = 'layer_scale'\ninit = 1.0" } else { "kind = 'plain'" };
        let strategy = Registry::builtin().parse(&residual.parse().unwrap()).unwrap();
        let input = InputShape { channels: 3, height, width, classes: file.classes.unwrap_or(4) as i64 };
        let vit = Vit::new(&Scope::new(0, Kind::Float, Device::Cpu), &config, &*strategy, input).unwrap();
        let options = LoadOptions { replace_head: file.classes.is_none(), ..options };
        let loaded = vit.load(&pretrained, &options).unwrap_or_else(|e| panic!("{case}: {e}"));
        Case { vit, loaded, gamma: file.gamma }
    }

    /// The largest error of what the golden holds: tokens, features, logits.
    fn error(&self, golden: &BTreeMap<String, Tensor>, size: &str, images: &Tensor) -> f64 {
        let wanted = |name: &str| golden.get(&format!("{size}/{name}"));
        let mut worst: f64 = 0.0;
        let mut compare = |found: &Tensor, expected: &Tensor| {
            assert_eq!(found.size(), expected.size());
            let off = (found - expected).abs().max() / expected.abs().max();
            worst = worst.max(off.double_value(&[]));
        };
        if let Some(expected) = wanted("tokens") {
            let tokens = self.vit.tokens(images, &mut Pass::eval());
            let (count, patches) = (tokens.size()[1], expected.size()[1] - 1);
            let patches = tokens.narrow(1, count - patches, patches);
            compare(&Tensor::cat(&[tokens.narrow(1, 0, 1), patches], 1), expected);
        }
        if let Some(expected) = wanted("features") {
            compare(&self.vit.features(images, &mut Pass::eval()), expected);
        }
        if let Some(expected) = wanted("logits") {
            compare(&self.vit.forward(images, &mut Pass::eval()), expected);
        }
        worst
    }
}

#[test]
fn every_layout_computes_what_its_original_computes_at_both_resolutions() {
    let images = read(&folder().join("images.safetensors"));
    let page = std::fs::read_to_string(folder().join("README.md")).unwrap();
    println!("\n| file | read as | resolution | positions | largest error |\n|---|---|---|---|---|");
    for case in cases() {
        let golden = read(&folder().join(&case).join("golden.safetensors"));
        for (size, height, width) in RESOLUTIONS {
            let found = Case::load(&case, height, width, LoadOptions::default());
            let error = found.error(&golden, size, &images[&format!("{size}/images")]);
            let positions = match found.loaded.resized {
                Some(resized) => format!("resized as {}", resized.by.name()),
                None if found.vit.config().rope_base.is_some() => "rotary".to_owned(),
                None => "as they are".to_owned(),
            };
            let layout = found.loaded.layout;
            let row = format!("| `{case}` | {layout} | {height} x {width} | {positions} | ");
            println!("{row}{error:.1e} |");
            assert!(page.contains(&row), "the page of the goldens lacks {row}");
            assert!(error < TOLERANCE, "{case} at {size}: {error}");
        }
    }
}

#[test]
fn a_dropped_gamma_is_far_away() {
    let images = read(&folder().join("images.safetensors"));
    let mut with_gamma = 0;
    for case in cases() {
        let found = Case::load(&case, 16, 16, LoadOptions::default());
        let gammas = found.vit.parameters().iter().filter(|p| p.name.ends_with("join.gamma"));
        tch::no_grad(|| gammas.for_each(|p| drop(p.tensor.shallow_clone().fill_(1.0))));
        let golden = read(&folder().join(&case).join("golden.safetensors"));
        let error = found.error(&golden, "native", &images["native/images"]);
        assert!(if found.gamma { error > 0.1 } else { error < TOLERANCE }, "{case}: {error}");
        with_gamma += usize::from(found.gamma);
    }
    assert!(with_gamma >= 15, "{with_gamma}");
}

#[test]
fn another_convention_for_the_positions_is_far_away() {
    use reslab_model::Resize;
    let images = read(&folder().join("images.safetensors"));
    for (case, own) in [("timm_dinov2", Resize::Timm), ("hf_dinov2", Resize::Hf), ("fb_dinov2", Resize::Dinov2)] {
        let golden = read(&folder().join(case).join("golden.safetensors"));
        for resize in [Resize::Timm, Resize::Hf, Resize::Dinov2] {
            let found = Case::load(case, 20, 12, LoadOptions { resize: Some(resize), ..LoadOptions::default() });
            let error = found.error(&golden, "other", &images["other/images"]);
            assert!(if resize == own { error < TOLERANCE } else { error > 1e-3 }, "{case} by {resize:?}: {error}");
        }
    }
}
