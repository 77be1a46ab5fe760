//! Against Pillow, torchvision and timm: `golden/make_golden.py` made the files.

use std::path::{Path, PathBuf};

use reslab_image::{Op, Region, Rgb, Strength, read, resize_plane};
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

fn picture(name: &Value) -> Rgb {
    read(&folder().join(name.as_str().unwrap())).unwrap()
}

/// Equal to the byte, whatever the part and however much it grows or shrinks; but for a part that Pillow 13 resizes along the columns first,
/// which rounds the bytes in between otherwise.
#[test]
fn parts_are_resized_as_by_torchvision() {
    let photo = read(&folder().join("photo.png")).unwrap();
    for case in list(&golden()["resized"]) {
        let [top, left, height, width] = [0, 1, 2, 3].map(|nth| number(&case["region"][nth]));
        let (size, expected) = (number(&case["size"]), picture(&case["file"]));
        let part = Region { top, left, height, width };
        let found = photo.resized(part, size, size);
        let allowed = u8::from(!case["rows_first"].as_bool().unwrap());
        assert!(distance(found.pixels(), expected.pixels()) <= allowed, "{part:?} to {size}");
        let beside = Region { top: 48 - height, left: 63 - width.min(63), ..part };
        if part != photo.region() {
            let other = photo.resized(beside, size, size);
            assert!(distance(other.pixels(), expected.pixels()) > 50, "negative control: another part");
        }
    }
}

#[test]
fn an_evaluation_sees_what_timm_shows_it() {
    for case in list(&golden()["evaluation"]) {
        let (source, expected) = (picture(&case["source"]), picture(&case["file"]));
        let (size, ratio) = (number(&case["size"]), case["crop_ratio"].as_f64().unwrap());
        let found = source.centre(size, ratio);
        assert_eq!((found.width(), found.height()), (size, size));
        assert_eq!(distance(found.pixels(), expected.pixels()), 0, "{case}");
        let other = source.centre(size, ratio - 0.1);
        assert!(distance(other.pixels(), expected.pixels()) > 20, "negative control: another crop ratio");
    }
}

/// Files in which nothing is lost, and WebP, are read as Pillow reads them, to the byte. A JPEG's transform is rounded and its chroma stretched,
/// each in a way that the standard leaves to the decoder: a byte may differ by 3, and by half a level on average.
#[test]
fn every_format_and_mode_is_read_as_by_pillow() {
    let all = read(&folder().join("decoded.png")).unwrap();
    for (nth, name) in list(&golden()["files"]).iter().enumerate() {
        let found = picture(name);
        assert_eq!((found.width(), found.height()), (45, 37), "{name}");
        let expected = all.crop(Region { top: 37 * nth as u32, left: 0, height: 37, width: 45 });
        let sum: u64 = found.pixels().iter().zip(expected.pixels()).map(|(l, r)| u64::from(l.abs_diff(*r))).sum();
        let (largest, mean) = (distance(found.pixels(), expected.pixels()), sum as f64 / found.pixels().len() as f64);
        let is_jpeg = name.as_str().unwrap().ends_with("jpg");
        let (allowed, on_average) = if is_jpeg { (3, 0.5) } else { (0, 0.0) };
        assert!(largest <= allowed && mean <= on_average, "{name}: {largest}, {mean}");
        let shifted = all.crop(Region { top: 37 * nth as u32, left: 0, height: 37, width: 44 });
        let cut = found.crop(Region { top: 0, left: 1, height: 37, width: 44 });
        assert!(distance(cut.pixels(), shifted.pixels()) > 30, "negative control: one pixel beside {name}");
    }
}

/// Every operation at four magnitudes, with both signs, in both lists of timm.
#[test]
fn operations_are_those_of_timm() {
    let golden = golden();
    let fill: [u8; 3] = bytes(&golden["fill"]).try_into().unwrap();
    let source = read(&folder().join("op_source.png")).unwrap();
    let all = read(&folder().join("operations.png")).unwrap();
    let (width, height) = (source.width(), source.height());
    let kept = all.height() / height;
    let image = |nth: u32| all.crop(Region { top: height * nth, left: 0, height, width });
    for case in list(&golden["operations"]) {
        let strength = Strength {
            magnitude: case["magnitude"].as_f64().unwrap(),
            negative: case["negative"].as_bool().unwrap(),
            increasing: case["increasing"].as_bool().unwrap(),
        };
        let op = Op::of(number(&case["op"]) as usize, strength);
        let (found, nth) = (source.clone().altered(op, fill), number(&case["image"]));
        assert_eq!(distance(found.pixels(), image(nth).pixels()), 0, "{case} {op:?}");
        // Negative control: the next one, which is the other sign, another magnitude or another operation.
        assert_ne!(found, image((nth + 1) % kept), "{case}");
    }
    assert!(kept > 60 && list(&golden["operations"]).len() == 2 * 15 * 4 * 2, "{kept} different images");
}

#[test]
fn histograms_of_few_entries_are_left_as_pillow_leaves_them() {
    for case in list(&golden()["equal_pixels"]) {
        let op = if case["name"] == "Equalize" { Op::Equalize } else { Op::AutoContrast };
        let source = Rgb::new(4, 3, bytes(&case["source"]));
        assert_eq!(source.altered(op, [0; 3]).pixels(), bytes(&case["expected"]), "{case}");
    }
}
