//! JPEG, PNG and WebP files as images of three channels.
//!
//! The format is told by the first bytes, not by the name. Grey is repeated, alpha is left out (not blended), CMYK is converted, 16 bits
//! are cut to 8, of an animation the first picture counts, and an orientation in the metadata is not applied: as `Image.open(path).convert("RGB")`
//! of Pillow, which torchvision's loader calls; but 16-bit grey, which that clips to white, keeps its upper 8 bits.
//!
//! A file that ends too early is an error, never an image with grey in it; data that are damaged so that they still make sense are not
//! noticed. Memory is at most some 10 bytes for each pixel of [`MAX_PIXELS`], whatever a header says.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;

use crate::Rgb;

/// The most pixels that an image may have: 8192 x 8192.
pub const MAX_PIXELS: u64 = 1 << 26;
/// The most bytes that a file may have: those of that many pixels, uncompressed.
const MAX_BYTES: u64 = 3 * MAX_PIXELS;

/// What is wrong with an image's file.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The operating system's words.
    #[error("can't be read: {0}")]
    Io(#[from] io::Error),
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// More bytes than any image needs.
    #[error("the file has more than {MAX_BYTES} bytes")]
    Long,
    /// The first bytes are of no format that is read here.
    #[error("it is no JPEG, PNG or WebP: it starts with {0:02x?}")]
    Format(Vec<u8>),
    /// More pixels than an image may have, or none.
    #[error("its header says {width} x {height} pixels, but 1 to {MAX_PIXELS} can be read")]
    Pixels {
        /// Columns.
        width: u64,
        /// Rows.
        height: u64,
    },
    /// The decoder's words.
    #[error("it can't be decoded as {format}: {problem}")]
    Decode {
        /// The format that its first bytes are of.
        format: &'static str,
        /// What the decoder says.
        problem: String,
    },
}

/// Reads an image's file.
///
/// # Errors
/// What is wrong with it; the path is the caller's to name.
pub fn read(path: &Path) -> Result<Rgb, Broken> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Broken::Long);
    }
    decode(&bytes)
}

/// Decodes the bytes of a file.
///
/// # Errors
/// What is wrong with them.
pub fn decode(bytes: &[u8]) -> Result<Rgb, Broken> {
    type Decoder = fn(&[u8]) -> Result<Rgb, Broken>;
    let (format, decoder): (_, Decoder) = match bytes {
        [] => return Err(Broken::Empty),
        [0xff, 0xd8, 0xff, ..] => ("JPEG", jpeg),
        [0x89, b'P', b'N', b'G', ..] => ("PNG", png),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => ("WebP", webp),
        _ => return Err(Broken::Format(bytes.iter().take(8).copied().collect())),
    };
    // A decoder that panics has met a file that it can't decode; the run goes on or ends as it does with any other such file.
    catch_unwind(AssertUnwindSafe(|| decoder(bytes)))
        .unwrap_or_else(|_| Err(Broken::Decode { format, problem: "the decoder panicked".to_owned() }))
}

fn jpeg(bytes: &[u8]) -> Result<Rgb, Broken> {
    let failed =
        |problem: zune_jpeg::errors::DecodeErrors| Broken::Decode { format: "JPEG", problem: problem.to_string() };
    // Strict: without it a file that ends too early is an image that is grey below.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(Cursor::new(bytes), options);
    decoder.decode_headers().map_err(failed)?;
    let info = decoder.info().ok_or(Broken::Empty)?;
    let (width, height) = size(info.width.into(), info.height.into())?;
    let refuse = |problem: &str| Err(Broken::Decode { format: "JPEG", problem: problem.to_owned() });
    // A block of 8 x 8 pixels takes a bit at least.
    if u64::from(width.div_ceil(8)) * u64::from(height.div_ceil(8)) > 8 * bytes.len() as u64 {
        return refuse(&format!("{width} x {height} pixels can't be in {} bytes", bytes.len()));
    }
    if !has_end(bytes) {
        return refuse("the file ends before its end marker");
    }
    Ok(Rgb::new(width, height, decoder.decode().map_err(failed)?))
}

/// Whether a JPEG's segments lead to its end marker. The decoder notices a missing end only where whole rows of blocks are missing.
fn has_end(bytes: &[u8]) -> bool {
    const END: u8 = 0xd9;
    let mut at = 2; // behind the start marker
    loop {
        // The next marker: 0xff and a byte that is none of those that stand in a scan's data.
        let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0x00 | 0xff | 0xd0..=0xd7);
        let Some(found) = bytes.get(at..).and_then(|rest| rest.windows(2).position(is_marker)) else { return false };
        at += found + 2;
        match (bytes[at - 1], bytes.get(at..at + 2)) {
            (END, _) => return true,
            (0x01, _) => {}
            (_, None) => return false,
            // Behind the header of a scan comes its data, in which the search for the next marker goes on.
            (_, Some(length)) => at += usize::from(u16::from_be_bytes([length[0], length[1]])),
        }
    }
}

fn png(bytes: &[u8]) -> Result<Rgb, Broken> {
    let failed = |problem: png::DecodingError| Broken::Decode { format: "PNG", problem: problem.to_string() };
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(failed)?;
    let (width, height) = size(reader.info().width.into(), reader.info().height.into())?;
    let channels = reader.output_color_type().0.samples();
    let mut pixels = vec![0; channels * width as usize * height as usize];
    reader.next_frame(&mut pixels).map_err(failed)?;
    // Whatever follows the pixels must be there too: its checksums tell a file that was cut.
    reader.finish().map_err(failed)?;
    Ok(rgb(width, height, pixels, channels))
}

fn webp(bytes: &[u8]) -> Result<Rgb, Broken> {
    let failed = |problem: image_webp::DecodingError| Broken::Decode { format: "WebP", problem: problem.to_string() };
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(bytes)).map_err(failed)?;
    let (width, height) = decoder.dimensions();
    let (width, height) = size(width.into(), height.into())?;
    decoder.set_memory_limit(MAX_BYTES as usize);
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let mut pixels = vec![0; channels * width as usize * height as usize];
    decoder.read_image(&mut pixels).map_err(failed)?;
    Ok(rgb(width, height, pixels, channels))
}

/// The size that a header promises, before anything is allocated for it.
fn size(width: u64, height: u64) -> Result<(u32, u32), Broken> {
    match width.checked_mul(height) {
        Some(1..=MAX_PIXELS) => Ok((width as u32, height as u32)),
        _ => Err(Broken::Pixels { width, height }),
    }
}

/// From pixels of 1 to 4 bytes: grey, grey and alpha, RGB, RGB and alpha.
fn rgb(width: u32, height: u32, pixels: Vec<u8>, channels: usize) -> Rgb {
    let pixels = match channels {
        3 => pixels,
        4 => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        grey => pixels.chunks_exact(grey).flat_map(|pixel| [pixel[0]; 3]).collect(),
    };
    Rgb::new(width, height, pixels)
}
