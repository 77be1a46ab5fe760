//! File -> ours -> file: the same keys, types, shapes and bytes; and what is written for parameters that are not there.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use reslab_pretrained::{
    Architecture, Layout, Position, Pretrained, PretrainedError, QkvBias, Target, Weight, fold_gamma, python_line,
    write,
};
use support::{Net, Tensor};

/// A small list; tensors that no parameter takes are zeros, since that is what is written for them.
fn net(name: &str) -> Net {
    let mut net = Net::read(&format!("small_{name}.tsv"));
    for (key, tensor) in &mut net.tensors {
        if key.ends_with("mask_token") {
            tensor.bytes.fill(0);
        }
    }
    if name.ends_with("with_positions") {
        net.tensors.get_mut("pos_embed").unwrap().bytes[4 * 16..4 * 48].fill(0);
    }
    net.metadata.insert("reslab.num_heads".into(), "2".into());
    net
}

fn weights(pretrained: &Pretrained) -> Vec<Weight<'_>> {
    pretrained.mapped().iter().map(|mapped| Weight::of_mapped(mapped).expect("one type")).collect()
}

/// The tensors of a file, by key.
fn tensors(path: &Path) -> BTreeMap<String, Tensor> {
    let bytes = std::fs::read(path).unwrap();
    let (header, data) = reslab_record::split_safetensors(&bytes).unwrap();
    let tensor = |entry: reslab_record::TensorEntry| Tensor {
        dtype: if entry.dtype == "F32" { "F32" } else { "BF16" },
        shape: entry.shape,
        bytes: data[entry.data_offsets.0..entry.data_offsets.1].to_vec(),
    };
    header.tensors.into_iter().map(|(key, entry)| (key, tensor(entry))).collect()
}

const WRITTEN: [&str; 20] = [
    "timm_vit",
    "timm_vit_avg",
    "timm_vit_avg_no_class",
    "timm_vit_registers_pre_norm",
    "timm_vit_registers_with_positions",
    "timm_vit_swiglu_packed",
    "timm_cait",
    "timm_dinov3",
    "timm_dinov3_qkvb",
    "timm_plus_dinov3",
    "hf_dinov2",
    "hf_dinov2_swiglu",
    "hf_dinov2_no_qkv_bias",
    "hf_dinov2_classifier",
    "hf_dinov2_with_registers",
    "hf_dinov2_with_registers_classifier",
    "hf_dinov2_with_registers_swiglu",
    "hf_dinov3",
    "hf_dinov3_swiglu",
    "hf_dinov3_no_registers_key_bias",
];

#[test]
fn every_layout_that_is_written_comes_back_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for name in WRITTEN {
        for dtype in ["F32", "BF16"] {
            let mut net = net(name);
            if dtype == "BF16" {
                for tensor in net.tensors.values_mut() {
                    let upper = tensor.bytes.chunks(4).flat_map(|single| single[2..].to_vec()).collect();
                    *tensor = Tensor { dtype, shape: tensor.shape.clone(), bytes: upper };
                }
            }
            let read = net.open().unwrap_or_else(|e| panic!("{name}: {e}"));
            let path = folder.path().join("model.safetensors");
            let target = if name.starts_with("hf") { Target::Hf } else { Target::Timm };
            let layout = target.layout(read.architecture()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(layout, read.layout(), "{name}");
            write(&path, layout, read.architecture(), weights(&read)).unwrap_or_else(|e| panic!("{name}: {e}"));
            let written = tensors(&path);
            assert_eq!(written.keys().collect::<Vec<_>>(), net.tensors.keys().collect::<Vec<_>>(), "{name}");
            for (key, tensor) in &net.tensors {
                assert!(written[key] == *tensor, "{name}: {key} is {:?}", written[key].shape);
            }
            let again = Pretrained::open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(again.architecture(), read.architecture(), "{name}");
            let _ = std::fs::remove_file(folder.path().join("config.json"));
        }
    }
}

