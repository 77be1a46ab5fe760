//! Bicubic resizing with antialiasing: byte for byte what `Image.resize(size, BICUBIC)` of Pillow computes.
//!
//! A cubic kernel (a = -0.5) that grows with the factor by which the image shrinks, weights rounded to 22 binary places, first along the
//! rows and then along the columns, each rounded to bytes. Integers, so every processor gives the same bytes. fast_image_resize goes along
//! the columns first, which differs by up to 15 where black meets white.

use crate::{Region, Rgb};

/// Reach of the kernel in source pixels, where the image does not shrink.
const SUPPORT: f64 = 2.0;
/// Binary places of a weight.
const PLACES: u32 = 22;
/// A half, in these places: what makes cutting rounding.
const HALF: i32 = 1 << (PLACES - 1);

/// Resizes one channel, row by row, from (width, height) to (width, height).
///
/// # Panics
/// If the plane has another size, or one of them is 0.
pub fn resize_plane(plane: &[u8], from: (u32, u32), to: (u32, u32)) -> Vec<u8> {
    assert_eq!(plane.len(), from.0 as usize * from.1 as usize, "bytes of a plane of {from:?}");
    let part = Region { top: 0, left: 0, width: from.0, height: from.1 };
    resize::<1>(plane, from.0, part, to)
}

impl Rgb {
    /// A part of it, resized: cut first, so that no pixel around the part is seen, as torchvision's `resized_crop`.
    ///
    /// # Panics
    /// If the part is not inside the image, or a size is 0.
    pub fn resized(&self, part: Region, width: u32, height: u32) -> Self {
        Self::new(width, height, resize::<3>(self.pixels(), self.width(), part, (width, height)))
    }

    /// What an evaluation sees: the shorter side resized to floor(size / crop_ratio) with the longer one in proportion, and of that the
    /// square of `size` in the centre, as timm's evaluation transform with `crop_pct`.
    ///
    /// # Panics
    /// If `size` is 0, or `crop_ratio` is not above 0 and at most 1.
    pub fn centre(&self, size: u32, crop_ratio: f64) -> Self {
        assert!(size > 0 && crop_ratio > 0.0 && crop_ratio <= 1.0, "{size} pixels, crop ratio {crop_ratio}");
        let short = (f64::from(size) / crop_ratio) as u32;
        let longer = |long: u32, side: u32| (u64::from(short) * u64::from(long) / u64::from(side)) as u32;
        let (width, height) = if self.width() <= self.height() {
            (short, longer(self.height(), self.width()))
        } else {
            (longer(self.width(), self.height()), short)
        };
        // Python rounds a half to the even neighbour.
        let start = |side: u32| (f64::from(side - size) / 2.0).round_ties_even() as u32;
        let part = Region { top: start(height), left: start(width), height: size, width: size };
        self.resized(self.region(), width, height).crop(part)
    }
}

/// The source pixels that make one target pixel.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    match x {
        _ if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        _ if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => 0.0,
    }
}

/// The taps of each of `to` pixels that are made of `from`.
fn taps(from: u32, to: u32) -> Vec<Taps> {
    let step = f64::from(from) / f64::from(to);
    let stretch = step.max(1.0);
    let reach = SUPPORT * stretch;
    let one = |target: u32| {
        let centre = (f64::from(target) + 0.5) * step;
        let first = (centre - reach + 0.5).max(0.0) as usize;
        let end = ((centre + reach + 0.5) as usize).min(from as usize);
        // Pillow multiplies with the inverse: dividing would round otherwise.
        let inverse = 1.0 / stretch;
        let weights: Vec<f64> = (first..end).map(|source| cubic((source as f64 - centre + 0.5) * inverse)).collect();
        let sum: f64 = weights.iter().sum();
        let fixed = |weight: &f64| {
            let weight = weight / sum * f64::from(1 << PLACES);
            (if weight < 0.0 { weight - 0.5 } else { weight + 0.5 }) as i32
        };
        Taps { first, weights: weights.iter().map(fixed).collect() }
    };
    (0..to).map(one).collect()
}

/// source: `[H, width, C]` -> `[to.1, to.0, C]`, from a part of it.
fn resize<const C: usize>(source: &[u8], width: u32, part: Region, to: (u32, u32)) -> Vec<u8> {
    assert!(to.0 > 0 && to.1 > 0 && part.width > 0 && part.height > 0, "a size of 0: {part:?} to {to:?}");
    let (stride, start) = (C * width as usize, C * part.left as usize);
    let rows = source.chunks_exact(stride).skip(part.top as usize).take(part.height as usize);
    let rows = rows.map(|row| &row[start..start + C * part.width as usize]);
    let narrow: Vec<u8> = if part.width == to.0 {
        rows.flatten().copied().collect()
    } else {
        along_rows::<C>(rows, &taps(part.width, to.0))
    };
    if part.height == to.1 { narrow } else { along_columns(&narrow, C * to.0 as usize, &taps(part.height, to.1)) }
}

fn along_rows<'a, const C: usize>(rows: impl Iterator<Item = &'a [u8]>, taps: &[Taps]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        let (pixels, _) = row.as_chunks::<C>();
        for target in taps {
            let mut sums = [HALF; C];
            for (weight, pixel) in target.weights.iter().zip(&pixels[target.first..]) {
                for (sum, byte) in sums.iter_mut().zip(pixel) {
                    *sum += weight * i32::from(*byte);
                }
            }
            out.extend(sums.map(byte));
        }
    }
    out
}

/// Whole rows at a time, so that the compiler can add up several bytes at once.
fn along_columns(source: &[u8], stride: usize, taps: &[Taps]) -> Vec<u8> {
    let mut out = Vec::with_capacity(stride * taps.len());
    let mut sums = vec![0i32; stride];
    for target in taps {
        sums.fill(HALF);
        for (weight, row) in target.weights.iter().zip(source.chunks_exact(stride).skip(target.first)) {
            for (sum, byte) in sums.iter_mut().zip(row) {
                *sum += weight * i32::from(*byte);
            }
        }
        out.extend(sums.iter().copied().map(byte));
    }
    out
}

fn byte(sum: i32) -> u8 {
    (sum >> PLACES).clamp(0, 255) as u8
}
