//! Small files of every layout and spelling: what they are taken for, and where their numbers go.

mod support;

use reslab_pretrained::{Dtype, Layout, Pretrained, Weights};
use support::{Net, Tensor, elements};

const SMALL: [(&str, Layout, &[&str]); 27] = [
    ("timm_vit", Layout::TimmVit, &["pool = \"class\""]),
    ("timm_vit_avg", Layout::TimmVit, &["pool = \"mean\"", "class_token = true"]),
    ("timm_vit_avg_no_class", Layout::TimmVit, &["pool = \"mean\""]),
    (
        "timm_vit_registers_pre_norm",
        Layout::TimmLayerScale,
        &["registers = 4", "pre_norm = true", "position = \"patches\""],
    ),
    ("timm_vit_swiglu_packed", Layout::TimmLayerScale, &["mlp = \"swiglu\"", "mlp_ratio = 1.0"]),
    ("timm_vit_swiglu", Layout::TimmVit, &["mlp = \"swiglu\"", "mlp_ratio = 2.0", "qkv_bias = false"]),
    ("timm_cait", Layout::Cait, &["num_heads = 2", "class_depth = 2"]),
    ("timm_dinov3", Layout::TimmDinov3, &["qkv_bias = false", "registers = 4"]),
    ("timm_dinov3_qkvb", Layout::TimmDinov3, &["qkv_bias = \"no_key\""]),
    ("timm_plus_dinov3", Layout::TimmDinov3, &["mlp = \"swiglu\"", "mlp_ratio = 4.0"]),
    ("hf_dinov2", Layout::HfDinov2, &["mlp_ratio = 2.0"]),
    ("hf_dinov2_in_memory", Layout::HfDinov2, &["qkv_bias = true"]),
    ("hf_dinov2_swiglu", Layout::HfDinov2, &["mlp = \"swiglu\"", "mlp_ratio = 1.5"]),
    ("hf_dinov2_no_qkv_bias", Layout::HfDinov2, &["qkv_bias = false"]),
    ("hf_dinov2_classifier", Layout::HfDinov2, &["pool = \"class_mean\""]),
    ("hf_dinov2_with_registers", Layout::HfDinov2WithRegisters, &["registers = 4"]),
    ("hf_dinov2_with_registers_classifier", Layout::HfDinov2WithRegisters, &["pool = \"class_mean\""]),
    ("hf_dinov2_with_registers_swiglu", Layout::HfDinov2WithRegisters, &["mlp = \"swiglu\""]),
    ("hf_dinov3", Layout::HfDinov3, &["qkv_bias = \"no_key\"", "position = \"rope\""]),
    ("hf_dinov3_in_memory", Layout::HfDinov3, &["qkv_bias = \"no_key\"", "depth = 2"]),
    ("hf_dinov3_swiglu", Layout::HfDinov3, &["mlp = \"swiglu\"", "mlp_ratio = 2.0"]),
    ("hf_dinov3_no_registers_key_bias", Layout::HfDinov3, &["qkv_bias = true"]),
    ("fb_dinov2", Layout::FbDinov2, &["norm_eps = 0.000001"]),
    ("fb_dinov2_registers", Layout::FbDinov2, &["registers = 4"]),
    ("fb_dinov3", Layout::FbDinov3, &["num_heads = 2", "norm_eps = 0.00001"]),
    ("fb_deit3", Layout::FbDeit3, &["position = \"patches\""]),
    ("timm_vit_registers_with_positions", Layout::TimmLayerScale, &["registers = 2"]),
];

/// A list; where registers have positions these become the zeros that they must be.
fn net(name: &str) -> Net {
    let mut net = Net::read(&format!("small_{name}.tsv"));
    if name.ends_with("with_positions") {
        let width = 16;
        net.tensors.get_mut("pos_embed").unwrap().bytes[4 * width..4 * 3 * width].fill(0);
    }
    net
}

