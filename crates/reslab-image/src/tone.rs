//! Operations on colours, each pixel by itself or by the image's histogram; byte for byte those of Pillow's `ImageOps` and `ImageEnhance`.

use crate::Rgb;

/// A map of the bytes of each channel.
pub(crate) type Lut = [u8; 256];

pub(crate) fn lut(map: impl Fn(u8) -> u8) -> Lut {
    std::array::from_fn(|byte| map(byte as u8))
}

impl Rgb {
    pub(crate) fn map(mut self, luts: [Lut; 3]) -> Self {
        for pixel in self.pixels_mut().as_chunks_mut::<3>().0 {
            for (byte, lut) in pixel.iter_mut().zip(&luts) {
                *byte = lut[usize::from(*byte)];
            }
        }
        self
    }

    /// A map for each channel, made from its histogram.
    pub(crate) fn map_by_histogram(self, make: impl Fn(&[u32; 256]) -> Lut) -> Self {
        let mut counts = [[0u32; 256]; 3];
        for pixel in self.pixels().as_chunks::<3>().0 {
            for (byte, counts) in pixel.iter().zip(&mut counts) {
                counts[usize::from(*byte)] += 1;
            }
        }
        let luts = counts.each_ref().map(make);
        self.map(luts)
    }

    /// `degenerate + factor * (self - degenerate)`, cut to bytes: what `ImageEnhance` makes of an image and its degenerate form.
    fn enhanced(mut self, factor: f64, degenerate: impl Fn(usize, &[u8; 3]) -> [u8; 3]) -> Self {
        let factor = factor as f32;
        for (nth, pixel) in self.pixels_mut().as_chunks_mut::<3>().0.iter_mut().enumerate() {
            let from = degenerate(nth, pixel);
            for (byte, from) in pixel.iter_mut().zip(from) {
                let (own, from) = (i32::from(*byte), i32::from(from));
                // `as u8` cuts at both ends and towards zero, as the C code does.
                *byte = (from as f32 + factor * (own - from) as f32) as u8;
            }
        }
        self
    }

    /// 0: grey, 1: the image.
    pub(crate) fn color(self, factor: f64) -> Self {
        self.enhanced(factor, |_, pixel| [grey(pixel); 3])
    }

    /// 0: the mean grey everywhere, 1: the image.
    pub(crate) fn contrast(self, factor: f64) -> Self {
        let pixels = self.pixels().as_chunks::<3>().0;
        let sum: u64 = pixels.iter().map(|pixel| u64::from(grey(pixel))).sum();
        let mean = (sum as f64 / pixels.len() as f64 + 0.5) as u8;
        self.enhanced(factor, |_, _| [mean; 3])
    }

    /// 0: black, 1: the image.
    pub(crate) fn brightness(self, factor: f64) -> Self {
        self.enhanced(factor, |_, _| [0; 3])
    }

    /// 0: smoothed, 1: the image, 2: sharpened.
    pub(crate) fn sharpness(self, factor: f64) -> Self {
        let smooth = smooth(&self);
        self.enhanced(factor, |nth, _| smooth.as_chunks::<3>().0[nth])
    }
}

/// ITU-R 601-2, in Pillow's 16 binary places.
fn grey(pixel: &[u8; 3]) -> u8 {
    let [red, green, blue] = pixel.map(u32::from);
    ((19_595 * red + 38_470 * green + 7_471 * blue + 0x8000) >> 16) as u8
}

/// Each byte with its eight neighbours, 5/13 and 1/13 each; the border stays as it is.
fn smooth(image: &Rgb) -> Vec<u8> {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let (source, stride) = (image.pixels(), 3 * width);
    let mut out = source.to_vec();
    let (edge, middle) = (1.0f32 / 13.0, 5.0f32 / 13.0);
    for y in 1..height.saturating_sub(1) {
        for x in 3..stride.saturating_sub(3) {
            let at = y * stride + x;
            let row = |centre: usize, weight: f32| {
                f32::from(source[centre - 3]) * edge
                    + f32::from(source[centre]) * weight
                    + f32::from(source[centre + 3]) * edge
            };
            let sum = 0.5 + row(at + stride, edge) + row(at, middle) + row(at - stride, edge);
            out[at] = sum as u8;
        }
    }
    out
}

/// Each channel stretched over all bytes.
pub(crate) fn autocontrast(counts: &[u32; 256]) -> Lut {
    let low = counts.iter().position(|count| *count > 0).unwrap_or(0);
    let high = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    if high <= low {
        return lut(|byte| byte);
    }
    let scale = 255.0 / (high - low) as f64;
    let offset = -(low as f64) * scale;
    lut(|byte| (f64::from(byte) * scale + offset) as u8)
}

/// Each channel's bytes spread so that all are about equally frequent.
pub(crate) fn equalize(counts: &[u32; 256]) -> Lut {
    let last = counts.iter().rfind(|count| **count > 0).copied().unwrap_or(0);
    let step = (counts.iter().sum::<u32>() - last) / 255;
    if counts.iter().filter(|count| **count > 0).count() <= 1 || step == 0 {
        return lut(|byte| byte);
    }
    let mut seen = step / 2;
    let mut map = [0; 256];
    for (byte, count) in map.iter_mut().zip(counts) {
        *byte = (seen / step).min(255) as u8;
        seen += count;
    }
    map
}
