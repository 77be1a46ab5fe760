//! A file of a folder of images: JPEG, PNG or WebP.
//!
//! Held: no panic that leaves the decoder; memory in proportion to what the file can hold, whatever its header says.
#![no_main]

#[path = "../../crates/reslab-record/tests/hostile/allocation.rs"]
mod allocation;

use libfuzzer_sys::fuzz_target;
use reslab_image::{MAX_PIXELS, decode};

fuzz_target!(|data: &[u8]| {
    let (image, peak) = allocation::peak_of(|| decode(data));
    assert!(peak as u64 <= 10 * MAX_PIXELS, "{} bytes took {peak}", data.len());
    if let Ok(image) = image {
        assert_eq!(image.pixels().len() as u64, 3 * u64::from(image.width()) * u64::from(image.height()));
    }
});
