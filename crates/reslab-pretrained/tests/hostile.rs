//! Files that lie, and arbitrary ones: no panic, no memory beyond a multiple of the file's own size, and what opens is
//! accounted for. Cases are the same in every run; more of them: `fuzz/`.

#[path = "../../reslab-record/tests/hostile/allocation.rs"]
mod allocation;
mod support;

use std::path::Path;

use allocation::peak_of;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use reslab_pretrained::{Pretrained, PretrainedError};
use support::{Net, Tensor};

const LISTS: [&str; 8] = [
    "timm_vit_swiglu_packed",
    "timm_vit_registers_with_positions",
    "timm_cait",
    "timm_plus_dinov3",
    "hf_dinov2_classifier",
    "hf_dinov3_swiglu",
    "fb_dinov3",
    "fb_deit3",
];

/// Opens bytes; memory stays within a multiple of theirs, and errors name the file. A key of the header becomes one in
/// the words of its family, and a block's table names some twenty keys and parameters for every six that there must be.
fn open(bytes: Vec<u8>) -> Result<Pretrained, PretrainedError> {
    let most = 64 * bytes.len() + (256 << 10);
    let length = bytes.len();
    let (opened, peak) = peak_of(|| Pretrained::decode(Path::new("x"), bytes));
    assert!(peak <= most, "{length} bytes took {peak}");
    match &opened {
        Ok(pretrained) => {
            for mapped in pretrained.mapped() {
                let numel: usize = mapped.parts.iter().map(|part| part.numel()).sum();
                let bytes: usize = mapped.parts.iter().map(|part| part.bytes().len() / part.dtype.size()).sum();
                assert_eq!((mapped.shape.iter().product::<i64>() as usize, bytes), (numel, numel), "{}", mapped.name);
            }
        }
        Err(error) => assert!(error.to_string().starts_with("x: "), "{error}"),
    }
    opened
}

/// What may be done to one tensor of a file.
#[derive(Debug, Clone)]
enum Damage {
    Remove,
    Rename(String),
    Shape(Vec<usize>),
    Type(&'static str),
    Copy(String),
}

fn key() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(vec![
        "blocks",
        "0",
        "1",
        "7",
        "18446744073709551615",
        "99999999999999999999999",
        "attn",
        "qkv",
        "weight",
        "bias",
        "gamma_1",
        "ls1",
        "gamma",
        "mlp",
        "w12",
        "fc1_g",
        "gate_proj",
        "norm",
        "head",
        "pos_embed",
        "cls_token",
        "",
        "blocks_token_only",
        "encoder",
        "layer",
        "embeddings",
        "mask_token",
        "model",
        "dist_token",
        "fc_norm",
    ]);
    vec(part, 0..5).prop_map(|parts| parts.join("."))
}

fn damage() -> impl Strategy<Value = Damage> {
    let size = proptest::sample::select(vec![0_usize, 1, 2, 3, 4, 15, 16, 17, 32, 48, 64]);
    prop_oneof![
        Just(Damage::Remove),
        key().prop_map(Damage::Rename),
        vec(size, 0..5).prop_map(Damage::Shape),
        proptest::sample::select(vec!["I64", "U8", "BF16", "F64", "F8_E4M3", "F4", "BOOL"]).prop_map(Damage::Type),
        key().prop_map(Damage::Copy),
    ]
}

fn apply(net: &mut Net, at: prop::sample::Index, damage: Damage) {
    let Some(key) = net.tensors.keys().nth(at.index(net.tensors.len().max(1))).cloned() else { return };
    let bytes = |dtype: &str| match dtype {
        "I64" | "F64" => 8,
        "F32" => 4,
        "BF16" => 2,
        _ => 1,
    };
    match damage {
        Damage::Remove => drop(net.tensors.remove(&key)),
        Damage::Rename(to) => net.rename(&key, &to),
        Damage::Copy(to) => drop(net.tensors.insert(to, net.tensors[&key].clone())),
        Damage::Shape(shape) => {
            let zeros = vec![0.0; shape.iter().product()];
            net.tensors.insert(key, Tensor::f32(&shape, zeros));
        }
        Damage::Type(dtype) => {
            let tensor = net.tensors.get_mut(&key).unwrap();
            tensor.bytes = vec![0; tensor.numel() * bytes(dtype)];
            tensor.dtype = dtype;
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 300, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_bytes_are_refused_without_panic(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(open(bytes).is_err());
    }

    #[test]
    fn a_network_with_damages_opens_as_another_or_is_refused(
        list in proptest::sample::select(LISTS.to_vec()),
        damages in vec((any::<prop::sample::Index>(), damage()), 0..4),
    ) {
        let mut net = Net::read(&format!("small_{list}.tsv"));
        for (at, damage) in damages {
            apply(&mut net, at, damage);
        }
        let _ = open(net.bytes());
    }

    #[test]
    fn a_header_with_other_bytes_in_it_is_read_or_refused(
        list in proptest::sample::select(LISTS.to_vec()),
        at in any::<prop::sample::Index>(),
        with in vec(any::<u8>(), 1..9),
    ) {
        let mut bytes = Net::read(&format!("small_{list}.tsv")).bytes();
        let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let at = at.index(header);
        bytes[at..at + with.len()].copy_from_slice(&with);
        let _ = open(bytes);
    }
}

/// As many blocks as a header of a size can name, each with as few tensors as are let through.
#[test]
fn many_blocks_of_few_tensors_take_no_more_than_their_share() {
    let mut net = Net::read("small_timm_vit.tsv");
    let norm = Tensor::f32(&[1], vec![0.0]);
    for block in 0..1000 {
        for end in ["a", "b", "c", "d", "e", "f"] {
            net.tensors.insert(format!("blocks.{block}.{end}"), norm.clone());
        }
    }
    let error = open(net.bytes()).unwrap_err().to_string();
    assert!(error.contains("unknown keys, that no parameter takes (6000)"), "{error}");
    for block in 1000..100_000 {
        net.tensors.insert(format!("blocks.{block}.a"), norm.clone());
    }
    let error = open(net.bytes()).unwrap_err().to_string();
    assert!(error.contains("numbers its blocks up to 99999, but has only"), "{error}");
}
