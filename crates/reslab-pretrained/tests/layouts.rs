//! Every layout of `tests/keys/`, at its real size: all keys accounted for, all elements counted.

mod support;

use std::collections::BTreeSet;

use reslab_pretrained::{Layout, Pretrained};
use support::{elements, read_list, sparse};

/// File, layout, and lines of its [model] table.
const FILES: [(&str, Layout, &[&str]); 14] = [
    ("fb_deit3_small_224.under-key-model", Layout::FbDeit3, &["position = \"patches\"", "num_heads = 6"]),
    ("fb_dinov2_vits14_pretrain", Layout::FbDinov2, &["patch_size = 14", "norm_eps = 0.000001"]),
    ("fb_dinov2_vits14_reg4_pretrain", Layout::FbDinov2, &["registers = 4"]),
    (
        "fb_dinov3_vits16_pretrain_lvd1689m",
        Layout::FbDinov3,
        &["qkv_bias = \"no_key\"", "position = \"rope\"", "rope_base = 100.0", "norm_eps = 0.00001", "num_heads = 6"],
    ),
    ("hf_facebook_dinov2-small", Layout::HfDinov2, &["patch_size = 14", "pool = \"class\""]),
    ("hf_facebook_dinov2-with-registers-small", Layout::HfDinov2WithRegisters, &["registers = 4"]),
    ("hf_facebook_dinov3-vits16-pretrain-lvd1689m", Layout::HfDinov3, &["qkv_bias = \"no_key\"", "registers = 4"]),
    (
        "timm_cait_xxs24_224.fb_dist_in1k",
        Layout::Cait,
        &["kind = \"cait\"", "depth = 24", "class_depth = 2", "num_heads = 4", "width = 192"],
    ),
    ("timm_deit3_small_patch16_224.fb_in1k", Layout::TimmLayerScale, &["position = \"patches\"", "depth = 12"]),
    ("timm_vit_small_patch14_dinov2.lvd142m", Layout::TimmLayerScale, &["patch_size = 14", "mlp_ratio = 4.0"]),
    (
        "timm_vit_small_patch14_reg4_dinov2.lvd142m",
        Layout::TimmLayerScale,
        &["registers = 4", "position = \"patches\"", "qkv_bias = true"],
    ),
    ("timm_vit_small_patch16_224", Layout::TimmVit, &["width = 384", "norm = \"pre\""]),
    ("timm_vit_small_patch16_dinov3.lvd1689m", Layout::TimmDinov3, &["qkv_bias = false", "rope_base = 100.0"]),
    ("timm_vit_small_patch16_dinov3_qkvb.lvd1689m", Layout::TimmDinov3, &["qkv_bias = \"no_key\""]),
];

#[test]
fn every_layout_opens_with_all_keys_and_elements_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let listed = std::fs::read_dir(support::keys_file("")).unwrap().filter(|e| {
        let name = e.as_ref().unwrap().file_name().into_string().unwrap();
        name.ends_with(".tsv") && !name.starts_with("small_")
    });
    assert_eq!(listed.count(), FILES.len());
    for (name, layout, lines) in FILES {
        let list = read_list(&format!("{name}.tsv"));
        let path = folder.path().join(format!("{name}.safetensors"));
        sparse(&path, &list);
        let pretrained = Pretrained::open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(pretrained.layout(), layout, "{name}");
        let total: usize = list.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
        let (mapped, ignored) = elements(&pretrained, &list);
        assert_eq!(mapped + ignored, total, "{name}");
        let used = pretrained.mapped().iter().flat_map(|m| &m.parts).map(|part| part.key.as_str());
        let mut keys: BTreeSet<&str> = used.collect();
        keys.extend(pretrained.ignored().iter().map(|(key, _)| key.split('[').next().unwrap()));
        assert_eq!(keys, list.iter().map(|(key, _)| key.as_str()).collect(), "{name}");
        let table = pretrained.architecture().model_table().to_string();
        for line in lines {
            assert!(table.lines().any(|found| found == *line), "{name}: no {line} in\n{table}");
        }
        let ours: BTreeSet<&str> = pretrained.mapped().iter().map(|m| m.name.as_str()).collect();
        assert_eq!(ours.len(), pretrained.mapped().len(), "{name}: a parameter twice");
        for m in pretrained.mapped() {
            let numel: usize = m.parts.iter().map(|part| part.numel()).sum();
            assert_eq!(m.shape.iter().product::<i64>() as usize, numel, "{name}: {}", m.name);
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn the_same_network_has_the_same_parameters_in_every_layout() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = |name: &str| {
        let path = folder.path().join("x.safetensors");
        sparse(&path, &read_list(&format!("{name}.tsv")));
        let pretrained = Pretrained::open(&path).unwrap();
        pretrained.mapped().iter().map(|m| (m.name.clone(), m.shape.clone())).collect::<BTreeSet<_>>()
    };
    let dinov2 = parameters("fb_dinov2_vits14_pretrain");
    assert_eq!(dinov2, parameters("hf_facebook_dinov2-small"));
    assert_eq!(dinov2, parameters("timm_vit_small_patch14_dinov2.lvd142m"));
    let registers = parameters("fb_dinov2_vits14_reg4_pretrain");
    assert_eq!(registers, parameters("hf_facebook_dinov2-with-registers-small"));
    let dinov3 = parameters("fb_dinov3_vits16_pretrain_lvd1689m");
    assert_eq!(dinov3, parameters("hf_facebook_dinov3-vits16-pretrain-lvd1689m"));
    assert_eq!(dinov3, parameters("timm_vit_small_patch16_dinov3_qkvb.lvd1689m"));
    assert_eq!(parameters("fb_deit3_small_224.under-key-model"), parameters("timm_deit3_small_patch16_224.fb_in1k"));
    // Named as the networks register them.
    for (name, shape) in [
        ("patch_embed.weight", vec![384, 768]),
        ("class_token", vec![1, 1, 384]),
        ("registers", vec![1, 4, 384]),
        ("blocks.11.attention.norm.weight", vec![384]),
        ("blocks.00.attention.qkv.weight", vec![1152, 384]),
        ("blocks.00.attention.qkv.value_bias", vec![384]),
        ("blocks.00.attention.join.gamma", vec![384]),
        ("blocks.00.mlp.fc1.weight", vec![1536, 384]),
        ("blocks.00.mlp.join.gamma", vec![384]),
        ("norm.bias", vec![384]),
    ] {
        assert!(dinov3.contains(&(name.to_owned(), shape)), "{name}");
    }
}

#[test]
fn the_page_about_checkpoints_names_every_layout() {
    let page = std::fs::read_to_string(support::keys_file("../../../../docs/checkpoints.md")).unwrap();
    for layout in Layout::ALL {
        assert!(page.contains(&format!("| {layout} |")), "{layout}");
    }
}
