//! Checkpoints: header lengths, shapes and offsets that lie.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use reslab_record::{CHECKPOINT_FILE, Checkpoint, Dtype, NamedTensor};

use super::allocation::peak_of;
use super::cases;

/// Reads bytes as a checkpoint; memory stays within a multiple of theirs. The JSON of a header grows as it is
/// parsed: a number of two bytes (`0,`) becomes one of 8, in a list that doubles as it grows.
fn read(bytes: &[u8]) -> Option<Checkpoint> {
    let (read, peak) = peak_of(|| Checkpoint::decode(Path::new("x"), bytes));
    let most = 16 * bytes.len() + (64 << 10);
    assert!(peak <= most, "{} bytes took {peak}: {read:?}", bytes.len());
    let error = read.as_ref().err().map(ToString::to_string).unwrap_or_else(|| "x: ".to_owned());
    assert!(error.starts_with("x: "), "{error}");
    read.ok()
}

/// Numbers that a header may be wrong by.
fn number() -> impl Strategy<Value = u64> {
    let odd = [0, 1, 2, 8, 24, 1 << 31, 1 << 32, 1 << 40, 1 << 62, 1 << 63, u64::MAX - 8, u64::MAX];
    prop_oneof![0..64_u64, proptest::sample::select(odd.to_vec()), any::<u64>()]
}

/// The text of a header, its keys right and its values anything.
fn header() -> impl Strategy<Value = String> {
    let dtype = proptest::sample::select(vec!["F32", "F64", "I64", "U8", "BF16", "F4", ""]);
    let entry = (dtype, vec(number(), 0..4), number(), number()).prop_map(|(dtype, shape, start, end)| {
        format!("{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{start},{end}]}}")
    });
    let meta = r#""__metadata__":{"reslab_format":"1","step":"3","config_sha256":"c","sha256":"0"}"#;
    vec(("[a-c]{1,2}", entry), 0..4).prop_map(move |entries| {
        let tensors: Vec<String> = entries.iter().map(|(name, entry)| format!(",\"{name}\":{entry}")).collect();
        format!("{{{meta}{}}}", tensors.concat())
    })
}

fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    let dtype = proptest::sample::select(vec![Dtype::F32, Dtype::F64, Dtype::I64, Dtype::U8]);
    let tensor = (dtype, vec(0..4_usize, 0..4), any::<u8>()).prop_map(|(dtype, shape, fill)| {
        let bytes = vec![fill; dtype.size() * shape.iter().product::<usize>()];
        NamedTensor { name: String::new(), dtype, shape, bytes }
    });
    let tensors = btree_map(any::<String>().prop_filter("the format's own key", |n| n != "__metadata__"), tensor, 0..6);
    let meta = btree_map("[a-z\"\u{e9}]{0,4}", any::<String>(), 0..3);
    (any::<u64>(), any::<String>(), meta, tensors).prop_map(|(step, config_hash, meta, tensors)| {
        let tensors = tensors.into_iter().map(|(name, tensor)| NamedTensor { name, ..tensor }).collect();
        Checkpoint { step, config_hash, meta, tensors }
    })
}

fn written(checkpoint: &Checkpoint) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    checkpoint.write(dir.path()).unwrap();
    std::fs::read(dir.path().join(CHECKPOINT_FILE)).unwrap()
}

fn sorted(mut checkpoint: Checkpoint) -> Checkpoint {
    checkpoint.tensors.sort_by(|a, b| b.dtype.size().cmp(&a.dtype.size()).then_with(|| a.name.cmp(&b.name)));
    checkpoint
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn any_bytes_are_refused_without_panic(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(read(&bytes), None);
    }

    #[test]
    fn a_header_that_lies_about_its_length_is_refused(length in number(), text in header(), rest in 0..40_usize) {
        let bytes = [&length.to_le_bytes()[..], text.as_bytes(), &vec![7; rest]].concat();
        prop_assert_eq!(read(&bytes), None);
    }

    #[test]
    fn shapes_and_offsets_that_lie_are_refused(text in header(), data in vec(any::<u8>(), 0..40)) {
        let bytes = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), &data].concat();
        // The checksum of none of them is "0".
        prop_assert_eq!(read(&bytes), None);
    }

    #[test]
    fn a_checkpoint_comes_back_as_it_was(checkpoint in checkpoint()) {
        prop_assert_eq!(read(&written(&checkpoint)), Some(sorted(checkpoint)));
    }

    #[test]
    fn a_changed_checkpoint_is_refused_or_reads_as_the_same(
        checkpoint in checkpoint(), at in any::<prop::sample::Index>(), with in vec(any::<u8>(), 1..9)
    ) {
        let mut bytes = written(&checkpoint);
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + with.len());
        bytes[at..end].copy_from_slice(&with[..end - at]);
        if let Some(read) = read(&bytes) {
            prop_assert_eq!(read, sorted(checkpoint));
        }
    }
}

/// The safetensors crate 0.8 adds the ends of the data up unchecked: this header makes it panic where overflow is checked.
#[test]
fn offsets_at_the_end_of_all_numbers_are_refused() {
    let size = (1_u64 << 61) - 1;
    let entry = |i: u64| {
        let (start, end) = (i * size, (i + 1) * size);
        format!(",\"{i}\":{{\"dtype\":\"U8\",\"shape\":[{size}],\"data_offsets\":[{start},{end}]}}")
    };
    let meta = r#""__metadata__":{"reslab_format":"1","step":"3","config_sha256":"c","sha256":"0"}"#;
    let text = format!("{{{meta}{}}}", (0..8).map(entry).collect::<String>());
    let bytes = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    assert_eq!(read(&bytes), None);
    let theirs = std::panic::catch_unwind(|| safetensors::SafeTensors::deserialize(&bytes).is_ok());
    assert!(theirs.is_err(), "it does not panic any more: say so in decode.rs, and take it again");
}

/// As many numbers as a header of a size can hold: the largest growth from bytes to memory.
#[test]
fn a_header_of_nothing_but_zeros_and_names_takes_a_multiple_of_its_bytes() {
    let meta = r#""__metadata__":{"reslab_format":"1","step":"3","config_sha256":"c","sha256":"0"}"#;
    let zeros = "0,".repeat(50_000) + "0";
    let long = format!("{{{meta},\"a\":{{\"dtype\":\"U8\",\"shape\":[{zeros}],\"data_offsets\":[0,0]}}}}");
    let entry = |i: u32| format!(",\"{i:x}\":{{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    let many = format!("{{{meta}{}}}", (0..5000).map(entry).collect::<String>());
    for text in [long, many, "[".repeat(100_000), format!("{{\"a\":{}", "{\"b\":".repeat(50_000))] {
        let bytes = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        assert_eq!(read(&bytes), None);
    }
    let names: BTreeMap<String, String> = (0..2000).map(|i| (format!("{i}"), String::new())).collect();
    let checkpoint = Checkpoint { meta: names, ..Checkpoint::default() };
    assert_eq!(read(&written(&checkpoint)), Some(checkpoint));
}
