//! The digits that are embedded in the program: 1,797 real handwritten digits of 8x8 pixels.
//!
//! Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998,
//! doi:10.24432/C50P49, licence CC BY 4.0; the file is the one that scikit-learn distributes (`digits.csv.gz`), unchanged: per line 64
//! grey values of 0 to 16 (ink, row by row) and the label. Pixels stay 0 to 16: normalisation makes the scale irrelevant.
//!
//! The split is a rule, not a draw: of each class, in the file's order, the images 4, 9, 14, ... are test images ([`TEST_EVERY`]), the
//! others training images. The file holds its writers one after another, so both parts see every writer.

use std::io::Read;

use flate2::read::GzDecoder;
use reslab_fetch::decode::{DecodeError, Place, Problem, RawPart, RawSet};

use crate::dataset::DIGITS;

const FILE: &[u8] = include_bytes!("../data/digits.csv.gz");

/// Of so many consecutive images of a class the last is a test image.
pub(crate) const TEST_EVERY: usize = 5;

const PIXELS: usize = 64;
pub(crate) const INK: u8 = 16;
const CLASSES: u8 = 10;

/// The embedded digits, split.
pub(crate) fn read_digits() -> Result<RawSet, DecodeError> {
    Ok(split(&read(FILE)?))
}

fn split(all: &RawPart) -> RawSet {
    let mut set = RawSet { train: RawPart::default(), test: RawPart::default() };
    let mut seen = [0; CLASSES as usize];
    for (pixels, label) in all.pixels.chunks_exact(PIXELS).zip(&all.labels) {
        let nth = &mut seen[usize::from(*label)];
        let part = if *nth % TEST_EVERY == TEST_EVERY - 1 { &mut set.test } else { &mut set.train };
        *nth += 1;
        part.pixels.extend_from_slice(pixels);
        part.labels.push(*label);
    }
    set
}

/// Lines of 64 pixels and a label.
fn read(compressed: &[u8]) -> Result<RawPart, DecodeError> {
    let name = format!("{DIGITS}.csv.gz (embedded)");
    let mut text = Vec::new();
    let read = GzDecoder::new(compressed).read_to_end(&mut text);
    read.map_err(|source| DecodeError::Io { place: Place::new(name.clone(), text.len() as u64), source })?;

    let mut part = RawPart::default();
    let mut offset = 0;
    for (nth, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let at = Place::new(name.clone(), offset);
        read_line(line, &mut part).map_err(|problem| Problem::Line { line: nth as u64 + 1, problem }.at(at))?;
        offset += line.len() as u64;
    }
    Ok(part)
}

fn read_line(line: &[u8], part: &mut RawPart) -> Result<(), String> {
    let text = std::str::from_utf8(line).map_err(|_| "must be text".to_owned())?;
    let number = |field: &str| field.parse::<u8>().map_err(|_| format!("must hold numbers, but has {field:?}"));
    let numbers = text.trim_end().split(',').map(number).collect::<Result<Vec<u8>, _>>()?;
    let Some((label, pixels)) = numbers.split_last().filter(|(_, pixels)| pixels.len() == PIXELS) else {
        return Err(format!("must have {} numbers, but has {}", PIXELS + 1, numbers.len()));
    };
    if let Some(ink) = pixels.iter().find(|ink| **ink > INK) {
        return Err(format!("a pixel must be at most {INK}, but is {ink}"));
    }
    if *label >= CLASSES {
        return Err(format!("the label must be below {CLASSES}, but is {label}"));
    }
    part.pixels.extend_from_slice(pixels);
    part.labels.push(*label);
    Ok(())
}

#[cfg(test)]
#[path = "digits_tests.rs"]
mod tests;
