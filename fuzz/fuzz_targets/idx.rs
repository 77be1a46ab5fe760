//! A pair of IDX files, plain or gzip: one byte says how many images are expected, two where the labels begin.
//!
//! Held: no panic; memory in proportion to what comes out of the files, whatever their headers say.
#![no_main]

#[path = "../../crates/reslab-record/tests/hostile/allocation.rs"]
mod allocation;

use libfuzzer_sys::fuzz_target;
use reslab_fetch::decode::{DataShape, Source, idx_part};

const SHAPE: DataShape = DataShape { channels: 1, height: 2, width: 3, classes: 4, train_images: 7, test_images: 2 };
/// Two decoders of gzip, with their windows, and the names in their headers.
const DECODERS: usize = 512 << 10;

fuzz_target!(|data: &[u8]| {
    let [count, high, low, files @ ..] = data else { return };
    let (images, labels) = files.split_at(usize::from(u16::from_be_bytes([*high, *low])).min(files.len()));
    let (part, peak) = allocation::peak_of(|| {
        idx_part(Source::new("images", images)?, Source::new("labels", labels)?, (&SHAPE, u64::from(*count)))
    });
    // What 255 images of the shape take, at the most, when they are there.
    assert!(peak <= 4 * (files.len() + 255 * 7) + DECODERS, "{} bytes took {peak}", files.len());
    match part {
        Ok(part) => {
            assert_eq!((part.labels.len(), part.pixels.len()), (usize::from(*count), 6 * usize::from(*count)));
            assert!(part.labels.iter().all(|label| *label < 4));
        }
        Err(error) => assert!(error.to_string().contains(": byte "), "{error}"),
    }
});
