//! Files that are cut, damaged or lie: an error or an image, never a panic that leaves the decoder, and never much memory.

#[path = "../../reslab-record/tests/hostile/allocation.rs"]
mod allocation;

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use reslab_image::{Broken, MAX_PIXELS, decode};

const FILES: [&str; 9] = [
    "q90_444.jpg",
    "q85_420.jpg",
    "progressive.jpg",
    "cmyk.jpg",
    "rgb.png",
    "palette.png",
    "alpha.png",
    "lossless.webp",
    "lossy.webp",
];

fn file(name: &str) -> Vec<u8> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn a_file_that_was_cut_is_an_error_and_never_an_image_with_grey_in_it() {
    for name in FILES {
        let whole = file(name);
        let image = decode(&whole).unwrap();
        for kept in (1..whole.len()).step_by(7) {
            // The very last bytes say only that the file ends here.
            match decode(&whole[..kept]) {
                Err(_) => {}
                Ok(cut) => assert!(cut == image && whole.len() - kept <= 12, "{name}, {kept} of {}", whole.len()),
            }
        }
        assert!(decode(&whole[..whole.len() * 9 / 10]).is_err(), "{name}");
    }
    assert!(matches!(decode(&[]), Err(Broken::Empty)));
    assert!(matches!(decode(b"GIF89a.."), Err(Broken::Format(start)) if start == b"GIF89a.."));
}

/// Width and height where each format has them.
fn set_size(name: &str, bytes: &mut [u8], width: u32, height: u32) {
    if name.ends_with("jpg") {
        let at = bytes.windows(2).position(|pair| matches!(pair, [0xff, 0xc0 | 0xc2])).unwrap();
        bytes[at + 5..at + 7].copy_from_slice(&(height as u16).to_be_bytes());
        bytes[at + 7..at + 9].copy_from_slice(&(width as u16).to_be_bytes());
    } else if name.ends_with("png") {
        bytes[16..20].copy_from_slice(&width.to_be_bytes());
        bytes[20..24].copy_from_slice(&height.to_be_bytes());
        let checksum = crc32(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    } else if name == "lossless.webp" {
        let size = (width - 1) & 0x3fff | (((height - 1) & 0x3fff) << 14);
        bytes[21..25].copy_from_slice(&size.to_le_bytes());
    } else {
        bytes[26..28].copy_from_slice(&(width as u16 & 0x3fff).to_le_bytes());
        bytes[28..30].copy_from_slice(&(height as u16 & 0x3fff).to_le_bytes());
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

#[test]
fn a_header_that_promises_too_much_is_refused_before_memory_is_taken() {
    for name in FILES {
        let mut huge = file(name);
        let (width, height) = if name.ends_with("png") { (2_000_000, 2_000_000) } else { (16_383, 16_383) };
        set_size(name, &mut huge, width, height);
        match decode(&huge) {
            Err(Broken::Pixels { width: w, height: h }) => assert_eq!((w, h), (width.into(), height.into()), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        let mut large = file(name);
        set_size(name, &mut large, 8_192, 8_192);
        let (found, taken) = allocation::peak_of(|| decode(&large));
        assert!(taken as u64 <= 10 * MAX_PIXELS, "{name}: {taken} bytes for {} bytes of a file", large.len());
        assert!(found.is_err(), "{name}");
        let mut none = file(name);
        if !name.contains("lossless") {
            set_size(name, &mut none, 0, 8);
            assert!(decode(&none).is_err(), "{name} without a column");
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 300, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() })]

    #[test]
    fn damage_anywhere_is_an_error_or_an_image(
        nth in 0..FILES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = file(FILES[nth]);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(image) = decode(&bytes) {
            prop_assert_eq!(image.pixels().len() as u64, 3 * u64::from(image.width()) * u64::from(image.height()));
        }
    }

    #[test]
    fn bytes_behind_a_good_beginning_are_an_error_or_an_image(nth in 0..FILES.len(), tail in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = file(FILES[nth]);
        bytes.truncate(30);
        bytes.extend(tail);
        let _ = decode(&bytes);
    }
}
