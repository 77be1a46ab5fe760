use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

/// CIFAR-100's layout in two training files of 3 records, and a test file of 2.
const SMALL: Layout = Layout {
    labels: &[("coarse label", 20), ("label", 100)],
    train: &["one.bin", "two.bin"],
    test: "test.bin",
    records: (3, 2),
};
const RECORD: usize = 2 + PIXELS;

/// Records of coarse label 5, labels from `first` on, and pixels that tell record and plane.
fn records(first: u8, number: u8) -> Vec<u8> {
    let record = |label: u8| {
        let planes = (0..3).flat_map(move |plane| [label * 3 + plane; 1024]);
        [5, label].into_iter().chain(planes).collect::<Vec<u8>>()
    };
    (first..first + number).flat_map(record).collect()
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    fs::write(dir.join(name), bytes).expect("written");
    dir.join(name)
}

/// Reads two good files and `two.bin` of these bytes.
fn read_with(two: &[u8]) -> Result<RawSet, DecodeError> {
    let dir = TempDir::new().expect("a folder");
    let files = [("two.bin", two), ("test.bin", &records(9, 2)), ("one.bin", &records(0, 3))];
    read(&SMALL, &files.map(|(name, bytes)| write(dir.path(), name, bytes)))
}

#[track_caller]
fn refused(two: &[u8], parts: &[&str]) {
    let error = read_with(two).expect_err("refused").to_string();
    for part in parts {
        assert!(error.contains(part), "{error} lacks {part:?}");
    }
}

#[test]
fn files_are_joined_in_the_layouts_order_and_the_last_label_counts() {
    let set = read_with(&records(3, 3)).expect("good files");
    assert_eq!(set.train.labels, [0, 1, 2, 3, 4, 5]);
    assert_eq!(set.test.labels, [9, 10]);
    assert_eq!(set.train.pixels.len(), 6 * PIXELS);
    // Record 4, last plane: 4 * 3 + 2.
    assert_eq!(set.train.pixels[4 * PIXELS + 2048..5 * PIXELS], [14; 1024]);
}

#[test]
fn a_file_of_another_size_is_refused_where_it_ends() {
    let good = records(3, 3);
    for end in [0, 1, RECORD, 2 * RECORD, 3 * RECORD - 1] {
        refused(&good[..end], &[&format!("two.bin: byte {end}: the file ends here, {} bytes", 3 * RECORD - end)]);
    }
    refused(&records(3, 4), &[&format!("two.bin: byte {}: the data ends here", 3 * RECORD)]);
}

#[test]
fn labels_out_of_range_are_named_with_their_byte() {
    let mut bytes = records(3, 3);
    bytes[2 * RECORD + 1] = 100;
    refused(&bytes, &[&format!("two.bin: byte {}: label 100", 2 * RECORD + 1), "below 100"]);
    bytes[RECORD] = 20;
    refused(&bytes, &[&format!("two.bin: byte {RECORD}: coarse label 20"), "below 20"]);
    bytes[RECORD] = 19;
    bytes[2 * RECORD + 1] = 99;
    assert!(read_with(&bytes).is_ok());
}

#[test]
fn a_missing_file_is_named() {
    let dir = TempDir::new().expect("a folder");
    let files = [write(dir.path(), "one.bin", &records(0, 3)), write(dir.path(), "test.bin", &records(0, 2))];
    let error = read(&SMALL, &files).expect_err("two.bin is not there").to_string();
    assert!(error.contains("no file two.bin"), "{error}");
}

#[test]
fn the_two_data_sets_have_the_sizes_of_their_published_files() {
    for (name, layout) in [("cifar10", &CIFAR10), ("cifar100", &CIFAR100)] {
        let published = crate::dataset(name).expect("known").files;
        let record = (layout.labels.len() + PIXELS) as u64;
        let (train, test) = layout.records;
        let ours = layout.train.iter().map(|file| (*file, train * record)).chain([(layout.test, test * record)]);
        assert_eq!(ours.collect::<Vec<_>>(), published.iter().map(|file| (file.name, file.bytes)).collect::<Vec<_>>());
    }
}
