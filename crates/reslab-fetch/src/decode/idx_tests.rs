use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::*;

/// 7 images of 2 rows and 3 columns with 4 classes.
const SHAPE: DataShape = DataShape { channels: 1, height: 2, width: 3, classes: 4, train_images: 7, test_images: 2 };

fn images(count: u32) -> Vec<u8> {
    let header = [IMAGES, count, 2, 3].map(u32::to_be_bytes).concat();
    header.into_iter().chain((0..count * 6).map(|byte| byte as u8)).collect()
}

fn labels(count: u32) -> Vec<u8> {
    let header = [LABELS, count].map(u32::to_be_bytes).concat();
    header.into_iter().chain((0..count).map(|nth| (nth % 4) as u8)).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Writes the pair and reads it as the training part.
fn read_pair(images: &[u8], labels: &[u8]) -> Result<RawPart, DecodeError> {
    let dir = TempDir::new().expect("a folder");
    let (images_file, labels_file) = (dir.path().join("images"), dir.path().join("labels"));
    fs::write(&images_file, images).expect("written");
    fs::write(&labels_file, labels).expect("written");
    idx_part(Source::open(&images_file)?, Source::open(&labels_file)?, (&SHAPE, SHAPE.train_images))
}

#[track_caller]
fn refused(images: &[u8], labels: &[u8], parts: &[&str]) {
    let error = read_pair(images, labels).expect_err("refused").to_string();
    for part in parts {
        assert!(error.contains(part), "{error} lacks {part:?}");
    }
}

/// `bytes` with those at `offset` replaced.
fn with(mut bytes: Vec<u8>, offset: usize, new: &[u8]) -> Vec<u8> {
    bytes[offset..offset + new.len()].copy_from_slice(new);
    bytes
}

#[test]
fn a_good_pair_is_read_gzip_or_plain() {
    let expected = RawPart { pixels: (0..42).collect(), labels: vec![0, 1, 2, 3, 0, 1, 2] };
    let (images, labels) = (images(7), labels(7));
    assert_eq!(read_pair(&images, &labels).expect("plain"), expected);
    assert_eq!(read_pair(&gzip(&images), &labels).expect("one is gzip"), expected);
    assert_eq!(read_pair(&gzip(&images), &gzip(&labels)).expect("gzip"), expected);
}

#[test]
fn the_four_files_are_told_apart_by_their_names() {
    let dir = TempDir::new().expect("a folder");
    let write = |name: &str, bytes: Vec<u8>| {
        fs::write(dir.path().join(name), bytes).expect("written");
        dir.path().join(name)
    };
    let files = vec![
        write("t10k-labels-idx1-ubyte", labels(2)),
        write("train-images-idx3-ubyte.gz", gzip(&images(7))),
        write("train-labels-idx1-ubyte", labels(7)),
        write("t10k-images-idx3-ubyte", images(2)),
    ];
    let set = read(&SHAPE, &files).expect("four good files");
    assert_eq!((set.train.labels.len(), set.test.labels.len()), (7, 2));
    let error = read(&SHAPE, &files[1..]).expect_err("three files").to_string();
    assert!(error.contains("no file t10k-labels"), "{error}");
    let error = read(&SHAPE, &[dir.path().join("train-images"), dir.path().join("train-labels")]).expect_err("nowhere");
    assert!(error.to_string().contains("train-images: byte 0: can't be read"), "{error}");
}

#[test]
fn a_file_cut_anywhere_is_refused_at_the_byte_where_it_ends() {
    let (images, labels) = (images(7), labels(7));
    for end in 0..images.len() {
        let what = if end < 16 { "header" } else { "pixels" };
        refused(&images[..end], &labels, &[&format!("images: byte {end}: the file ends here"), what]);
    }
    for end in 0..labels.len() {
        refused(&images, &labels[..end], &[&format!("labels: byte {end}: the file ends here")]);
    }
    let missing = format!("{} bytes before the end of its pixels", 42 - 4);
    refused(&images[..20], &labels, &[&missing]);
}

#[test]
fn a_gzip_file_cut_anywhere_is_refused() {
    let (images, labels) = (images(7), labels(7));
    let packed = gzip(&images);
    for end in 0..packed.len() {
        refused(&packed[..end], &labels, &["images: byte "]);
    }
}

#[test]
fn a_gzip_file_with_a_flipped_bit_never_reads_as_something_else() {
    let (images, labels) = (images(7), labels(7));
    let whole = read_pair(&images, &labels).expect("good");
    let packed = gzip(&images);
    let mut refusals = 0;
    for bit in 0..packed.len() * 8 {
        let mut broken = packed.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        match read_pair(&broken, &labels) {
            Ok(read) => assert_eq!(read, whole, "bit {bit}"), // in the header: time, system
            Err(error) => {
                assert!(error.to_string().contains(": byte "), "{error}");
                refusals += 1;
            }
        }
    }
    assert!(refusals > packed.len() * 4, "{refusals} refusals");
}

#[test]
fn bytes_after_the_data_are_refused() {
    let (more_images, more_labels) = ([images(7), vec![0]].concat(), [labels(7), vec![0]].concat());
    refused(&more_images, &labels(7), &["images: byte 58: the data ends here"]);
    refused(&images(7), &more_labels, &["labels: byte 15: the data ends here"]);
    refused(&gzip(&more_images), &labels(7), &["images: byte 58: the data ends here"]);
    refused(&[gzip(&images(7)), b"junk".to_vec()].concat(), &labels(7), &["images: byte 58"]);
}

#[test]
fn another_magic_is_refused() {
    refused(&labels(7), &images(7), &["images: byte 0", "0x00000803 (IDX images)", "starts with 0x00000801"]);
    refused(&images(7), &images(7), &["labels: byte 0", "0x00000801 (IDX labels)"]);
    refused(b"<!DOCTYPE html>", &labels(7), &["images: byte 0", "starts with 0x3c21444f"]);
}

#[test]
fn a_header_that_lies_is_refused_before_it_is_believed() {
    let count = u32::MAX.to_be_bytes();
    refused(&with(images(7), 4, &count), &labels(7), &["labels: byte 4", "says 7 labels", "has 4294967295 images"]);
    refused(
        &with(images(7), 4, &count),
        &with(labels(7), 4, &count),
        &["images: byte 4", "4294967295 images", "has 7"],
    );
    refused(&with(images(7), 8, &count), &labels(7), &["images: byte 8", "4294967295 rows", "has 2"]);
    // As many pixels, in another shape.
    let turned = with(images(7), 8, &[3u32, 2].map(u32::to_be_bytes).concat());
    refused(&turned, &labels(7), &["images: byte 8", "3 rows", "has 2"]);
    refused(&with(images(7), 12, &[0, 0, 0, 4]), &labels(7), &["images: byte 12", "4 columns", "has 3"]);
    refused(&images(6), &labels(6), &["images: byte 4", "says 6 images", "the data set has 7"]);
}

#[test]
fn images_and_labels_of_different_number_are_refused() {
    refused(&images(7), &labels(6), &["labels: byte 4", "says 6 labels", "images has 7 images"]);
}

#[test]
fn a_label_out_of_range_is_named_with_its_byte() {
    refused(&images(7), &with(labels(7), 11, &[4]), &["labels: byte 11: label 4 is out of range: must be below 4"]);
    assert!(read_pair(&images(7), &with(labels(7), 11, &[3])).is_ok(), "the highest class is a class");
}