fn open(net: &Net) -> Pretrained {
    net.open().unwrap_or_else(|e| panic!("{e}"))
}

/// The numbers of one of our parameters.
fn numbers(pretrained: &Pretrained, name: &str) -> Vec<f32> {
    let mapped = pretrained.mapped().iter().find(|m| m.name == name).unwrap_or_else(|| panic!("no {name}"));
    mapped.parts.iter().flat_map(|part| part.dtype.to_f32(part.bytes())).collect()
}

fn theirs(net: &Net, key: &str) -> Vec<f32> {
    Dtype::F32.to_f32(&net.tensors[key].bytes)
}

#[test]
fn every_spelling_is_recognised_and_every_element_accounted_for() {
    for (name, layout, lines) in SMALL {
        let net = net(name);
        let pretrained = open(&net);
        assert_eq!(pretrained.layout(), layout, "{name}");
        let list: Vec<(String, Vec<usize>)> = net.tensors.iter().map(|(k, t)| (k.clone(), t.shape.clone())).collect();
        let (mapped, ignored) = elements(&pretrained, &list);
        assert_eq!(mapped + ignored, net.tensors.values().map(Tensor::numel).sum::<usize>(), "{name}");
        let table = pretrained.architecture().model_table().to_string();
        for line in lines {
            assert!(table.lines().any(|found| found == *line), "{name}: no {line} in\n{table}");
        }
    }
}

#[test]
fn queries_keys_and_values_become_one_matrix_in_this_order() {
    let net = net("hf_dinov2");
    let block = "encoder.layer.1.attention.attention";
    for end in ["weight", "bias"] {
        let parts = ["query", "key", "value"].map(|part| theirs(&net, &format!("{block}.{part}.{end}")));
        assert_eq!(numbers(&open(&net), &format!("blocks.01.attention.qkv.{end}")), parts.concat());
    }
}

#[test]
fn a_masked_bias_gives_the_thirds_of_queries_and_values() {
    let net = net("fb_dinov3");
    let bias = theirs(&net, "blocks.1.attn.qkv.bias");
    let pretrained = open(&net);
    assert_eq!(numbers(&pretrained, "blocks.01.attention.qkv.query_bias"), bias[..16]);
    assert_eq!(numbers(&pretrained, "blocks.01.attention.qkv.value_bias"), bias[32..]);
    let key = ("blocks.1.attn.qkv.bias[16..32]".to_owned(), "the key's bias, which bias_mask sets to zero");
    assert!(pretrained.ignored().contains(&key), "{:?}", pretrained.ignored());
}

