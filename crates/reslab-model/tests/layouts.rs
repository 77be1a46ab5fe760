//! Every layout at its real size finds a place for each tensor and a tensor for each parameter. The lists of keys, and the
//! files made from them, are reslab-pretrained's; no memory is spent on the network.

#[path = "../../reslab-pretrained/tests/support/mod.rs"]
mod support;

use std::path::Path;

use reslab_model::{InputShape, LoadOptions, ModelConfig, Vit};
use reslab_pretrained::Pretrained;
use reslab_residual::Registry;
use reslab_torch::Scope;

#[test]
fn every_released_layout_fits_its_network_in_both_directions() {
    let lists = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reslab-pretrained/tests/keys");
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(lists).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name.starts_with("small_") || path.extension().is_none_or(|extension| extension != "tsv") {
            continue;
        }
        count += 1;
        let list = support::list(&std::fs::read_to_string(&path).unwrap());
        let file = folder.path().join("x.safetensors");
        support::sparse(&file, &list);
        let file = Pretrained::open(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let network = file.architecture();
        let config = ModelConfig::parse(&network.model_table()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let side = 224;
        let classes = network.classes.unwrap_or(10) as i64;
        let input = InputShape { channels: 3, height: side, width: side, classes };
        let built = |residual: &str| {
            let strategy = Registry::builtin().parse(&residual.parse().unwrap()).unwrap();
            Vit::new(&Scope::counting(), &config, &*strategy, input).unwrap()
        };
        let gamma = "kind = 'layer_scale'\ninit = 1.0";
        let (own, other) = if network.gamma { (gamma, "kind = 'plain'") } else { ("kind = 'plain'", gamma) };
        let options = LoadOptions { replace_head: network.classes.is_none(), ..LoadOptions::default() };
        let vit = built(own);
        let loaded = vit.check_load(&file, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        let drawn = if network.classes.is_none() { vec!["head.weight", "head.bias"] } else { Vec::new() };
        assert_eq!(loaded.drawn, drawn, "{name}");
        assert_eq!(loaded.filled.len() + drawn.len(), vit.parameters().len(), "{name}");
        assert_eq!(loaded.filled.len(), file.mapped().len(), "{name}");
        // DINOv2's positions are of 37 x 37 patches.
        assert_eq!(loaded.resized.is_some(), config.patch_size == 14, "{name}: {loaded}");
        assert!(loaded.differences.is_empty(), "{name}: {loaded}");
        let refused = built(other).check_load(&file, &options).unwrap_err().to_string();
        assert!(refused.contains("join.gamma"), "control: {name}: {refused}");
    }
    assert!(count >= 14, "{count}");
}
