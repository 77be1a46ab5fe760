//! Data files that are torn, odd or lie, and arbitrary ones: no panic, and no memory beyond the file's own size class.
//! Cases are the same in every run; more of them: `fuzz/`.

#[path = "../../reslab-record/tests/hostile/allocation.rs"]
mod allocation;

use std::io::Write;

use allocation::peak_of;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use reslab_fetch::decode::{
    CIFAR10, CIFAR100, DataShape, DecodeError, Layout, RawPart, Source, cifar_records, idx_part,
};

const SHAPE: DataShape = DataShape { channels: 1, height: 2, width: 3, classes: 4, train_images: 7, test_images: 2 };
const RECORD: usize = 3073;
/// What gzip's decoder holds: a window of 32 KiB, tables, buffers, and up to 64 KiB of a name in its header.
const DECODER: usize = 256 << 10;

fn cases(count: u32) -> Config {
    Config { cases: count, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() }
}

/// Memory in proportion to the bytes that come out of the files, whatever is expected of them.
fn bounded(bytes: usize, decode: impl FnOnce() -> Result<RawPart, DecodeError>) -> Result<RawPart, DecodeError> {
    let (part, peak) = peak_of(decode);
    let most = 4 * bytes + 2 * DECODER;
    assert!(peak <= most, "{bytes} bytes took {peak}: {:?}", part.err());
    if let Err(error) = &part {
        let text = error.to_string();
        assert!(text.contains(": byte "), "{text}");
    }
    part
}

/// A pair of files of which `count` images are expected; `unpacked` is what they may unpack to.
fn idx(images: &[u8], labels: &[u8], (count, unpacked): (u64, usize)) -> Result<RawPart, DecodeError> {
    bounded(unpacked, || idx_part(Source::new("images", images)?, Source::new("labels", labels)?, (&SHAPE, count)))
}

fn cifar(layout: &Layout, bytes: &[u8], (records, unpacked): (u64, usize)) -> Result<RawPart, DecodeError> {
    bounded(unpacked, || cifar_records(layout, Source::new("records", bytes)?, records))
}

fn header(magic: u32, sizes: &[u32]) -> Vec<u8> {
    [&[magic], sizes].concat().into_iter().flat_map(u32::to_be_bytes).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn good_pair() -> [Vec<u8>; 2] {
    let images = [header(0x803, &[7, 2, 3]), (0..42).collect()].concat();
    let labels = [header(0x801, &[7]), vec![0, 1, 2, 3, 0, 1, 2]].concat();
    [images, labels]
}

/// Records of one byte over and over each, so that they pack well.
fn good_records(count: usize) -> Vec<u8> {
    (0..count).flat_map(|n| [vec![(n % 10) as u8], vec![n as u8; RECORD - 1]].concat()).collect()
}

fn changed(mut bytes: Vec<u8>, at: &prop::sample::Index, with: &[u8]) -> Vec<u8> {
    let at = at.index(bytes.len());
    let end = bytes.len().min(at + with.len());
    bytes[at..end].copy_from_slice(&with[..end - at]);
    bytes
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn any_bytes_are_refused_without_panic(
        images in vec(any::<u8>(), 0..200), labels in vec(any::<u8>(), 0..50), packed in any::<bool>()
    ) {
        let lead: &[u8] = if packed { &[0x1f, 0x8b, 8] } else { &[] };
        let [images, labels] = [[lead, &images].concat(), [lead, &labels].concat()];
        prop_assert!(idx(&images, &labels, (7, 4096)).is_err());
        prop_assert!(cifar(&CIFAR10, &images, (1, 4096)).is_err());
        prop_assert!(cifar(&CIFAR100, &labels, (1, 4096)).is_err());
    }

    /// Header and expectation agree on up to 2^32 images, of which a few bytes are there.
    #[test]
    fn images_that_only_the_header_has_take_no_memory(
        count in prop_oneof![0..60_u32, any::<u32>()], there in 0..400_usize, zip in any::<bool>()
    ) {
        let images = [header(0x803, &[count, 2, 3]), vec![1; there]].concat();
        let labels = [header(0x801, &[count]), vec![1; there / 6]].concat();
        let [images, labels] = if zip { [gzip(&images), gzip(&labels)] } else { [images, labels] };
        let read = idx(&images, &labels, (count.into(), 500));
        prop_assert_eq!(read.is_ok(), there == count as usize * 6);
        prop_assert!(cifar(&CIFAR100, &images, (count.into(), 500)).is_err());
    }

    #[test]
    fn a_changed_pair_is_refused_or_has_the_shape_and_classes_that_are_expected(
        which in 0..4_usize, at in any::<prop::sample::Index>(), with in vec(any::<u8>(), 1..6)
    ) {
        let mut files = good_pair();
        let file = files[which % 2].clone();
        files[which % 2] = changed(if which < 2 { file } else { gzip(&file) }, &at, &with);
        if let Ok(part) = idx(&files[0], &files[1], (7, 200)) {
            prop_assert_eq!((part.pixels.len(), part.labels.len()), (42, 7));
            prop_assert!(part.labels.iter().all(|label| *label < 4));
        }
    }

    #[test]
    fn changed_records_are_refused_or_have_as_many_labels_as_expected(
        count in 1..4_usize, zip in any::<bool>(), at in any::<prop::sample::Index>(), with in vec(any::<u8>(), 0..6)
    ) {
        let good = good_records(count);
        let bytes = if zip { gzip(&good) } else { good.clone() };
        let bytes = if with.is_empty() { bytes } else { changed(bytes, &at, &with) };
        let read = cifar(&CIFAR10, &bytes, (count as u64, good.len()));
        prop_assert!(read.is_ok() || !with.is_empty());
        if let Ok(part) = read {
            prop_assert_eq!((part.labels.len(), part.pixels.len()), (count, count * (RECORD - 1)));
            prop_assert!(part.labels.iter().all(|label| *label < 10));
        }
    }
}

/// A few megabytes of gzip that unpack to a gigabyte: no more is unpacked than what the data set has.
#[test]
fn an_archive_that_unpacks_without_end_is_left_where_the_data_should_end() {
    let zeros = gzip(&vec![0; 64 << 20]);
    assert!(zeros.len() < 1 << 19, "{}", zeros.len());
    let endless = zeros.repeat(16);
    let error = cifar(&CIFAR10, &endless, (2, 2 * RECORD)).unwrap_err().to_string();
    assert!(error.contains("byte 6146: the data ends here"), "{error}");
    let named = [&[0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 0][..], &vec![b'n'; 4 << 20]].concat();
    assert!(cifar(&CIFAR10, &named, (2, 0)).is_err(), "a name of megabytes in its header");
}

/// Negative control: a decoder that takes a header at its word would be caught.
#[test]
#[should_panic(expected = "bytes took")]
fn a_decoder_that_believes_its_header_is_caught() {
    let images = header(0x803, &[u32::MAX, 2, 3]);
    let _ = bounded(images.len(), || {
        let mut count = Source::new("images", &images[4..])?;
        let pixels = Vec::with_capacity(count.take_u32("header")? as usize);
        Ok(RawPart { pixels, labels: Vec::new() })
    });
}