/// The gate is what goes through silu: the first half where both are in one matrix.
#[test]
fn the_gate_of_every_swiglu_spelling_is_the_half_that_goes_through_silu() {
    for (name, first) in [
        ("timm_vit_swiglu_packed", "blocks.1.mlp.fc1"),
        ("hf_dinov2_swiglu", "encoder.layer.1.mlp.weights_in"),
        ("hf_dinov2_with_registers_swiglu", "encoder.layer.1.mlp.weights_in"),
    ] {
        let net = net(name);
        let packed = theirs(&net, &format!("{first}.weight"));
        let (gate, value) = packed.split_at(packed.len() / 2);
        assert_eq!(numbers(&open(&net), "blocks.01.mlp.gate.weight"), gate, "{name}");
        assert_eq!(numbers(&open(&net), "blocks.01.mlp.fc1.weight"), value, "{name}");
    }
    let mut authors = net("timm_vit_swiglu_packed");
    let mut apart = net("timm_plus_dinov3");
    for block in 0..2 {
        for end in ["weight", "bias"] {
            let key = |name: &str| format!("blocks.{block}.mlp.{name}.{end}");
            authors.rename(&key("fc1"), &key("w12"));
            authors.rename(&key("fc2"), &key("w3"));
            apart.rename(&key("fc1_g"), &key("w1"));
            apart.rename(&key("fc1_x"), &key("w2"));
            apart.rename(&key("fc2"), &key("w3"));
        }
        for gamma in [1, 2] {
            apart.rename(&format!("blocks.{block}.gamma_{gamma}"), &format!("blocks.{block}.ls{gamma}.gamma"));
        }
    }
    let half = theirs(&authors, "blocks.1.mlp.w12.bias");
    assert_eq!(numbers(&open(&authors), "blocks.01.mlp.gate.bias"), half[..half.len() / 2]);
    // DINOv3-7B: gate w1, no biases of queries, keys and values, periods, a norm for local crops.
    apart.rename("reg_token", "storage_tokens");
    apart.tensors.insert("rope_embed.periods".into(), Tensor::f32(&[2], vec![1.0, 10.0]));
    for end in ["weight", "bias"] {
        apart.tensors.insert(format!("local_cls_norm.{end}"), Tensor::f32(&[16], vec![1.0; 16]));
    }
    assert_eq!(open(&apart).layout(), Layout::FbDinov3);
    assert_eq!(numbers(&open(&apart), "blocks.01.mlp.gate.weight"), theirs(&apart, "blocks.1.mlp.w1.weight"));
    assert_eq!(numbers(&open(&apart), "blocks.01.mlp.fc1.weight"), theirs(&apart, "blocks.1.mlp.w2.weight"));
    let hf = net("hf_dinov3_swiglu");
    assert_eq!(numbers(&open(&hf), "blocks.00.mlp.gate.bias"), theirs(&hf, "layer.0.mlp.gate_proj.bias"));
}

#[test]
fn wrapper_prefixes_of_any_kind_are_taken_away() {
    for (name, prefixes) in [
        ("timm_cait", &["module.", "model.", "module.model."][..]),
        ("fb_deit3", &["module.", "backbone.", "teacher.backbone."]),
        ("hf_dinov2", &["dinov2.", "model.dinov2."]),
        ("hf_dinov3", &["model.", "backbone."]),
    ] {
        let plain = open(&net(name));
        for prefix in prefixes {
            let wrapped = open(&net(name).with_prefix(prefix));
            assert_eq!((wrapped.layout(), wrapped.architecture()), (plain.layout(), plain.architecture()), "{prefix}");
            let names = |p: &Pretrained| p.mapped().iter().map(|m| m.name.clone()).collect::<Vec<_>>();
            assert_eq!(names(&wrapped), names(&plain));
            assert!(wrapped.mapped()[0].parts[0].key.starts_with(prefix), "errors name keys as the file has them");
        }
    }
    let two = net("hf_dinov2");
    let mut both = two.with_prefix("student.");
    both.tensors.extend(two.with_prefix("teacher.").tensors);
    assert!(both.refusal().contains("holds 2 networks, under `student.`, `teacher.`"), "{}", both.refusal());
}

#[test]
fn numbered_chunks_and_renamed_gammas_are_understood() {
    let plain = net("fb_dinov2");
    let mut chunked = plain.clone();
    let keys: Vec<String> = plain.tensors.keys().filter(|key| key.starts_with("blocks.")).cloned().collect();
    for key in &keys {
        let block: usize = key.split('.').nth(1).unwrap().parse().unwrap();
        chunked.rename(key, &key.replacen("blocks.", &format!("blocks.{block}."), 1));
    }
    let mut renamed = plain.clone();
    for key in keys.iter().filter(|key| key.ends_with("gamma")) {
        renamed.rename(key, &key.replace("gamma", "weight"));
    }
    for other in [&chunked, &renamed] {
        let (plain, other) = (open(&plain), open(other));
        for m in plain.mapped() {
            assert_eq!(numbers(&other, &m.name), numbers(&plain, &m.name), "{}", m.name);
        }
    }
    let mut flat = net("fb_deit3");
    flat.rename("blocks.0.gamma_1", "blocks.0.weight_1");
    assert_eq!(numbers(&open(&flat), "blocks.00.attention.join.gamma"), theirs(&flat, "blocks.0.weight_1"));
    let mut twice = plain.clone();
    twice.tensors.insert("blocks.0.ls1.weight".into(), plain.tensors["blocks.0.ls1.gamma"].clone());
    assert!(twice.refusal().contains("blocks.0.ls1.gamma and blocks.0.ls1.weight are two tensors for one place"));
}