fn zeros(weight: &Weight) -> bool {
    weight.bytes.iter().all(|byte| *byte == 0)
}

#[test]
fn what_a_network_lacks_is_written_so_that_the_function_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    // DINOv3's missing key bias is zeros in timm's ViT, which has the whole bias or none.
    let read = net("timm_dinov3_qkvb").open().unwrap();
    let network = Architecture { position: Position::None, ..read.architecture().clone() };
    let layout = Target::Timm.layout(&network).unwrap();
    write(&path, layout, &network, weights(&read)).unwrap();
    let again = Pretrained::open(&path).unwrap();
    assert_eq!((again.layout(), again.architecture().qkv_bias), (Layout::TimmVit, QkvBias::Yes));
    let bias = &tensors(&path)["blocks.1.attn.qkv.bias"].bytes;
    assert!(bias[64..128].iter().all(|byte| *byte == 0) && bias[..64].iter().any(|byte| *byte != 0));

    // A plain network gets a gamma of ones, a head that reads the class token alone zeros for the mean.
    let read = net("timm_vit").open().unwrap();
    let layout = Target::Hf.layout(read.architecture()).unwrap();
    write(&path, layout, read.architecture(), weights(&read)).unwrap();
    let written = tensors(&path);
    assert!(written["dinov2.encoder.layer.0.layer_scale1.lambda1"].bytes.chunks(4).all(|x| x == 1.0_f32.to_le_bytes()));
    let head = &written["classifier.weight"];
    assert_eq!(head.shape, [3, 32]);
    assert!(head.bytes.chunks(64).skip(1).step_by(2).all(|mean| mean.iter().all(|byte| *byte == 0)));
    let again = Pretrained::open(&path).unwrap();
    assert_eq!(again.layout(), Layout::HfDinov2);
    let found = weights(&again);
    for weight in weights(&read).iter().filter(|w| w.name != "head.weight") {
        assert_eq!(found.iter().find(|w| w.name == weight.name), Some(weight));
        assert!(!zeros(weight));
    }
    let config = std::fs::read_to_string(folder.path().join("config.json")).unwrap();
    assert!(config.contains("\"mlp_ratio\": 2") && config.contains("Dinov2ForImageClassification"), "{config}");
}

#[test]
fn a_folded_gamma_is_gone_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let read = net("timm_vit_registers_pre_norm").open().unwrap();
    let network = Architecture { gamma: false, ..read.architecture().clone() };
    write(&path, Target::Timm.layout(&network).unwrap(), &network, fold_gamma(weights(&read))).unwrap();
    let again = Pretrained::open(&path).unwrap();
    assert_eq!((again.layout(), again.architecture().gamma), (Layout::TimmVit, false));
    let lines = python_line(&path, again.layout(), again.architecture());
    assert!(lines.contains("reg_tokens=4") && !lines.contains("init_values"), "{lines}");
}

#[test]
fn weights_without_a_place_and_places_without_weights_are_listed_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let read = net("timm_vit").open().unwrap();
    let mut weights = weights(&read);
    weights[3].name = "blocks.00.attention.join.gate".to_owned();
    let shape = weights[5].shape.clone();
    weights[5].shape.push(1);
    let lost = read.mapped()[3].name.clone();
    let error = write(&path, Layout::TimmVit, read.architecture(), weights).unwrap_err();
    let PretrainedError::Keys(report) = &error else { panic!("{error}") };
    assert_eq!(report.unknown, [("blocks.00.attention.join.gate".to_owned(), None)]);
    assert!(report.missing[0].starts_with(&lost) && report.missing.len() == 1, "{report}");
    assert_eq!(report.shapes[0].expected, shape);
    assert!(!path.exists(), "nothing is written");
    let error = write(&path, Layout::FbDinov2, read.architecture(), []).unwrap_err().to_string();
    assert_eq!(error, "the layout `fb dinov2` can't hold this network: it is read, but not written");
}
