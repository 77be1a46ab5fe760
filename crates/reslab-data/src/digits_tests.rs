use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::{DATASETS, DataShape};

fn counts(part: &RawPart) -> Vec<usize> {
    (0..CLASSES).map(|class| part.labels.iter().filter(|label| **label == class).count()).collect()
}

/// Class counts of `sklearn.datasets.load_digits()` (scikit-learn 1.x): `np.bincount(load_digits().target)`.
#[test]
fn all_digits_are_there_in_the_known_class_counts() {
    let all = read(FILE).expect("embedded");
    assert_eq!(counts(&all), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    assert_eq!(all.pixels.len(), 1797 * 64);
}

/// `load_digits().images[0]`, a zero: the first line of the file.
#[test]
fn the_first_image_is_the_first_line() {
    let first = [
        [0, 0, 5, 13, 9, 1, 0, 0],
        [0, 0, 13, 15, 10, 15, 5, 0],
        [0, 3, 15, 2, 0, 11, 8, 0],
        [0, 4, 12, 0, 0, 8, 8, 0],
        [0, 5, 8, 0, 0, 9, 8, 0],
        [0, 4, 11, 0, 1, 12, 7, 0],
        [0, 2, 14, 5, 10, 12, 0, 0],
        [0, 0, 6, 13, 10, 0, 0, 0],
    ];
    let all = read(FILE).expect("embedded");
    assert_eq!(all.pixels[..64], first.concat());
    assert_eq!(all.labels[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // Of the zeros the first four are training images: the first image opens the training part.
    assert_eq!(read_digits().expect("embedded").train.pixels[..64], first.concat());
}

#[test]
fn every_fifth_image_of_a_class_is_a_test_image() {
    let (all, set) = (read(FILE).expect("embedded"), read_digits().expect("embedded"));
    assert_eq!(counts(&set.test), [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]);
    assert_eq!(counts(&set.train), [143, 146, 142, 147, 145, 146, 145, 144, 140, 144]);
    let DataShape { train_images, test_images, .. } = DATASETS[0].shape;
    assert_eq!((set.train.labels.len() as u64, set.test.labels.len() as u64), (train_images, test_images));

    let pixels = |part: &RawPart, nth: usize| part.pixels[nth * 64..][..64].to_vec();
    let of_class = |part: &RawPart, class: u8| -> Vec<Vec<u8>> {
        (0..part.labels.len()).filter(|nth| part.labels[*nth] == class).map(|nth| pixels(part, nth)).collect()
    };
    for class in 0..CLASSES {
        let expected: Vec<_> = of_class(&all, class).into_iter().skip(4).step_by(TEST_EVERY).collect();
        assert_eq!(of_class(&set.test, class), expected);
    }
}

#[track_caller]
fn refused(text: &str, parts: &[&str]) {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).expect("memory");
    let error = read(&gzip.finish().expect("memory")).expect_err("refused").to_string();
    for part in parts {
        assert!(error.contains(part), "{error} lacks {part:?}");
    }
}

#[test]
fn a_broken_line_is_named_with_its_byte() {
    let good = format!("{}7\n", "1,".repeat(64));
    let byte = format!("byte {}: line 2", good.len());
    refused(&format!("{good}{}", good.replace("7\n", "10\n")), &[&byte, "below 10, but is 10"]);
    refused(&format!("{good}{}", good.replacen("1,", "17,", 1)), &[&byte, "at most 16, but is 17"]);
    refused(&format!("{good}{}", good.replacen("1,", "", 1)), &[&byte, "65 numbers, but has 64"]);
    refused(&format!("{good}{}", good.replacen('1', "x", 1)), &[&byte, "has \"x\""]);
    refused(&format!("{good}\n"), &[&byte]);
    assert!(read(&FILE[..FILE.len() / 2]).is_err(), "half of the file");
}
