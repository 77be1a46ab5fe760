//! Checkpoints in several files, and indexes that lie about them.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use reslab_pretrained::Pretrained;
use support::Net;

/// Writes a network as two shards; gives the index.
fn shards(folder: &Path, net: &Net) -> BTreeMap<String, String> {
    let mut parts = [Net::default(), Net::default()];
    let mut index = BTreeMap::new();
    for (at, (key, tensor)) in net.tensors.iter().enumerate() {
        parts[at % 2].tensors.insert(key.clone(), tensor.clone());
        index.insert(key.clone(), name(at % 2));
    }
    for (at, part) in parts.iter().enumerate() {
        std::fs::write(folder.join(name(at)), part.bytes()).unwrap();
    }
    index
}

fn name(shard: usize) -> String {
    format!("model-0000{}-of-00002.safetensors", shard + 1)
}

fn write_index(folder: &Path, index: &BTreeMap<String, String>) {
    let text = serde_json::json!({"metadata": {"total_size": 1}, "weight_map": index}).to_string();
    std::fs::write(folder.join("model.safetensors.index.json"), text).unwrap();
}

#[test]
fn shards_are_one_network() {
    let folder = tempfile::tempdir().unwrap();
    let net = Net::read("small_hf_dinov2.tsv");
    let index = shards(folder.path(), &net);
    write_index(folder.path(), &index);
    let whole = net.open().unwrap();
    let sharded = Pretrained::open(folder.path()).unwrap();
    assert_eq!(sharded.architecture(), whole.architecture());
    for (one, two) in sharded.mapped().iter().zip(whole.mapped()) {
        assert_eq!(one.name, two.name);
        let bytes =
            |m: &reslab_pretrained::Mapped| m.parts.iter().flat_map(|p| p.bytes().to_vec()).collect::<Vec<u8>>();
        assert_eq!(bytes(one), bytes(two), "{}", one.name);
    }
    assert_eq!(sharded.sha256().len(), 64);
    assert_ne!(sharded.sha256(), whole.sha256());
    let by_index = Pretrained::open(&folder.path().join("model.safetensors.index.json")).unwrap();
    assert_eq!(by_index.sha256(), sharded.sha256());
}

#[test]
fn a_wrong_index_is_refused_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let index = shards(folder.path(), &Net::read("small_hf_dinov2.tsv"));
    let key = "layernorm.bias";
    let right = index[key].clone();
    let other = name(usize::from(right == name(0)));
    let refusal = |change: &dyn Fn(&mut BTreeMap<String, String>)| {
        let mut index = index.clone();
        change(&mut index);
        write_index(folder.path(), &index);
        Pretrained::open(folder.path()).unwrap_err().to_string()
    };
    for (text, says) in [
        (
            refusal(&|i| drop(i.insert(key.into(), other.clone()))),
            format!("says that {key} is in {other}, but it is in {right}"),
        ),
        (
            refusal(&|i| drop(i.insert("ghost".into(), other.clone()))),
            format!("says that ghost is in {other}, but no shard"),
        ),
        (refusal(&|i| drop(i.remove(key))), format!("does not name {key}, which is in {right}")),
        (
            refusal(&|i| drop(i.insert(key.into(), "../x.safetensors".into()))),
            "must be the name of a file beside".into(),
        ),
        (refusal(&|i| drop(i.insert(key.into(), "/etc/passwd".into()))), "must be the name of a file beside".into()),
        (
            refusal(&|i| drop(i.insert(key.into(), "gone.safetensors".into()))),
            "names a shard that can't be read".into(),
        ),
    ] {
        assert!(text.contains(&says), "no {says:?} in {text}");
    }
}

#[test]
fn a_tensor_in_two_shards_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let net = Net::read("small_hf_dinov2.tsv");
    let index = shards(folder.path(), &net);
    write_index(folder.path(), &index);
    std::fs::write(folder.path().join(name(1)), net.bytes()).unwrap();
    let error = Pretrained::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("stands in another file too"), "{error}");
    std::fs::write(folder.path().join("model.safetensors.index.json"), "{}").unwrap();
    let error = Pretrained::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("is no index of shards"), "{error}");
}
