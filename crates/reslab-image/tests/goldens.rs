//! Against Pillow, torchvision and timm: `golden/make_golden.py` made the files.

use std::path::{Path, PathBuf};

use reslab_image::resize_plane;
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden() -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder().join("golden.json")).unwrap()).unwrap()
}

fn number(value: &Value) -> u32 {
    value.as_u64().unwrap() as u32
}

fn bytes(value: &Value) -> Vec<u8> {
    value.as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// The largest difference of two bytes.
fn distance(left: &[u8], right: &[u8]) -> u8 {
    assert_eq!(left.len(), right.len());
    left.iter().zip(right).map(|(l, r)| l.abs_diff(*r)).max().unwrap()
}

/// Equal to the byte; a resize that takes the nearest pixel is off by far more.
#[test]
fn planes_are_resized_as_by_pillow() {
    for case in list(&golden()["planes"]) {
        let (side, size) = (number(&case["side"]), number(&case["size"]));
        let (source, expected) = (bytes(&case["source"]), bytes(&case["expected"]));
        let found = resize_plane(&source, (side, side), (size, size));
        assert_eq!(distance(&found, &expected), 0, "{side} to {size}");
        let at = |nth: u32| nth * side / size;
        let nearest: Vec<u8> =
            (0..size * size).map(|nth| source[(at(nth / size) * side + at(nth % size)) as usize]).collect();
        assert!(distance(&nearest, &expected) > 10, "negative control");
    }
}
