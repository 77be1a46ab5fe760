//! IDX, the format of MNIST: a big-endian header (magic, one size per dimension), then the bytes.
//!
//! Source: <http://yann.lecun.com/exdb/mnist/>. The magic is 0, 0, 8 (unsigned bytes), number of dimensions.

use std::path::PathBuf;

use super::{DataShape, DecodeError, Problem, RawPart, RawSet, Source, check_labels, find};

const IMAGES: u32 = 0x0000_0803;
const LABELS: u32 = 0x0000_0801;

/// Reads the four files: training images and labels, test images and labels, found by their names.
pub(super) fn read(shape: &DataShape, files: &[PathBuf]) -> Result<RawSet, DecodeError> {
    let part = |prefix: &str, images: u64| {
        let images_file = find(files, &format!("{prefix}-images"))?;
        let labels_file = find(files, &format!("{prefix}-labels"))?;
        idx_part(Source::open(images_file)?, Source::open(labels_file)?, (shape, images))
    };
    Ok(RawSet { train: part("train", shape.train_images)?, test: part("t10k", shape.test_images)? })
}

/// Images and labels of one part, which must have as many as `expected` says.
///
/// # Errors
/// Names file and byte.
pub fn idx_part(mut images: Source, mut labels: Source, expected: (&DataShape, u64)) -> Result<RawPart, DecodeError> {
    let (shape, count) = expected;

    // Both headers before any data: a pair that does not belong together is told as such.
    magic(&mut images, IMAGES, "IDX images")?;
    magic(&mut labels, LABELS, "IDX labels")?;
    let (at_images, at_labels) = (images.place(), labels.place());
    let num_images = u64::from(images.take_u32("header")?);
    let num_labels = u64::from(labels.take_u32("header")?);
    if num_images != num_labels {
        let file = images.name().to_owned();
        return Err(Problem::Unpaired { file, images: num_images, labels: num_labels }.at(at_labels));
    }
    if num_images != count {
        return Err(Problem::Header { what: "images", expected: count, found: num_images }.at(at_images));
    }
    dimension(&mut images, "rows", shape.height)?;
    dimension(&mut images, "columns", shape.width)?;

    let pixels = images.take(count * shape.image_bytes() as u64, "pixels")?;
    images.end()?;
    let first = labels.place();
    let found = labels.take(count, "labels")?;
    labels.end()?;
    check_labels(&found, (shape.classes as u64, "label"), (&first, 1))?;
    Ok(RawPart { pixels, labels: found })
}

fn magic(source: &mut Source, expected: u32, what: &'static str) -> Result<(), DecodeError> {
    let place = source.place();
    let found = source.take_u32("header")?;
    if found == expected { Ok(()) } else { Err(Problem::Magic { what, expected, found }.at(place)) }
}

fn dimension(source: &mut Source, what: &'static str, expected: i64) -> Result<(), DecodeError> {
    let place = source.place();
    let found = u64::from(source.take_u32("header")?);
    let expected = expected as u64;
    if found == expected { Ok(()) } else { Err(Problem::Header { what, expected, found }.at(place)) }
}

#[cfg(test)]
#[path = "idx_tests.rs"]
mod tests;