#[test]
fn half_precision_is_read_as_it_is_and_by_its_value() {
    for dtype in Dtype::ALL {
        let mut net = net("hf_dinov3");
        for tensor in net.tensors.values_mut() {
            tensor.bytes = dtype.of_f32(&vec![0.5; tensor.numel()]);
            tensor.dtype = dtype.name();
        }
        let pretrained = open(&net);
        assert!(pretrained.mapped().iter().flat_map(|m| &m.parts).all(|part| part.dtype == dtype));
        assert!(numbers(&pretrained, "norm.weight").iter().all(|x| *x == 0.5));
    }
}

#[test]
fn a_runs_own_checkpoint_gives_its_last_weights_unless_others_are_asked_for() {
    let names = [("class_token", &[1, 1, 16][..]), ("position", &[1, 5, 16]), ("patch_embed.weight", &[16, 16])];
    let mut list: Vec<(String, Vec<usize>)> = names.map(|(name, shape)| (name.to_owned(), shape.to_vec())).to_vec();
    for block in 0..2 {
        for (name, shape) in [
            ("attention.norm.weight", &[16][..]),
            ("attention.qkv.weight", &[48, 16]),
            ("attention.qkv.bias", &[48]),
            ("attention.out.weight", &[16, 16]),
            ("mlp.fc1.weight", &[32, 16]),
            ("mlp.fc1.bias", &[32]),
            ("mlp.fc2.weight", &[16, 32]),
            ("mlp.gate_of_some_strategy", &[7]),
        ] {
            list.push((format!("blocks.{block:02}.{name}"), shape.to_vec()));
        }
    }
    let weights = Net::of(&list);
    let mut run = weights.with_prefix("model/");
    run.tensors.extend(Net::of(&list[..1]).with_prefix("ema/").tensors);
    run.tensors.insert("optim/step".into(), Tensor { dtype: "I64", shape: vec![], bytes: vec![0; 8] });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("checkpoint.safetensors"), run.bytes()).unwrap();
    let config = "[model]\nkind = \"vit\"\nnum_heads = 2\npool = \"class\"\nnorm_eps = 1e-6\n";
    std::fs::write(folder.path().join("config.toml"), config).unwrap();
    let pretrained = Pretrained::open(folder.path()).unwrap();
    assert_eq!(pretrained.layout(), Layout::Reslab);
    assert_eq!(pretrained.mapped().len(), list.len());
    assert_eq!(numbers(&pretrained, "position"), theirs(&weights, "position"));
    let network = pretrained.architecture();
    assert_eq!((network.depth, network.channels, network.patch_size, network.positions), (2, 1, 4, 4));
    assert_eq!((network.num_heads, network.norm_eps), (Some(2), Some(1e-6)));
    assert_eq!(pretrained.ignored().len(), 2, "{:?}", pretrained.ignored());
    let best = Pretrained::open_weights(folder.path(), Weights::Best).unwrap_err().to_string();
    assert!(best.contains("no `best/` weights"), "{best}");
    assert!(net("hf_dinov2").open().is_ok());
    let file = folder.path().join("model.safetensors");
    std::fs::write(&file, net("hf_dinov2").bytes()).unwrap();
    let ema = Pretrained::open_weights(&file, Weights::Ema).unwrap_err().to_string();
    assert!(ema.contains("`ema` weights are only in a run's own checkpoint"), "{ema}");
}
