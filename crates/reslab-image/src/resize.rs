//! Bicubic resizing with antialiasing: byte for byte what `Image.resize(size, BICUBIC)` of Pillow computes.
//!
//! A cubic kernel (a = -0.5) that grows with the factor by which the image shrinks, weights rounded to 22 binary places, first along the
//! rows and then along the columns, each rounded to bytes. Integers, so every processor gives the same bytes. Pillow 13 begins with the columns where
//! the height shrinks by more than twice as many pixels as the width; Pillow before 13, as this, never does. That changes a byte by 1.

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
    assert!(part.left + part.width <= width, "{part:?} is not inside {width} columns");
    let (left, columns) = (part.left as usize, part.width as usize);
    let rows = source.as_chunks::<C>().0.chunks_exact(width as usize);
    let rows = rows.skip(part.top as usize).take(part.height as usize);
    let rows: Vec<&[[u8; C]]> = rows.map(|row| &row[left..left + columns]).collect();
    assert_eq!(rows.len(), part.height as usize, "{part:?} is not inside the image");
    let narrow = if part.width == to.0 {
        rows.concat()
    } else {
        // Columns as rows, so that there is one loop, over what lies side by side.
        let resized = along_columns(&transposed(&rows), &taps(part.width, to.0));
        transposed(&resized.chunks_exact(rows.len()).collect::<Vec<_>>())
    };
    let out = if part.height == to.1 { narrow } else { along_columns(&narrow, &taps(part.height, to.1)) };
    out.as_flattened().to_vec()
}

/// Rows as columns.
fn transposed<const C: usize>(rows: &[&[[u8; C]]]) -> Vec<[u8; C]> {
    let mut out = vec![[0; C]; rows.len() * rows.first().map_or(0, |row| row.len())];
    for (y, row) in rows.iter().enumerate() {
        for (pixel, out) in row.iter().zip(out[y..].iter_mut().step_by(rows.len())) {
            *out = *pixel;
        }
    }
    out
}

/// Every target row is a sum of source rows.
fn along_columns<const C: usize>(source: &[[u8; C]], taps: &[Taps]) -> Vec<[u8; C]> {
    let rows = taps.last().map_or(0, |last| last.first + last.weights.len());
    let stride = C * (source.len() / rows);
    let mut out = vec![[0; C]; stride / C * taps.len()];
    let mut sums = vec![0; stride];
    for (target, out) in taps.iter().zip(out.as_flattened_mut().chunks_exact_mut(stride)) {
        let rows = source.as_flattened().chunks_exact(stride).skip(target.first);
        widest(target, rows, &mut sums, out);
    }
    out
}

/// One target row. Compiled for the widest registers that the processor has, where that is known: the same bytes, sooner.
fn widest<'a>(target: &Taps, rows: impl Iterator<Item = &'a [u8]>, sums: &mut [i32], out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn wide<'a>(target: &Taps, rows: impl Iterator<Item = &'a [u8]>, sums: &mut [i32], out: &mut [u8]) {
            sum(target, rows, sums, out);
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has it.
            return unsafe { wide(target, rows, sums, out) };
        }
    }
    sum(target, rows, sums, out);
}

/// Sums can't overflow: weights add up to 1, and their absolute values to less than 2, in 22 places. `wrapping_` tells the compiler so where it
/// would check every addition, and not do several at once.
#[inline(always)]
fn sum<'a>(target: &Taps, rows: impl Iterator<Item = &'a [u8]>, sums: &mut [i32], out: &mut [u8]) {
    sums.fill(HALF);
    for (weight, row) in target.weights.iter().zip(rows) {
        for (sum, byte) in sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(weight.wrapping_mul(i32::from(*byte)));
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = (*sum >> PLACES).clamp(0, 255) as u8;
    }
}
