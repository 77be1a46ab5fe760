//! CIFAR's binary version: fixed records of labels and 3,072 pixels (red plane, green plane, blue plane), no header.
//!
//! Source: <https://www.cs.toronto.edu/~kriz/cifar.html>. The archive of the download is unpacked when it is fetched.

use std::path::PathBuf;

use super::{DecodeError, Place, RawPart, RawSet, Source, check_labels, find};

/// Records and files of one of the two data sets.
#[derive(Debug)]
pub struct Layout {
    /// The labels before the pixels, with the number of classes of each; the last one is the label that counts.
    labels: &'static [(&'static str, u64)],
    /// The training files in order.
    train: &'static [&'static str],
    test: &'static str,
    /// Records of each training file, and of the test file.
    records: (u64, u64),
}

/// CIFAR-10: one label.
pub const CIFAR10: Layout = Layout {
    labels: &[("label", 10)],
    train: &["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"],
    test: "test_batch.bin",
    records: (10_000, 10_000),
};

/// CIFAR-100: a coarse label, then the one that counts.
pub const CIFAR100: Layout = Layout {
    labels: &[("coarse label", 20), ("label", 100)],
    train: &["train.bin"],
    test: "test.bin",
    records: (50_000, 10_000),
};

const PIXELS: usize = 3 * 32 * 32;

/// Reads the `.bin` files, gzip or plain.
pub(super) fn read(layout: &Layout, files: &[PathBuf]) -> Result<RawSet, DecodeError> {
    let mut train = RawPart::default();
    for name in layout.train {
        let part = cifar_records(layout, Source::open(find(files, name)?)?, layout.records.0)?;
        train.pixels.extend(part.pixels);
        train.labels.extend(part.labels);
    }
    let test = cifar_records(layout, Source::open(find(files, layout.test)?)?, layout.records.1)?;
    Ok(RawSet { train, test })
}

/// The records of one file, which must have exactly so many.
///
/// # Errors
/// Names file and byte.
pub fn cifar_records(layout: &Layout, mut source: Source, records: u64) -> Result<RawPart, DecodeError> {
    let record = layout.labels.len() + PIXELS;
    let first = source.place();
    let bytes = source.take(records * record as u64, "records")?;
    source.end()?;
    let mut labels = Vec::new();
    for (nth, (what, classes)) in layout.labels.iter().enumerate() {
        labels = bytes.iter().skip(nth).step_by(record).copied().collect();
        let at = Place::new(first.file.clone(), first.offset + nth as u64);
        check_labels(&labels, (*classes, what), (&at, record as u64))?;
    }
    let mut pixels = Vec::with_capacity(labels.len() * PIXELS);
    for record in bytes.chunks_exact(record) {
        pixels.extend_from_slice(&record[layout.labels.len()..]);
    }
    Ok(RawPart { pixels, labels })
}

#[cfg(test)]
#[path = "cifar_tests.rs"]
mod tests;
