//! Everything that can be wrong with a file of a known layout, each with its message.

mod support;

use reslab_pretrained::{Pretrained, PretrainedError};
use support::{Net, Tensor};

fn net(name: &str) -> Net {
    Net::read(&format!("small_{name}.tsv"))
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::f32(shape, vec![0.0; shape.iter().product()])
}

fn says(net: &Net, parts: &[&str]) {
    let text = net.refusal();
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn a_renamed_tensor_is_named_on_both_sides() {
    let mut renamed = net("timm_vit");
    renamed.rename("blocks.1.mlp.fc1.weight", "blocks.1.mlp.fcl.weight");
    says(
        &renamed,
        &[
            "x.safetensors: read as timm vit, but keys and parameters do not fit each other",
            "unknown keys, that no parameter takes (1): blocks.1.mlp.fcl.weight (nearest known: blocks.1.mlp.fc1.weight)",
            "missing tensors (1): blocks.1.mlp.fc1.weight [32, 16]",
        ],
    );
}

/// One at a time, in every layout: no tensor may go missing without being named, and no other may be blamed.
#[test]
fn every_single_missing_tensor_is_named() {
    for name in
        ["timm_vit", "timm_cait", "timm_plus_dinov3", "hf_dinov2_classifier", "hf_dinov3", "fb_dinov3", "fb_deit3"]
    {
        let whole = net(name);
        for key in whole.tensors.keys() {
            let canonical = key.strip_prefix("dinov2.").unwrap_or(key).replace("classifier.", "head.");
            // Without it the file is one of another network, which lacks nothing.
            let other =
                ["mask_token", "periods", "gamma_1", "gamma_2", "reg_token", "storage_tokens", "register_tokens"];
            let other = other.iter().any(|end| key.ends_with(end)) || canonical.starts_with("head.");
            let mut net = whole.clone();
            net.tensors.remove(key);
            match net.open() {
                Ok(_) if other => {}
                Ok(_) => panic!("{name} opens without {key}"),
                // Its positions or its class token make a file what it is.
                Err(e) if key == "cls_token" || key == "pos_embed" => assert!(!e.to_string().is_empty()),
                Err(PretrainedError::Keys(report)) => {
                    assert!(report.missing[0].starts_with(&canonical), "{name} without {key}: {report}");
                    assert!(report.missing.len() == 1 && report.unknown.is_empty(), "{name} without {key}: {report}");
                    assert!(report.shapes.is_empty(), "{name} without {key}: {report}");
                }
                Err(e) => assert!(other, "{name} without {key}: {e}"),
            }
        }
    }
}

/// One at a time, in every layout: a weight that is transposed is named with both shapes, and no other is.
#[test]
fn every_single_transposed_weight_is_named_with_both_shapes() {
    let mut seen = 0;
    for name in ["timm_vit", "timm_vit_swiglu_packed", "timm_cait", "timm_plus_dinov3", "hf_dinov2_swiglu", "hf_dinov3"]
    {
        let whole = net(name);
        for (key, tensor) in &whole.tensors {
            let [rows, columns] = tensor.shape[..] else { continue };
            if rows == columns || key.contains("mask_token") || key.starts_with("head") {
                continue;
            }
            let mut net = whole.clone();
            net.tensors.get_mut(key).unwrap().shape = vec![columns, rows];
            says(
                &net,
                &[&format!(
                    "tensors of another shape (1): {key} is [{columns}, {rows}], but should be [{rows}, {columns}] (transposed)"
                )],
            );
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn other_shapes_types_and_empty_tensors_are_named() {
    let mut wrong = net("hf_dinov2");
    wrong.tensors.insert("encoder.layer.0.norm1.bias".into(), zeros(&[15]));
    says(&wrong, &["tensors of another shape (1): encoder.layer.0.norm1.bias is [15], but should be [16]"]);

    let mut registers = net("fb_dinov3");
    registers.tensors.insert("storage_tokens".into(), zeros(&[1, 4, 15]));
    says(&registers, &["tensors of another shape (1): storage_tokens is [1, 4, 15], but should be [1, 4, 16]"]);

    let mut whole = net("hf_dinov2");
    let numbers = Tensor { dtype: "I64", shape: vec![16], bytes: vec![0; 128] };
    whole.tensors.insert("layernorm.bias".into(), numbers);
    says(&whole, &["tensors that are no weights (F16, BF16, F32 and F64 are) (1): layernorm.bias is I64"]);

    for key in ["norm.weight", "cls_token", "blocks.1.mlp.fc1.weight", "patch_embed.proj.weight"] {
        let mut empty = net("timm_vit");
        let shape = empty.tensors[key].shape.iter().map(|_| 0).collect::<Vec<_>>();
        empty.tensors.insert(key.into(), zeros(&shape));
        says(
            &empty,
            &[&format!("values that the layout does not allow (1): {key} has no elements: its shape is {shape:?}")],
        );
    }
}

#[test]
fn extra_tensors_are_named_and_not_passed_over() {
    let mut extra = net("fb_dinov2");
    extra.tensors.insert("blocks.0.attn.q_norm.weight".into(), zeros(&[8]));
    says(&extra, &["unknown keys, that no parameter takes (1): blocks.0.attn.q_norm.weight (nearest known: "]);
    let mut outside = net("timm_vit").with_prefix("module.");
    outside.tensors.insert("epoch".into(), zeros(&[1]));
    says(&outside, &["(1): epoch"]);
    let mut many = net("timm_vit");
    (0..20).for_each(|i| drop(many.tensors.insert(format!("extra_{i}"), zeros(&[1]))));
    says(&many, &["unknown keys, that no parameter takes (20): extra_0", ", .."]);
}

#[test]
fn a_mask_or_periods_other_than_expected_are_refused() {
    let mut unmasked = net("fb_dinov3");
    unmasked.tensors.insert("blocks.1.attn.qkv.bias_mask".into(), Tensor::f32(&[48], vec![1.0; 48]));
    says(&unmasked, &["blocks.1.attn.qkv.bias_mask is not zero for the key's bias and one elsewhere"]);
    let mut lacking = net("fb_dinov3");
    lacking.tensors.remove("blocks.1.attn.qkv.bias_mask");
    says(&lacking, &["missing tensors (1): blocks.1.attn.qkv.bias_mask [48]"]);
    let mut other = net("fb_dinov3");
    other.tensors.insert("rope_embed.periods".into(), Tensor::f32(&[2], vec![1.0, 100.0]));
    says(&other, &["rope_embed.periods are not the periods of base 100, 100^(k/2)"]);
    let mut rounded = net("fb_dinov3");
    rounded.tensors.insert("rope_embed.periods".into(), Tensor::f32(&[2], vec![1.0, 10.03]));
    assert!(rounded.open().is_ok(), "as bfloat16 rounds");
    let registers = net("timm_vit_registers_with_positions");
    says(&registers, &["pos_embed[16..48] is not zero, and this network has no parameter for it"]);
}

#[test]
fn networks_that_are_no_layout_here_are_refused_with_the_reason() {
    says(&net("timm_vit_mean_of_normed"), &["read as timm vit: has no class token", "fc_norm"]);
    says(&net("timm_distilled"), &["dist_token"]);
    let mut rope = net("timm_dinov3");
    rope.tensors.remove("reg_token");
    says(&rope, &["has no pos_embed, and no registers as timm's dinov3"]);
    let mut odd = net("timm_vit");
    odd.tensors.insert("pos_embed".into(), zeros(&[1, 7, 16]));
    says(&odd, &["pos_embed has 7 positions, which is no square"]);
    let other = Net::of(&[("conv1.weight".to_owned(), vec![4, 3, 7, 7]), ("fc.weight".to_owned(), vec![2, 4])]);
    says(&other, &["no layout that is known", "conv1.weight, fc.weight", "hf dinov2-with-registers"]);
    let mut wide = net("timm_vit");
    wide.tensors.insert("patch_embed.proj.weight".into(), zeros(&[16, 3, 4, 2]));
    says(&wide, &["patch_embed.proj.weight is [16, 3, 4, 2]; a square patch is [D, C, P, P]"]);
    let mut far = net("timm_vit");
    far.rename("blocks.1.norm1.bias", "blocks.18446744073709551615.norm1.bias");
    says(&far, &["numbers its blocks up to", "but has only 32 tensors"]);
}

/// A network lacks its last block: the file alone can't tell, a config beside it can.
#[test]
fn a_config_that_says_otherwise_than_the_tensors_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.safetensors"), net("hf_dinov3").bytes()).unwrap();
    let open = |config: &str| {
        std::fs::write(folder.path().join("config.json"), format!("{{\"model_type\": \"dinov3_vit\", {config}}}"))
            .unwrap();
        Pretrained::open(folder.path())
    };
    let network = open("\"num_attention_heads\": 4, \"layer_norm_eps\": 1e-4, \"rope_theta\": 50.0").unwrap();
    let table = network.architecture().model_table().to_string();
    for line in ["num_heads = 4", "norm_eps = 0.0001", "rope_base = 50.0"] {
        assert!(table.lines().any(|found| found == line), "{table}");
    }
    for (config, problem) in [
        ("\"num_hidden_layers\": 3", "config.json says num_hidden_layers = 3, the tensors 2"),
        ("\"hidden_size\": 32", "config.json says hidden_size = 32, the tensors 16"),
        ("\"num_register_tokens\": 0", "says num_register_tokens = 0, the tensors 4"),
        ("\"patch_size\": [14, 14]", "says patch_size = 14, the tensors 4"),
        ("\"hidden_act\": \"relu\"", "says hidden_act = \"relu\"; gelu is what is read here"),
        ("\"num_attention_heads\": 3", "3 heads do not divide its width 16"),
        ("\"num_attention_heads\": 0", "0 heads do not divide its width 16"),
        ("\"layer_norm_eps\": -1.0", "is added in norms"),
        ("\"num_hidden_layers\": 2", ""),
        ("oops", "is no config of transformers"),
    ] {
        match open(config) {
            Ok(_) => assert!(problem.is_empty(), "{config}"),
            Err(e) => assert!(!problem.is_empty() && e.to_string().contains(problem), "{config}: {e}"),
        }
    }
}

#[test]
fn a_folder_is_searched_and_a_pickle_in_it_is_refused_with_its_conversion() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = || Pretrained::open(folder.path()).unwrap_err().to_string();
    assert!(refusal().contains("holds none of model.safetensors, model.safetensors.index.json"), "{}", refusal());
    std::fs::write(folder.path().join("pytorch_model.bin"), b"PK\x03\x04\x00\x00\x08\x08\x00").unwrap();
    assert!(refusal().contains("save_file("), "{}", refusal());
    let missing = Pretrained::open(&folder.path().join("none.safetensors")).unwrap_err().to_string();
    assert!(missing.contains("none.safetensors: can't open it: No such file"), "{missing}");
}

#[test]
fn every_torn_length_of_a_file_is_refused() {
    let bytes = net("timm_vit").bytes();
    for length in (0..bytes.len()).step_by(97) {
        let error = Pretrained::decode(std::path::Path::new("x"), bytes[..length].to_vec()).unwrap_err().to_string();
        assert!(error.contains("torn or corrupt") || error.contains("is empty"), "{length}: {error}");
    }
}
