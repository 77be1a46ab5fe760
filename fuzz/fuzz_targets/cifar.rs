//! A file of CIFAR's binary records, plain or gzip: the first byte chooses the layout and how many records are expected.
//!
//! Held: no panic; memory in proportion to what comes out of the file, whatever is expected of it.
#![no_main]

#[path = "../../crates/reslab-record/tests/hostile/allocation.rs"]
mod allocation;

use libfuzzer_sys::fuzz_target;
use reslab_fetch::decode::{CIFAR10, CIFAR100, Source, cifar_records};

const DECODER: usize = 256 << 10;

fuzz_target!(|data: &[u8]| {
    let [first, file @ ..] = data else { return };
    let (layout, labels) = if first & 1 == 0 { (&CIFAR10, 1) } else { (&CIFAR100, 2) };
    // A few records that can be there, or more than any file holds.
    let records = match first >> 1 {
        few @ 0..4 => u64::from(few),
        many => u64::from(many) << 32,
    };
    let (part, peak) = allocation::peak_of(|| cifar_records(layout, Source::new("records", file)?, records));
    // A file that unpacks is read as far as it goes, or as far as the records go.
    let unpacked = if file.starts_with(&[0x1f, 0x8b]) { 1100 * file.len() } else { file.len() };
    assert!(peak <= 4 * unpacked + DECODER, "{} bytes took {peak}", file.len());
    match part {
        Ok(part) => {
            assert_eq!((part.labels.len() as u64, part.pixels.len() as u64), (records, records * 3072));
            assert!(part.labels.iter().all(|label| u32::from(*label) < [10, 100][labels - 1]));
        }
        Err(error) => assert!(error.to_string().contains(": byte "), "{error}"),
    }
});
